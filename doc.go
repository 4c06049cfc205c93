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
//	429: a wait up to a retry's   the answer after it, see Limits          yes        failure  yes
//	429: a wait beyond a retry's  the answer; then a local 429, see Limits no         failure  yes
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
// call that was dispatched is re-sent only with retry.streams: held_back, whatever
// it was answered with; failing over to another target while it is held back
// needs no switch.
//
// # Profiles
//
// That table is the profile default. A profile is a named set of defaults for
// one kind of use: resilience.Profile, RESILIENCE_PROFILE, or resilience.profile
// in a file, where a provider may have its own.
//
//	default  the documented defaults: no stream is sent twice
//	live     for people who wait for tokens: a stream is handed out with its
//	         first content and retried until then, silence is given up after
//	         10 s at the beginning and 20 s later, one model's breaker is not
//	         another's
//	whole    for agents, batch and tools: live, but a stream is held until its
//	         end, so that a break anywhere is retried or fails over
//
// A profile lies below everything that somebody wrote: the file's global
// blocks, the environment, a provider's own block. A provider's own profile takes
// the place of everyone's below its stack, no more. A list with the word default
// adds to the profile's list.
//
// Chains serve many providers and follow the profile of everyone. With live and
// whole they go on where a request is too long for a model (the entry too_long of
// failover.retry_on_errors, failover.TooLong): to targets of other models, and to
// none of the same, whoever provides it. That is the request's fault and no
// failure of a breaker.
//
// No profile sets retry.attempt_timeout, which would cut off whole answers that
// take minutes; first_event_timeout is what bounds an attempt at a stream. It ends
// with the first data event, also where hold_until holds the stream for longer;
// idle_timeout goes on, and a ping or a comment restarts it. Silence before an
// answer that is no stream is bounded by timeout and by the base's 600 s.
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
// the default backoff (NoRetry is moved_on, as is failover.Attempt.MovedOn), or
// for a Retry-After of 2 s. The last target that is left keeps its whole budget.
// 0 never waits where another could answer, off as if there were no other. With
// failover.wait_for a call whose targets are all open or held waits for the first
// that comes back; it is off by default, since a person is better served by an
// error at once.
//
// A request that names what only one account knows (previous_response_id, a
// file, sealed reasoning, …) fails over to targets of that account alone, see
// package failover: anywhere else the name means nothing. failover.bound: ignore
// switches that off.
//
// Prompt caches live with a provider, and spreading a conversation over several
// loses them. With failover.affinity.key the target that answered a key last is
// asked first, where it can answer: calls are kept together by prompt_cache_key,
// user_id, prompt (how the conversation begins) or a header. A backup's success
// pins the backup; what ends a pin, and how a vendor's own session header is set,
// is with failover.Affinity. It is off by default.
//
// # Limits
//
// limits.hold keeps calls from what an upstream refused for longer than a retry
// waits: a provider's account, or a model of it, until the time that the upstream
// named, limits.max_hold at most. Whoever was told when to come back does not
// knock before. A chain passes over it at no cost (rate_limited); a stack alone
// answers with a local 429. That is no failure of a breaker (the upstream's own
// 429 was one) and ends by itself.
//
// A wait that fits into retry.max_backoff (30 s) is no hold: a stack without a
// chain waits it out and tries again, since nobody else could answer, as it does
// for a Retry-After of 20 s; a caller with less time than that sets a deadline,
// and then has the answer at once. Where a chain moves on in place of such a wait,
// the key is held for the calls that follow. A call meets one hold, its model's or
// its account's, the one that ends last. Where the upstream named no time (no
// credit: 5 minutes) the end is a guess, a reason for a chain to ask somebody else
// and none for a stack to refuse: where nobody else can answer, it is asked. Only
// calls that run a model meet holds and set them: GET /v1/models goes to a held
// account, or discovery would call it offline.
//
// A stack is one account, whatever credentials its requests carry: tenants with
// keys of their own take a stack each, under a name each.
// limits.preempt holds already when a good answer says that nothing remains; off,
// since such figures are often those of one window of several.
//
// limits.max_concurrent bounds the calls that a provider has at once, until
// their bodies have ended, or their answer is a failure. One more waits for a
// place within its deadline, the timeout and the patience, then it is a local 429
// (concurrency), and a chain goes on.
//
// failover.max_body (64 MiB) is the largest body that is read to be re-written
// for a target with a model of its own; a larger one is an error with status 413.
//
// circuit_breaker.timeout_factor, max_timeout and jitter lengthen the open time:
// by a factor after each failed probe, up to the maximum and back to the first
// after a close, so that a long outage is probed less and less; and by a random
// share, so that not all instances of a service probe at the same moment. The open
// time stays as it is by default.
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
// # Resuming a cut stream
//
// Some vendors keep a stream for minutes and send the rest of it to who asks:
// OpenAI and Azure a response that was asked for with "background": true, Google
// an interaction whose events have an event_id. With stream.resume: on the stack
// asks for it where such a stream breaks off or falls silent, GET …/{id}?stream=true
// with starting_after or last_event_id, to the same target with the same
// credentials. The caller reads on as if nothing had happened: the bytes are those
// of an uncut stream, an event that was half there comes again whole, none comes
// twice. That is only done where the next event is the next one; a gap, an older
// event, a 4xx, or three reconnects without a new event end in the error that the
// break would have been. The waits between reconnects are the retry's, who asks
// breaker and patience as ever; stream.first_event_timeout, stream.event_timeout
// and stream.idle_timeout bound each. background is never added to a request.
//
// It is off by default: a reconnect is a request more, and the answer goes on being
// made, and paid, on the vendor's side while nobody reads. Off, the error from Read
// still says where the stream broke off; an SDK that stops at the error event does
// not hand that error out, the call's record does (resilience.WithRecord, CallOf):
//
//	call, _ := record.Call()
//	if inc, ok := errors.AsType[*streamguard.IncompleteError](call.Err); ok && inc.Resume != nil {
//		rest := client.Responses.GetStreaming(ctx, inc.Resume.ID,
//			responses.ResponseGetParams{StartingAfter: openai.Int(inc.Resume.Sequence)},
//			option.WithQuery("stream", "true"))
//		…
//	}
//
// Call.Resumes counts what was taken up again, Call.NoResume is why the last one
// was not. Anthropic's messages and chat completions have nothing of the kind.
//
// # Deadlines
//
// Give every call a deadline, by its context or by http.Client.Timeout, or set
// timeout: it is off by default, since some providers generate for minutes.
// timeout, attempt_timeout and a target's timeout end when the answer is handed
// out: a whole answer read and judged, a stream's first data event (with
// hold_until what it waits for), any other answer's headers. A server that sends
// headers, or blank lines, and then nothing is thus bounded by each of them.
// idle_timeout begins with the first byte and bounds silence alone. A stream that
// drips is bounded by stream.min_rate, in bytes of content a second over
// stream.rate_window from the first content on: only waits on the upstream count,
// each half a window at most, and after one of a whole window (a model that
// reasons, a tool that works) measuring begins anew. A slower stream is a stall,
// 504; it is found with the content that ends the window.
//
// What the library reads of an answer that may still go back (for advice, for
// a phrase, while another target is tried) is bounded by 64 KiB and half a
// second. The answer stays whole: what was read comes first, then the rest as
// it arrives.
//
// # What an SDK above should know
//
// The official SDKs retry a 429, a 5xx and any transport error twice by
// themselves. Where the stack retried, it adds x-should-retry: false to the last
// answer, which they obey; a rejection and an unmasked failure are responses for
// the same reason. With errors_as_responses: all transport failures and local
// timeouts are responses as well.
//
// Under the profiles live and whole, set an SDK's own retries to 0: the stack
// retries for it. Under default the stack makes one attempt at a stream, so leave
// the SDK's on, with errors_as_responses: all so that transport failures do not
// multiply; at 0 a 429 or 503 before a stream goes straight to the caller, who
// with the bare SDK would have had an answer.
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
// an error too. resilience.Rejection tells an open breaker's 503 or a local 429
// from an upstream's own. failover.AttemptsOf, failover.Error and failover.WithTrace
// list the targets of a chain.
//
// # Metrics
//
// With a MeterProvider in resilience.Builder and failover.Policy, and by the
// OpenTelemetry GenAI conventions where they have a name:
//
//	gen_ai.client.inference.duration                        histogram  s           a call, its retries and its body included
//	gen_ai.client.embeddings.duration                       histogram  s           the same, of a call for embeddings
//	gen_ai.client.inference.time_to_first_chunk             histogram  s           a call's start to its stream's first data event
//	gen_ai.client.inference.time_per_output_chunk           histogram  s           a stream's data event to the next
//	gen_ai.client.inference.usage.input_tokens              counter    {token}     input, cached tokens included
//	gen_ai.client.inference.usage.output_tokens             counter    {token}     output, reasoning included
//	gen_ai.client.inference.usage.cache_read.input_tokens   counter    {token}     input read from a provider's cache
//	gen_ai.client.inference.usage.cache_write.input_tokens  counter    {token}     input written to it
//	gen_ai.client.inference.usage.reasoning.output_tokens   counter    {token}     output spent on reasoning
//	gen_ai.client.inference.operation.input_tokens          histogram  {token}     a call's input
//	gen_ai.client.inference.operation.output_tokens         histogram  {token}     a call's output
//	gen_ai.client.operation.duration                        histogram  s           old: inference.duration and embeddings.duration
//	gen_ai.client.operation.time_to_first_chunk             histogram  s           old: inference.time_to_first_chunk
//	surefoot.circuit_breaker.state                          gauge                  0 closed, 1 half-open, 2 open; the worst of a provider's
//	surefoot.limits.held_keys                               gauge      {key}       accounts and models that are held by a limit, by kind
//	surefoot.client.empty_responses                         counter    {response}  answers with nothing in them, or in no known form
//	surefoot.client.accepted                                counter    {response}  tickets: the work is to be done later
//	surefoot.client.retries                                 counter    {retry}     attempts after a call's first
//	surefoot.client.rejections                              counter    {call}      calls that a breaker, a hold or a full provider did not let through
//	surefoot.client.incomplete_streams                      counter    {stream}    streams that broke off, stalled or reported an error
//	surefoot.client.resumes                                 counter    {stream}    streams that broke off and were asked for again
//	surefoot.failover.attempts                              counter    {attempt}   targets that were tried or passed over
//	surefoot.failover.calls                                 counter    {call}      calls through chains, by who answered
//
// The GenAI conventions have moved and renamed what they define; all of it is in
// development. resilience.Builder.Conventions chooses between the old names, the
// new ones and both; where it says nothing, OTEL_SEMCONV_STABILITY_OPT_IN with
// gen_ai_latest_experimental stands for the new ones, and both is the default
// until the next minor version. Tokens are what the upstream says (Call.Usage),
// of failed calls too, and nothing where it says nothing; gen_ai.token.modality of
// usage is unknown. Embeddings have no counters of tokens.
//
// One record a call, never one an attempt; the gen_ai metrics leave out calls of
// an unknown format. All but surefoot.failover.calls have
// surefoot.provider.name, the configured name, and those of a stack
// gen_ai.request.model where the request names one. Those of gen_ai have
// gen_ai.operation.name (by the format), gen_ai.provider.name (by
// resilience.Builder.ProviderType, else by the format) and, where they measure
// time, gen_ai.request.stream. surefoot.limit.kind of held_keys is rate, quota or
// billing, each 0 where nothing is held; limits.hold: false leaves them out. A disabled breaker has no state, and a stack that was
// dropped has none once it is collected: a MeterProvider does not keep it.
//
// error.type is absent on success. It is a status in use, such as 503, that
// the caller saw, or a word, else _OTHER:
//
//	duration            transport_error timeout canceled closed (by the caller, early) panic,
//	                    request_error (could not be sent), those of rejections
//	                    and of incomplete_streams
//	empty_responses     no_choices no_usage no_output unknown_shape
//	rejections          circuit_open circuit_capacity rate_limited (a held key) concurrency (no place)
//	incomplete_streams  stream_incomplete (ended too early) transport_error timeout (the caller's)
//	                    idle_timeout event_timeout min_rate malformed in_band_error stream_error
//	resumes             gap older no_event (none that is new) transport_error timeout
//	                    canceled circuit_open; absent where the stream went on
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
