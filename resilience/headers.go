package resilience

import (
	"net/http"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// headerLimit bounds the wait for an answer's headers over a base that has no
// ResponseHeaderTimeout, as the default one has and the clients of the official
// SDKs have: one that is wrapped for tracing, say. It is for calls without a
// time limit alone, since that bounds the wait already.
type headerLimit struct{ base http.RoundTripper }

// boundsHeaders reports whether base has such a limit of its own.
func boundsHeaders(base http.RoundTripper) bool {
	std, ok := base.(*http.Transport)
	return ok && std.ResponseHeaderTimeout > 0
}

// errHeaders is the limit's error; it is only read.
var errHeaders = &ending.TimeoutError{What: "response header timeout", After: layer.HeaderTimeout}

// RoundTrip runs the limit of the call, which has no other, during the exchange.
// Where it passes the call is over: no attempt follows a local timeout
// (contract 3).
func (h headerLimit) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callOf(req.Context())
	if !c.limited {
		return h.base.RoundTrip(req)
	}
	c.limit.Start(layer.HeaderTimeout, errHeaders)
	resp, err := layer.Send(h.base, req)
	if c.limit.Stop() || err != nil {
		return resp, err
	}
	_ = resp.Body.Close() // the base ignored the context
	return nil, errHeaders
}

func (h headerLimit) CloseIdleConnections() { layer.CloseIdle(h.base) }
