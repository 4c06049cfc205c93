package failover_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// passedOver are stacks whose targets a chain passes over: an open breaker, and a
// held key.
func passedOver(tb testing.TB) map[string]*resilience.Transport {
	tb.Helper()
	open := stack(tb, "open", stub{}, resilience.DefaultPolicy())
	open.ForceOpen("", 1<<62)
	held := stack(tb, "held", drained{}, resilience.DefaultPolicy())
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, chatURL, bytes.NewReader(callBody))
	require.NoError(tb, err)
	resp, err := held.RoundTrip(req)
	require.NoError(tb, err)
	require.NoError(tb, resp.Body.Close())
	require.NotEmpty(tb, held.Holds())
	return map[string]*resilience.Transport{"open": open, "held": held}
}

// behind is a chain of a healthy target behind n of one stack.
func behind(tb testing.TB, n int, s *resilience.Transport) *failover.Chain {
	tb.Helper()
	var targets []failover.Target
	for i := range n {
		targets = append(targets, failover.Target{Name: fmt.Sprint(i), Provider: "p", Transport: s})
	}
	return chain(tb, failover.Policy{}, append(targets, failover.Target{Name: "healthy", Transport: stub{}})...)
}

// BenchmarkSkipped shows what targets that are passed over add to a call: the
// difference by their number.
func BenchmarkSkipped(b *testing.B) {
	for name, s := range passedOver(b) {
		for _, n := range []int{0, 1, 10} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) { benchmark(b, behind(b, n, s)) })
		}
	}
}

// A held key costs a skip what an open breaker does: no allocation, however many
// targets it has (contract 11).
func TestPassingOverAllocatesNothing(t *testing.T) {
	for name, s := range passedOver(t) {
		want := allocs(t, behind(t, 0, s))
		for _, n := range []int{1, 10} {
			assert.InDelta(t, want, allocs(t, behind(t, n, s)), 0, "%s, %d targets", name, n)
		}
	}
}

// allocs is how often a call allocates.
func allocs(t *testing.T, rt http.RoundTripper) float64 {
	t.Helper()
	return testing.AllocsPerRun(100, func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, chatURL, bytes.NewReader(callBody))
		require.NoError(t, err)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	})
}

// drained is an upstream whose limit ends in 50 minutes.
type drained struct{}

func (drained) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3000"}},
		Body: http.NoBody, Request: req,
	}, req.Body.Close()
}

// BenchmarkAffinity shows what a key adds to a call, and that none adds nothing.
func BenchmarkAffinity(b *testing.B) {
	for name, key := range map[string]failover.AffinityKey{
		"off":    nil,
		"user":   failover.AffinityByUser,
		"prompt": failover.AffinityByPrompt,
		"fixed":  func(context.Context, http.Header, []byte) string { return "k" },
	} {
		b.Run(name, func(b *testing.B) {
			p := failover.Policy{Affinity: failover.Affinity{Key: key}}
			benchmark(b, chain(b, p, failover.Target{Name: "a", Transport: stub{}}, failover.Target{Name: "b", Transport: stub{}}))
		})
	}
}
