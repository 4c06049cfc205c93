package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

const skippedTargets = 10

// rewriting does by hand what a chain does to a request for a target: its URL,
// credentials, and model in place of the caller's, nothing else changed.
func rewriting(base http.RoundTripper, to *url.URL, model string) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		if cerr := req.Body.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, err
		}
		content := wire.ReadContent(req.Header, body)
		if body, _, err = content.Replace(body, model); err != nil {
			return nil, err
		}
		out := req.Clone(resilience.WithModel(req.Context(), model))
		out.URL = to.JoinPath("chat/completions")
		out.Host = ""
		wire.StripCredentials(out.Header)
		out.Header.Set("Authorization", "Bearer other")
		out.ContentLength = int64(len(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body = io.NopCloser(bytes.NewReader(body))
		return base.RoundTrip(out)
	})
}

func newChain(targets ...failover.Target) http.RoundTripper {
	return must(failover.NewChain(failover.DefaultPolicy(), targets...))
}

func failoverSection() *section {
	const to, model = "https://other.example/v1", "gpt-other"
	base := stub()
	stack := newStack(base)
	healthy := failover.Target{Name: "healthy", Provider: "acme", Transport: stack}
	other := failover.Target{
		Name: "other", Provider: "acme", Model: model, BaseURL: to,
		Header: http.Header{"Authorization": {"Bearer other"}}, Transport: stack,
	}
	down := newStack(base)
	down.ForceOpen("", 1<<62)
	many := make([]failover.Target, 0, skippedTargets+1)
	for i := range skippedTargets {
		many = append(many, failover.Target{Name: fmt.Sprintf("down-%d", i), Provider: "down", Model: model, Transport: down})
	}
	many = append(many, other)

	const bare, byHand, one, plain = "bare stack", "rewriting by hand, over the stack", "chain of one, rewriting", "chain of one, nothing to rewrite"
	const skipping = "the same behind 10 targets with open breakers"
	return &section{
		title: "Failover: what a chain adds to a call",
		note: "The call over a stub, under the whole stack. By hand: the body read, its model, URL and credentials replaced. " +
			"A skipped target is a tenth of what 10 targets with open breakers add.",
		base: bare,
		rows: []*row{
			timed(bare, via(chatURL, stack.RoundTrip)),
			timed(byHand, via(chatURL, rewriting(stack, must(url.Parse(to)), model).RoundTrip)),
			timed(plain, via(chatURL, newChain(healthy).RoundTrip)),
			timed(one, via(chatURL, newChain(other).RoundTrip)),
			timed(skipping, via(chatURL, newChain(many...).RoundTrip)),
		},
		targets: []target{
			ratio(one, byHand, 0.8, 0),
			ratio(plain, byHand, 0.8, 0),
			{
				what: "a skipped target", unit: " ns", limit: 1000, good: 500,
				of: func(r round) float64 { return (r[skipping].ns - r[one].ns) / skippedTargets },
			},
		},
	}
}
