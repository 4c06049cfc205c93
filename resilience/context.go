package resilience

import (
	"context"
	"net/http"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

type (
	modelKey       struct{}
	passthroughKey struct{}
	lenientKey     struct{}
	callKey        struct{}
)

// WithModel names the model of every call made under the context, whatever
// its body says. It decides the breaker of scope "model" and the labels.
func WithModel(ctx context.Context, model string) context.Context {
	return context.WithValue(ctx, modelKey{}, model)
}

// WithPassthrough leaves the bytes of every call under the context alone: no
// unmasking, no guard, no header taken off. The breaker, the idle timeout and
// the retries stay.
func WithPassthrough(ctx context.Context) context.Context {
	return context.WithValue(ctx, passthroughKey{}, true)
}

// WithLenient takes a clean end of a stream after content for an end, for
// upstreams that send no terminal event. The field
// Lenient of a failover.Target sets it.
func WithLenient(ctx context.Context) context.Context {
	return context.WithValue(ctx, lenientKey{}, true)
}

// ModelOf returns the model that [WithModel] named, "" if it was not used.
func ModelOf(ctx context.Context) string {
	m, _ := ctx.Value(modelKey{}).(string)
	return m
}

func flag(ctx context.Context, key any) bool {
	on, _ := ctx.Value(key).(bool)
	return on
}

// callOf returns the call that ctx belongs to, nil outside of one.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// callOfResponse returns the call that resp answers, nil for a response that
// did not come through a stack.
func callOfResponse(resp *http.Response) *call {
	if resp == nil || resp.Request == nil {
		return nil
	}
	return callOf(resp.Request.Context())
}

// CallOf returns what is known by now of the call that resp answers. It reads
// resp.Request, so it also works under an http.Client. Attempts are a copy.
// A call that ended in an error has no response: Builder.OnCall is given its
// record.
func CallOf(resp *http.Response) (Call, bool) {
	c := callOfResponse(resp)
	if c == nil {
		return Call{}, false
	}
	return c.snapshot(), true
}

// FailureOf returns how the upstream's failure reads in its body, where the
// stack has looked at it already.
func FailureOf(resp *http.Response) (*wire.Failure, bool) {
	c := callOfResponse(resp)
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure, c.failure != nil
}
