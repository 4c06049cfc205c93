// Package upstreamtest is a provider of language models for tests: it listens
// on loopback, or lives in memory, and answers as it is told, well or badly.
// It needs no test framework and nothing beside the standard library.
//
// Most tests start with [New], script a model and point a client at the URL:
//
//	up := upstreamtest.New()
//	defer up.Close()
//	up.Model("gpt-x", upstreamtest.Status(503), upstreamtest.OK("hi"))
//	client := openai.NewClient(option.WithBaseURL(up.URL + "/v1"))
//
// The first call for gpt-x is answered with a 503, all later ones with "hi".
// Without any script every known endpoint says "ok".
//
// # Scripts
//
// A script is a list of steps. Each request takes one, and the last repeats:
//
//	up.Model("m", Status(429).RetryAfter(time.Second), OK("hi"))  // by model name
//	up.Default(Status(503).Times(3), OK("back"))                  // for everything else
//	up.Next(Status(401))                                          // for the next request, then gone
//	up.When(func(r *Request) bool { return r.Header.Get("Authorization") == "" }, Status(401))
//	up.Models("m1", "m2")                                         // for requests for the model list
//	up.List(ModelList("m1"), Status(500))                         // the same, step by step
//
// [Upstream.Next] goes first, then [Upstream.When], [Upstream.Model] and
// [Upstream.Default]. Requests for a model list have a script of their own and
// take nothing from Next. [Step.Times] makes a step stand for several requests,
// [Step.For] for a time; [Cycle] and [Flap] alternate, by count and by the
// clock. [Upstream.Stop] and [Upstream.Start] take the whole provider down.
//
// # Answers
//
// [OK] answers in the format of the request's path: chat completions,
// completions, responses, embeddings and model lists as OpenAI has them,
// Anthropic messages, Gemini and its interactions, Ollama, Cohere and Amazon Bedrock (Converse, and
// Invoke with Anthropic's or the chat look inside); as a stream where the request
// asks for one. [Stream] and [JSON] insist on one form. Error bodies
// ([Status]) and error events ([Step.FailAfter]) come in the same format: in
// Bedrock's binary frames they are exceptions.
//
// From a good answer a bad one is made by saying where it stops and how it
// ends. Both are free to combine:
//
//	OK("a", "b", "c").CutAfterText(2)                // ends properly, two thirds said
//	OK("a", "b", "c").CutAfter(2).InsideLine().FIN() // TCP close in the middle of the third event's line
//	OK("a").CutAfter(1).Reset()                      // TCP reset
//	OK("a").CutAfter(1).Stall()                      // silence with the connection open
//	OK("a").CutAfter(1).BadChunk()                   // broken chunked framing
//	OK("a", "b").NoDone()                            // everything but [DONE]
//	OK("a", "b").FailAfter(1, 529)                   // an error event; FailAfter(0, …) makes it the first
//	OK("a").FirstToken(time.Second)                  // headers at once, the first token late
//	OK("a").Delay(time.Second)                       // nothing at all for a second
//	Silence(), Drop(), Drop().Reset()                // no answer, ever
//
// What stands between two events is a [Piece]: [Pings], [Wait], [Gate],
// [Huge] lines, [Malformed] events, the [Ending] of a good stream, any [Bytes]. [Step.LineEnds],
// [Step.WriteSize], [Step.Gzip] and [Step.CloseDelimited] change how the bytes
// travel.
//
// Failures behind a 200 are [Hidden] shapes, [HTML], [Empty], and good answers
// whose members changed: [Step.Set], [Step.Delete], [Step.Drift].
//
// [Step.Keep] keeps a stream, so that it can be read on where it broke off: OpenAI's
// responses and Gemini's interactions can. [Upstream.Rests] says what becomes of
// who asks for the rest, [Upstream.Expire] forgets what was kept:
//
//	up.Default(OK("a", "b", "c").CutAfterText(1).Reset().Keep()) // and each GET gets its Rest()
//	up.Rests(Rest().CutAfter(1).Reset(), Rest())                 // it breaks off again
//	up.Rests(Rest().Repeat(1))                                   // an event that came before, then the rest
//	up.Rests(Rest().Skip(1))                                     // with a gap
//
// Where the exact bytes matter, [Body] and [RawStream] send theirs with
// headers of the package's making, [RawConn] sends bytes from the status line
// on, and [Raw] is any handler.
//
// # What was sent
//
// [Upstream.Requests] are the requests as they came, with model, format, body
// and its hash; only those are recorded and counted ([Upstream.Count],
// [Upstream.CountModel]) that were read in full. [Upstream.Connections],
// [Upstream.InFlight] and [Upstream.Aborted] tell of connections and of
// clients that went away; [Upstream.Wait] waits until any of it is so, without
// sleeping. All of it is bounded: the last 10,000 requests are kept, with the
// first MiB of each body, 32 MiB of bodies in all.
//
// # In memory
//
// [NewInMemory] has no socket and starts no goroutine. Its
// [Upstream.RoundTripper] plays the same scripts, so that a test in a
// testing/synctest bubble sees an hour's silence pass at once. [Switch] puts
// several of them behind one client.
package upstreamtest
