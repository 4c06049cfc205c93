package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/sony/gobreaker/v2"

	"github.com/surefoot-go/surefoot/resilience"
)

const (
	chatURL = "http://models.example/v1/chat/completions"
	prompt  = 1200 // letters of the system prompt, and about as many of the question: 2 KB in all
)

var (
	system   = strings.Repeat("You are terse. ", prompt/2/15)
	question = strings.Repeat("Tell me more about it. ", prompt/23)
	// request is 2 KB, answer 1.5 KB.
	request = []byte(`{"model":"gpt-4o","temperature":0.2,"messages":[{"role":"system","content":"` + system +
		`"},{"role":"user","content":"` + question + `"}]}`)
	answer = []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"gpt-4o","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"` + strings.Repeat("All work and no play. ", 56) +
		`","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":300,"total_tokens":700}}`)
	overloaded = []byte(`{"error":{"message":"The server is overloaded.","type":"server_error","param":null,"code":null}}`)
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// stub answers from memory with one status after the other; it reads the
// request's body, as an upstream does.
func stub(statuses ...int) http.RoundTripper {
	i := 0
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return nil, err
			}
			if err := req.Body.Close(); err != nil {
				return nil, err
			}
		}
		status, body := http.StatusOK, answer
		if len(statuses) > 0 {
			if status = statuses[i%len(statuses)]; status != http.StatusOK {
				body = overloaded
			}
			i++
		}
		return &http.Response{
			StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"application/json"}},
			Body:          io.NopCloser(bytes.NewReader(body)),
			ContentLength: int64(len(body)), Request: req,
		}, nil
	})
}

func newRequest(b *testing.B, url string) *http.Request {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(request))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer key")
	return req
}

// readWhole reads the answer, which has to be the good one.
func readWhole(b *testing.B, resp *http.Response, err error, buf []byte) {
	if err != nil {
		b.Fatal(err)
	}
	n, err := drain(resp.Body, buf)
	if cerr := resp.Body.Close(); resp.StatusCode != http.StatusOK || n != len(answer) || err != io.EOF || cerr != nil {
		b.Fatal(resp.StatusCode, n, err, cerr)
	}
}

// via makes calls through do, one after the other.
func via(url string, do func(*http.Request) (*http.Response, error)) func(b *testing.B) {
	return func(b *testing.B) {
		buf := make([]byte, 4<<10)
		for b.Loop() {
			resp, err := do(newRequest(b, url))
			readWhole(b, resp, err, buf)
		}
	}
}

func viaRetryable(url string, c *retryablehttp.Client) func(b *testing.B) {
	return func(b *testing.B) {
		buf := make([]byte, 4<<10)
		for b.Loop() {
			req, err := retryablehttp.NewRequestWithContext(context.Background(), http.MethodPost, url, request)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer key")
			resp, err := c.Do(req)
			readWhole(b, resp, err, buf)
		}
	}
}

// newRetryable retries three times, with waits of next to nothing.
func newRetryable(base http.RoundTripper) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: base}
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = 3, time.Nanosecond, time.Nanosecond
	return c
}

// newFailsafeHTTP retries three times without waiting, within a breaker.
func newFailsafeHTTP(base http.RoundTripper) http.RoundTripper {
	breaker := newFailsafe[*http.Response]()                                  //nolint:bodyclose // a type argument
	retries := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(3).Build() //nolint:bodyclose // a type argument
	return failsafehttp.NewRoundTripper(base, breaker, retries)
}

// newStack is the default policy, with waits of next to nothing.
func newStack(base http.RoundTripper) *resilience.Transport {
	p := resilience.DefaultPolicy()
	p.Retry.InitialBackoff, p.Retry.MaxBackoff = time.Nanosecond, time.Nanosecond
	return must(resilience.Builder{Base: base}.Build("acme", p))
}

func newOpenAI(client *http.Client) openai.Client {
	return openai.NewClient(option.WithBaseURL("http://models.example/v1"), option.WithAPIKey("key"), option.WithHTTPClient(client))
}

func openAIRaw(b *testing.B) {
	c := newOpenAI(&http.Client{Transport: stub()})
	for b.Loop() {
		var got []byte
		if err := c.Post(context.Background(), "chat/completions", request, &got); err != nil || len(got) != len(answer) {
			b.Fatal(err, len(got))
		}
	}
}

func openAITyped(client *http.Client) func(b *testing.B) {
	return func(b *testing.B) {
		c := newOpenAI(client)
		for b.Loop() {
			got, err := c.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
				Model: "gpt-4o", Temperature: openai.Float(0.2),
				Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage(question)},
			})
			if err != nil || len(got.Choices) != 1 || got.Choices[0].Message.Content == "" {
				b.Fatal(err)
			}
		}
	}
}

const (
	callStub     = "stub alone"
	callFailsafe = "failsafe-go, retry and breaker (looks at no byte)"
	callTyped    = "openai-go, typed"
	callOurs     = "surefoot, whole stack"
)

func callSection() *section {
	gb := gobreaker.NewCircuitBreaker[*http.Response](gobreakerSettings("acme")) //nolint:bodyclose // a func: who calls it closes
	base := stub()
	return &section{
		title: "One call over a stub",
		note: fmt.Sprintf("A POST of %d bytes with GetBody; an answer of %d bytes, read whole. "+
			"The stack reads model and stream out of the request and judges the answer.", len(request), len(answer)),
		base: callStub,
		rows: []*row{
			timed(callStub, via(chatURL, base.RoundTrip)),
			timed("http.Client", via(chatURL, (&http.Client{Transport: base}).Do)),
			timed("gobreaker around it", via(chatURL, func(req *http.Request) (*http.Response, error) {
				return gb.Execute(func() (*http.Response, error) { return base.RoundTrip(req) })
			})),
			timed("go-retryablehttp", viaRetryable(chatURL, newRetryable(base))),
			timed(callFailsafe, via(chatURL, newFailsafeHTTP(base).RoundTrip)),
			timed(callOurs, via(chatURL, newStack(base).RoundTrip)),
			timed("surefoot, http.Client over the stack", via(chatURL, newStack(base).Client().Do)),
			timed("openai-go, raw", openAIRaw),
			timed(callTyped, openAITyped(&http.Client{Transport: base})),
			timed("openai-go, typed, over surefoot", openAITyped(newStack(base).Client())),
		},
		targets: []target{
			ratio(callOurs, callFailsafe, 1.2, 1),
			ratio(callOurs, callTyped, 0.12, 0),
			{
				what: "surefoot's allocations above the stub's", limit: 24,
				of: func(r round) float64 { return r[callOurs].allocs - r[callStub].allocs },
			},
		},
	}
}

// plainLoop is a retry loop as services write it.
func plainLoop(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		for try := 0; ; try++ {
			out := req
			if try > 0 {
				out = req.Clone(req.Context())
				body, err := req.GetBody()
				if err != nil {
					return nil, err
				}
				out.Body = body
			}
			resp, err := base.RoundTrip(out)
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable || try == 3 {
				return resp, err
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				return nil, err
			}
			if err := resp.Body.Close(); err != nil {
				return nil, err
			}
		}
	}
}

func retrySection() *section {
	flaky := func() http.RoundTripper { return stub(503, 503, 200) }
	const theirs, ours = "failsafe-go, retry and breaker", "surefoot, whole stack"
	return &section{
		title: "503, 503, 200: one call with two retries",
		note:  "The same call; waits between attempts are switched off, or a nanosecond where they cannot be.",
		base:  theirs,
		rows: []*row{
			timed("plain loop", via(chatURL, plainLoop(flaky()))), //nolint:bodyclose // a func: who calls it closes
			timed("go-retryablehttp", viaRetryable(chatURL, newRetryable(flaky()))),
			timed(theirs, via(chatURL, newFailsafeHTTP(flaky()).RoundTrip)),
			timed(ours, via(chatURL, newStack(flaky()).RoundTrip)),
		},
		targets: []target{ratio(ours, theirs, 1.2, 1)},
	}
}

func loopbackSection() *section {
	l := must(new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"))
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
		}),
	}
	go func() { _ = srv.Serve(l) }() // until it is closed
	url := "http://" + l.Addr().String() + "/v1/chat/completions"
	transport := func() *http.Transport { return http.DefaultTransport.(*http.Transport).Clone() }
	const bare, theirs, ours = "bare http.Client", "failsafe-go, retry and breaker", "surefoot, http.Client over the stack"
	return &section{
		title: "One call over a loopback connection",
		note:  "The same call to a net/http server in the same process, over one kept connection each.",
		base:  bare,
		rows: []*row{
			timed(bare, via(url, (&http.Client{Transport: transport()}).Do)),
			timed("go-retryablehttp", viaRetryable(url, newRetryable(transport()))),
			timed(theirs, via(url, (&http.Client{Transport: newFailsafeHTTP(transport())}).Do)),
			timed(ours, via(url, newStack(transport()).Client().Do)),
		},
		targets: []target{ratio(ours, theirs, 1, 0)},
		cleanup: func() { _ = srv.Close() },
	}
}
