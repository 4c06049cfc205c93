package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// ask is written once by a service that calls a different SDK per target. The
// target says which, and has the stack to put under it.
func ask(ctx context.Context, target failover.Target) (string, error) {
	client := &http.Client{Transport: target.Transport}
	if target.Provider == "openai" {
		return sdks.Chat(ctx, sdks.OpenAI(client, target.BaseURL), target.Model)
	}
	return sdks.Message(ctx, sdks.Anthropic(client, target.BaseURL), target.Model)
}

// failOver has anthropic-sdk-go answer for openai-go, whose provider is down,
// and prints the attempts.
func failOver(ctx context.Context, out io.Writer) (ok bool, err error) {
	first, second := upstreamtest.New(), upstreamtest.New()
	defer first.Close()
	defer second.Close()
	first.Default(upstreamtest.Status(http.StatusServiceUnavailable))
	second.Default(upstreamtest.OK(faults.Whole))

	var targets []failover.Target
	for _, p := range []struct {
		name string
		up   *upstreamtest.Upstream
	}{{"openai", first}, {"anthropic", second}} {
		stack, err := resilience.Builder{}.Build(p.name, faults.Policy())
		if err != nil {
			return false, err
		}
		defer stack.CloseIdleConnections()
		targets = append(targets, failover.Target{
			Name: p.name + "/" + sdks.Model, Provider: p.name, Model: sdks.Model, BaseURL: p.up.URL, Transport: stack,
		})
	}
	chain, err := failover.NewChain(failover.DefaultPolicy(), targets...)
	if err != nil {
		return false, err
	}
	ctx, trace := failover.WithTrace(ctx)
	text, err := failover.Call(ctx, chain, ask)
	ok = err == nil && text == faults.Whole && len(trace.Attempts()) == len(targets)
	for _, a := range trace.Attempts() {
		result := a.Reason
		if result == "" {
			result = fmt.Sprintf("an answer: %q", text)
		}
		fmt.Fprintf(out, "failover.Call\ttries %s\t\t%s\t%s\n", a.Target, result, verdict(ok))
	}
	return ok, nil
}
