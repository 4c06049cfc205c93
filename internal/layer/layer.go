// Package layer is what every layer of the stack does alike, each of them an
// [http.RoundTripper]: the transport below it, the rules that transport is held
// to, the hooks of its user, the statuses of its policy, and the bodies that it
// reads ahead, drops or watches. It imports the standard library alone, so that
// each layer also works without the others.
package layer

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// HeaderTimeout bounds the wait for response headers of the transport that
// stands in for a nil base, as the official SDKs' own clients do.
const HeaderTimeout = 600 * time.Second

// ErrNoResponse is the error of a transport that returned neither a response
// nor an error.
var ErrNoResponse = errors.New("the base transport returned neither a response nor an error")

// Base resolves the transport below a layer. The zero Base is ready to use; it
// must not be copied once used, and any number of goroutines may use it.
type Base struct {
	once  sync.Once
	clone http.RoundTripper // of http.DefaultTransport, for a nil base
}

// Of returns rt, or a [DefaultBase] of its own where that is nil.
func (b *Base) Of(rt http.RoundTripper) http.RoundTripper {
	if rt != nil {
		return rt
	}
	b.once.Do(func() { b.clone = DefaultBase() })
	return b.clone
}

// DefaultBase returns what a nil base stands for: a clone of
// [http.DefaultTransport] that waits at most [HeaderTimeout] for response
// headers. A default that is not an [*http.Transport], since somebody replaced
// it, is returned as it is.
func DefaultBase() http.RoundTripper {
	std, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	std = std.Clone()
	std.ResponseHeaderTimeout = HeaderTimeout
	return std
}

// Stacked reports whether rt is a stack of layers, or what stands above some: a
// chain, a router. All of them, and no plain transport, make clients.
func Stacked(rt http.RoundTripper) bool {
	_, ok := rt.(interface{ Client() *http.Client })
	return ok
}

// Send has rt make the exchange and holds it to the rules of
// [http.RoundTripper]: an error comes without a response, and a response has a
// body. What breaks them becomes an error whose response is closed,
// [ErrNoResponse], or [http.NoBody].
func Send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := rt.RoundTrip(req)
	switch {
	case err != nil:
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close() // err says what is wrong
		}
		return nil, err
	case resp == nil:
		return nil, ErrNoResponse
	case resp.Body == nil:
		resp.Body = http.NoBody
	}
	return resp, nil
}

// CloseIdle closes the idle connections of rt, if it has any.
func CloseIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Hook calls a func of the user's, under no lock of ours, and reports whether it
// returned. A panic in it goes no further; the log gets its kind. A hook that ends its
// goroutine (runtime.Goexit, as testing.T.FailNow does) is logged too, and then
// only the deferred calls of our frames run: whoever holds something releases
// it by defer. A nil l is silent.
func Hook(l *slog.Logger, name string, hook func(), attrs ...any) (returned bool) {
	defer func() {
		v := recover()
		if returned || l == nil {
			return
		}
		what := "the hook ended its goroutine"
		if v != nil {
			what = describe(v)
		}
		defer func() { _ = recover() }() // a handler that panics costs its line only
		l.With(attrs...).Error("surefoot: panic in a hook", "hook", name, "panic", what)
	}()
	hook()
	return true
}

// describe names the kind of a panic. What the value itself says stays out of the
// log, since it may quote a prompt or a credential; the runtime's own faults
// (nil pointer, index out of range) quote nothing.
func describe(v any) string {
	if fault, ok := v.(runtime.Error); ok {
		return fault.Error()
	}
	return fmt.Sprintf("%T", v)
}
