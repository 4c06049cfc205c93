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
//	stream breaks off, held back  the failure, or 502                      on demand  failure  yes
//	stream breaks off, handed out its events, an error event, an error     no         failure  no
//	local timeout                 an error (504)                           no         failure  yes
//	breaker open                  503                                      no         -        yes
//	caller cancelled              an error matching context.Canceled (0)   no         neutral  no
//
// The status in brackets is what resilience.StatusOf returns. A streaming
// call is re-sent only with retry.streams: held_back; failing over to another
// target while it is held back needs no switch.
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
// # Metrics
//
// With a MeterProvider, and by the OpenTelemetry GenAI conventions where they
// have a name:
//
//	gen_ai.client.operation.duration             histogram, s   operation, provider, model, stream, error.type
//	gen_ai.client.operation.time_to_first_chunk  histogram, s   operation, provider, model, stream
//	surefoot.circuit_breaker.state               gauge          0 closed, 1 half-open, 2 open; the worst of a provider's
//	surefoot.client.empty_responses              {response}     model, error.type: no_choices, no_usage, no_output
//	surefoot.client.retries                      {retry}        model
//	surefoot.client.rejections                   {call}         model, error.type: circuit_open, circuit_capacity
//	surefoot.client.incomplete_streams           {stream}       model, error.type: the reason
//	surefoot.failover.attempts                   {attempt}      target's provider, outcome
//	surefoot.failover.calls                      {call}         outcome
//
// Every one has surefoot.provider.name. A stack names at most 100 models;
// the rest are _OTHER.
package surefoot
