// Package surefoot is the manual of a library that stands between a Go
// service and its LLM upstreams and makes every answer either whole or an
// honest error. It holds no code: most callers should use resilience.Builder
// for one provider and failover.NewChain for several.
//
// # The stack
//
// A resilience.Transport is an http.RoundTripper. From the outside in:
//
//	call              looks at the request once, records the call, renders errors as responses
//	breaker           one verdict a call; rejects at once while open
//	retry             attempts against the same provider
//	completion guard  holds a stream back, then watches that it ends
//	unmasker          judges a 2xx for what it is
//	idle timeout      bounds silence inside a started body
//	base              your transport
//
// Each layer also works alone on any RoundTripper: packages retry, breaker
// and streamguard. Above the stack stands failover.Chain, which moves on to
// the next provider or model; beside it discovery.Registry, which knows
// what can be served now.
//
// # Two phases
//
// Until something has been handed to the caller, every failure can be
// retried or failed over. From then on it can only be told: by one error
// event in the stream's own format and by an error from Read. A stream is
// handed out with its first data event; stream.hold_until moves that point to
// its first content or to its end.
//
// # Who retries, counts and fails over
//
//	upstream                      caller gets                              retried    breaker  fails over
//	refused, reset, DNS, TLS      an error naming the provider (502)       yes        failure  yes
//	429, 502, 503, 504, 522, 524  the last answer, once retries are used   yes        failure  yes
//	500 and other 5xx             the answer, at once                      no         failure  yes
//	4xx other than 429            the answer                               no         neutral  on a phrase
//	429: quota, billing           the answer                               no         failure  yes
//	error in a 2xx                the status it stands for                 like it    like it  like it
//	empty, HTML, drift in a 2xx   502                                      yes        failure  yes
//	ticket for later (202, …)     the ticket, as it came                   no         success  no
//	stream breaks off, held back  the failure, or 502                      on demand  failure  yes
//	stream breaks off, handed out its events, an error event, an error     no         failure  no
//	stream reports its failure    its events, an error with its status     no         like it  no
//	local timeout                 an error (504)                           no         failure  yes
//	breaker open                  503                                      no         -        yes
//	caller cancelled              the base's own error (0)                 no         neutral  no
//	request that cannot be sent   an error                                 no         neutral  no
//
// The status in brackets is what resilience.StatusOf returns. A streaming
// call is re-sent only with retry.streams: held_back; failing over to another
// target while it is held back needs no switch.
//
// # Waiting
//
// Retries wait by their own backoff or for as long as the upstream asks, up to
// retry.max_backoff. Two things end them early, because waiting would help
// nobody. Before a wait and after it the retry asks the breaker again: only a
// closed one lets it go on, so that a burst into an outage is not multiplied by
// the calls that the breaker had let in (resilience.Call.NoRetry is
// circuit_open). And where a chain could try another target now, the waits on
// this one add up to failover.patience at most: 3.5 s, time for two retries of
// the default backoff (NoRetry is moved_on, as is failover.Attempt.MovedOn). The
// last target that is left keeps its whole budget. With failover.wait_for a call
// whose targets are all open waits for the first that comes back; it is off by
// default, since a person is better served by an error at once.
//
// A request that names what only one account knows (previous_response_id, a
// file, sealed reasoning, …) fails over to targets of that account alone, see
// package failover: anywhere else the name means nothing.
//
// # What an answer is
//
// A path says which format is expected, not which one comes. A body with the
// members of another known format is judged by that format; one with those of
// none, and no sign of an error, is delivered with one warning, unknown_shape.
// An answer that accepts work to be done later is a ticket: any 202, or a handle
// (id, request_id, …) where the request asked for that or a status word (queued,
// pending, …) says so. It is a success and resilience.Call.Accepted.
//
// What an error stands for is read from its code, type and status, by known
// parts of words (rate_limit, quota, overloaded, invalid_, …) and never from
// text that is meant for people. resilience.Policy.Words adds a provider's own
// words; failover.Policy.Words adds wordings for a model that is gone.
//
// # Deadlines
//
// Give every call a deadline, by its context or by http.Client.Timeout, or set
// timeout: it is off by default, since some providers generate for minutes.
// timeout, attempt_timeout and a target's timeout end when the answer is handed
// out: a whole answer read and judged, a stream's first data event (with
// hold_until what it waits for), any other answer's headers. A server that sends
// headers, or blank lines, and then nothing is thus bounded by each of them.
// idle_timeout begins with the first byte and bounds silence alone.
//
// What the library reads of an answer that may still go back (for advice, for
// a phrase, while another target is tried) is bounded by 64 KiB and half a
// second. The answer stays whole: what was read comes first, then the rest as
// it arrives.
//
// # What an SDK above should know
//
// The official SDKs retry any transport error twice by themselves. Set their
// own retries to 0. Where the stack retried, it adds x-should-retry: false to
// the last answer, which they obey; a rejection and an unmasked failure are
// responses for the same reason. With errors_as_responses: all transport
// failures and local timeouts are responses as well.
//
// net/http itself re-sends a request that has an Idempotency-Key and GetBody
// when a reused connection turns out dead, and a request with GetBody on an
// HTTP/2 GOAWAY: no layer can see that, so an upstream may count one request
// more than the attempts of a call.
//
// Under http.Client.Timeout the client replaces a body's error by its own
// text. What must survive goes by the context: resilience.CallOf reads it
// from the response, failover.WithTrace from the call's context.
//
// A redirect's exchange is recorded as a call of its own, in the format of
// the call before it.
//
// # What happened to a call
//
// resilience.CallOf reads the record of a call (attempts, status, outcome)
// from its response; Builder.OnCall is given every call's, those that ended in
// an error too. resilience.Rejection tells an open breaker's 503 from an
// upstream's own. failover.AttemptsOf, failover.Error and failover.WithTrace
// list the targets of a chain.
//
// # Metrics
//
// With a MeterProvider in resilience.Builder and failover.Policy, and by the
// OpenTelemetry GenAI conventions where they have a name:
//
//	gen_ai.client.operation.duration             histogram  s           a call, its retries and its body included
//	gen_ai.client.operation.time_to_first_chunk  histogram  s           a call's start to its stream's first data event
//	surefoot.circuit_breaker.state               gauge                  0 closed, 1 half-open, 2 open; the worst of a provider's
//	surefoot.client.empty_responses              counter    {response}  answers with nothing in them, or in no known form
//	surefoot.client.accepted                     counter    {response}  tickets: the work is to be done later
//	surefoot.client.retries                      counter    {retry}     attempts after a call's first
//	surefoot.client.rejections                   counter    {call}      calls that a breaker did not let through
//	surefoot.client.incomplete_streams           counter    {stream}    streams that broke off, stalled or reported an error
//	surefoot.failover.attempts                   counter    {attempt}   targets that were tried or passed over
//	surefoot.failover.calls                      counter    {call}      calls through chains, by who answered
//
// One record a call, never one an attempt; the histograms leave out calls of
// an unknown format. All but surefoot.failover.calls have
// surefoot.provider.name, the configured name, and those of a stack
// gen_ai.request.model where the request names one. The histograms have
// gen_ai.operation.name (by the format), gen_ai.provider.name (by
// resilience.Builder.ProviderType, else by the format) and
// gen_ai.request.stream. A disabled breaker has no state, and a stack that was
// dropped has none once it is collected: a MeterProvider does not keep it.
//
// error.type is absent on success. It is a status in use, such as 503, that
// the caller saw, or a word, else _OTHER:
//
//	duration            transport_error timeout canceled closed (by the caller, early) panic,
//	                    request_error (could not be sent), circuit_open circuit_capacity,
//	                    and those of incomplete_streams
//	empty_responses     no_choices no_usage no_output unknown_shape
//	rejections          circuit_open circuit_capacity
//	incomplete_streams  stream_incomplete (ended too early) transport_error timeout (the caller's)
//	                    idle_timeout event_timeout malformed in_band_error stream_error
//
// surefoot.failover.outcome of failover.attempts is success, error (a status),
// transport_error, timeout, canceled, skipped or rejected (by an open
// breaker); of failover.calls first, backup, failed or canceled.
//
// A stack names at most 100 models, the first that it meets; the rest are
// _OTHER, as are names of more than 128 bytes. No attribute holds a prompt, an
// answer, a credential or an upstream's text. Two stacks of one provider's
// name under one MeterProvider share their series.
//
// # Tracing
//
// A traced base (otelhttp) makes a span an attempt, with retry.AttemptNumber
// for http.request.resend_count; a wrapper around a stack or chain makes a
// span a call, which ends with the answer's body. See examples/telemetry, also
// for a Grafana dashboard and alert rules.
package surefoot
