package failover_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// stub answers from memory and reads the request's body.
type stub struct{}

var (
	stubHeader = http.Header{"Content-Type": {"application/json"}}
	stubBody   = []byte(strings.Replace(okJSON, "hi", strings.Repeat("word ", 280), 1))
	callBody   = []byte(strings.Replace(chatBody("m-1"), "hi", strings.Repeat("word ", 380), 1))
)

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: stubHeader.Clone(), Body: io.NopCloser(bytes.NewReader(stubBody)), Request: req}, req.Body.Close()
}

func benchmark(b *testing.B, rt http.RoundTripper) {
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, chatURL, bytes.NewReader(callBody))
		require.NoError(b, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer x")
		resp, err := rt.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOneTarget compares a chain of one healthy target with its bare
// stack: what is above it is the rewriting of the request.
func BenchmarkOneTarget(b *testing.B) {
	s, err := resilience.Builder{Base: stub{}}.Build("a", resilience.DefaultPolicy())
	require.NoError(b, err)
	b.Run("stack", func(b *testing.B) { benchmark(b, s) })
	for name, t := range map[string]failover.Target{
		"chain": {Name: "a", Provider: "a", Transport: s},
		"chain, model, URL and header": {Name: "a", Provider: "a", Model: "m-2", BaseURL: "https://b.example/v1",
			Header: http.Header{"Authorization": {"Bearer y"}}, Transport: s},
	} {
		b.Run(name, func(b *testing.B) { benchmark(b, chain(b, failover.Policy{}, t)) })
	}
}

// BenchmarkSkipped shows what targets with an open breaker add to a call: the
// difference by their number.
func BenchmarkSkipped(b *testing.B) {
	open := stack(b, "open", stub{}, resilience.DefaultPolicy())
	open.ForceOpen("", 1<<62)
	for _, n := range []int{0, 1, 10} {
		var targets []failover.Target
		for i := range n {
			targets = append(targets, failover.Target{Name: fmt.Sprint(i), Provider: "open", Transport: open})
		}
		targets = append(targets, failover.Target{Name: "healthy", Transport: stub{}})
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmark(b, chain(b, failover.Policy{}, targets...)) })
	}
}

// BenchmarkHeld is the same for targets whose key is held.
func BenchmarkHeld(b *testing.B) {
	held := stack(b, "held", drained{}, resilience.DefaultPolicy())
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, chatURL, bytes.NewReader(callBody))
	require.NoError(b, err)
	resp, err := held.RoundTrip(req)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	require.NotEmpty(b, held.Holds())
	for _, n := range []int{0, 1, 10} {
		var targets []failover.Target
		for i := range n {
			targets = append(targets, failover.Target{Name: fmt.Sprint(i), Provider: "held", Transport: held})
		}
		targets = append(targets, failover.Target{Name: "healthy", Transport: stub{}})
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmark(b, chain(b, failover.Policy{}, targets...)) })
	}
}

// drained is an upstream whose limit ends in 50 minutes.
type drained struct{}

func (drained) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3000"}},
		Body: http.NoBody, Request: req,
	}, req.Body.Close()
}
