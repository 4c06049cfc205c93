package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

// sendChat sends a chat completion; the answer is the caller's to close.
func sendChat(client *http.Client, up *upstreamtest.Upstream, model string, stream bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"}]}`, model, stream)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, up.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// An existing http.Client keeps its transport, below the stack. The upstream
// fails openly, then behind a 200, then answers.
func ExampleBuilder() {
	up := upstreamtest.New()
	defer up.Close()
	up.Model("m", upstreamtest.Status(503), upstreamtest.Hidden(upstreamtest.HiddenWord, 429), upstreamtest.OK("hi"))
	client := up.Client()

	policy := resilience.DefaultPolicy()
	policy.Retry.InitialBackoff = time.Millisecond
	policy.CircuitBreaker.Scope = breaker.ScopeModel
	stack, err := resilience.Builder{Base: client.Transport}.Build("acme", policy)
	if err != nil {
		panic(err)
	}
	client.Transport = stack

	resp, err := sendChat(client, up, "m", false)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	call, _ := resilience.CallOf(resp)
	for _, a := range call.Attempts {
		fmt.Println(a.Number, a.Status)
	}
	// Output:
	// 200
	// 1 503
	// 2 429
	// 3 200
}

// Two answers with status 503: the upstream's own, which opens the breaker, and
// the breaker's.
func ExampleRejection() {
	up := upstreamtest.New()
	defer up.Close()
	up.Model("m", upstreamtest.Status(503))
	policy := resilience.DefaultPolicy()
	policy.Retry.MaxRetries = 0
	policy.CircuitBreaker.FailureThreshold = 1
	stack, err := resilience.Builder{Base: up.Client().Transport}.Build("acme", policy)
	if err != nil {
		panic(err)
	}
	for range 2 {
		resp, err := sendChat(stack.Client(), up, "m", false)
		open, rejected := resilience.Rejection(resp, err)
		if err != nil {
			panic(err)
		}
		_ = resp.Body.Close()
		fmt.Println(resp.StatusCode, rejected, open)
	}
	// Output:
	// 503 false <nil>
	// 503 true circuit breaker is open - provider acme temporarily unavailable
}

// A stream that ends cleanly after two of three words is no whole answer.
func ExampleTransport_Client() {
	up := upstreamtest.New()
	defer up.Close()
	up.Model("m", upstreamtest.OK("one ", "two ", "three").CutAfterText(2))
	stack, err := resilience.Builder{Base: up.Client().Transport}.Build("acme", resilience.DefaultPolicy())
	if err != nil {
		panic(err)
	}
	resp, err := sendChat(stack.Client(), up, "m", true)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, errors.Is(err, streamguard.ErrIncomplete), resilience.StatusOf(err))
	fmt.Println(err)
	// Output:
	// 200 true 502
	// provider acme: chat completions stream incomplete after 2 events (closed): unexpected EOF
}
