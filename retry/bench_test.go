package retry_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/surefoot-go/surefoot/retry"
)

// benchBase answers with the statuses in turn, from memory.
type benchBase struct {
	statuses []int
	n        int
}

var benchAnswer = strings.Repeat("a", 1500)

func (b *benchBase) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	status := b.statuses[b.n%len(b.statuses)]
	b.n++
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(benchAnswer)), ContentLength: int64(len(benchAnswer)),
	}, nil
}

func benchmark(b *testing.B, base http.RoundTripper) {
	payload := bytes.Repeat([]byte("p"), 2000)
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequest(http.MethodPut, "http://upstream.test/v1", bytes.NewReader(payload))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := base.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

func benchPolicy() retry.Policy {
	p := retry.DefaultPolicy()
	p.InitialBackoff, p.JitterFactor = 1, 0
	p.MaxBackoff = time.Second
	p.BackoffFactor = 1
	return p
}

func BenchmarkSuccess(b *testing.B) {
	b.Run("bare", func(b *testing.B) { benchmark(b, &benchBase{statuses: []int{200}}) })
	b.Run("passive", func(b *testing.B) { benchmark(b, &retry.Transport{Base: &benchBase{statuses: []int{200}}}) })
	b.Run("retry", func(b *testing.B) {
		benchmark(b, &retry.Transport{Base: &benchBase{statuses: []int{200}}, Policy: benchPolicy()})
	})
}

func BenchmarkTwoRetries(b *testing.B) {
	b.Run("loop", func(b *testing.B) { benchmark(b, loop{&benchBase{statuses: []int{503, 503, 200}}}) })
	b.Run("retry", func(b *testing.B) {
		benchmark(b, &retry.Transport{Base: &benchBase{statuses: []int{503, 503, 200}}, Policy: benchPolicy()})
	})
}

// loop is the least that three attempts cost: no waits, no bounds, no rules.
type loop struct{ base http.RoundTripper }

func (l loop) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		r := *req
		r.Body, _ = req.GetBody()
		resp, err := l.base.RoundTrip(&r)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			return resp, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
