package resilience

import (
	"net/http"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/resilience/layer"
)

// headerLimit bounds the wait for an answer's headers over a base that has no
// ResponseHeaderTimeout, as the default one has and the clients of the official
// SDKs have: one that is wrapped for tracing, say. It is for calls without a
// deadline alone, since a deadline bounds that wait already.
type headerLimit struct{ base http.RoundTripper }

// bounded returns base, with the limit where it has none of its own.
func bounded(base http.RoundTripper) http.RoundTripper {
	if std, ok := base.(*http.Transport); ok && std.ResponseHeaderTimeout > 0 {
		return base
	}
	return headerLimit{base}
}

// errHeaders is the limit's error; it is only read.
var errHeaders = &ending.TimeoutError{What: "response header timeout", After: layer.HeaderTimeout}

func (h headerLimit) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, ok := req.Context().Deadline(); ok {
		return h.base.RoundTrip(req)
	}
	limit := layer.NewLimit(req.Context(), layer.HeaderTimeout, errHeaders)
	returned := false
	defer func() {
		if !returned { // the base panicked
			limit.Release()
		}
	}()
	sent := req.WithContext(limit)
	resp, err := layer.Send(h.base, sent)
	returned = true
	inTime := limit.Stop()
	if err != nil {
		err = ending.Of(sent, err).Explain(err) // a limit that fired is its cause
		limit.Release()
		return nil, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	if resp.Body = layer.AtEnd(resp.Body, limit.Release); !inTime { // the base ignored the context
		_ = resp.Body.Close()
		return nil, ending.Of(sent, nil).Explain(nil)
	}
	return resp, nil
}

func (h headerLimit) CloseIdleConnections() { layer.CloseIdle(h.base) }
