package streamguard_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/streamguard"
)

// An upstream that ends in the middle of an answer, as if all were well.
func ExampleGuard() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Half an ans"},"finish_reason":null}]}`+"\n\n")
	}))
	defer upstream.Close()

	client := &http.Client{Transport: &streamguard.Guard{
		Provider: "openai-eu",
		Policy:   streamguard.Policy{IdleTimeout: 30 * time.Second},
	}}
	resp, err := client.Post(upstream.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	fmt.Println(errors.Is(err, streamguard.ErrIncomplete))
	fmt.Println(err)
	// Output:
	// true
	// provider openai-eu: chat completions stream incomplete after 1 events (closed): unexpected EOF
}

// A gateway that had committed to a 200 before its own upstream failed.
func ExampleUnmasker() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`)
	}))
	defer upstream.Close()

	client := &http.Client{Transport: &streamguard.Unmasker{Provider: "openai-eu"}}
	resp, err := client.Post(upstream.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	report, unmasked := streamguard.Unmasked(resp)
	fmt.Println(resp.Status, unmasked, report.Status)
	// Output:
	// 429 Too Many Requests true 200
}

// Silence is bounded, for any body and however slow its reader is.
func ExampleIdle() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "so far")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer upstream.Close()

	client := &http.Client{Transport: &streamguard.Idle{Timeout: 50 * time.Millisecond}}
	resp, err := client.Get(upstream.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	fmt.Printf("%s: %v\n", b, err)
	// Output:
	// so far: timed out after 50ms (idle_timeout)
}
