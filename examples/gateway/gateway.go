package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// limits bound what one caller can ask of the gateway.
type limits struct {
	body   int64         // bytes of a request body; keep it below failover.max_body
	upload time.Duration // for a request body to arrive
	call   time.Duration // for a call, its stream included
}

// gateway serves callers: the router behind a reverse proxy, and the list of
// what may be asked for.
func gateway(cfg *config.Config, app *config.Assembly, l limits, logger *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/models", app.Registry().ModelsHandler(cfg.VirtualModels()...))
	mux.Handle("POST /v1/", bounded(proxy(app.Router(), logger), l))
	return mux
}

// proxy sends calls through the router.
func proxy(router http.RoundTripper, logger *slog.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: router,
		// The router goes where the model is. The host is one that no target
		// has, so no caller's credential goes to a provider (contract 7.5).
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "https", "gateway.invalid", ""
		},
		FlushInterval: -1, // streams that are not event streams, too
		ErrorHandler:  tell,
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// bounded gives every call its limits.
func bounded(next http.Handler, l limits) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The context ends what waits for a provider, the deadlines what waits for
		// the caller. A deadline that is not supported only bounds less.
		conn := http.NewResponseController(w)
		_ = conn.SetReadDeadline(time.Now().Add(l.upload))
		_ = conn.SetWriteDeadline(time.Now().Add(l.call + l.upload))
		ctx, cancel := context.WithTimeout(r.Context(), l.call)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = &upload{ReadCloser: http.MaxBytesReader(w, r.Body, l.body), conn: conn}
		next.ServeHTTP(w, r)
	})
}

// upload is a request body. At its end it lifts the deadline for reading: the
// server goes on reading to notice that the caller has left.
type upload struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // an error that wraps it is no end
		_ = u.conn.SetReadDeadline(time.Time{}) // as above
	}
	return n, err
}

// tell answers a call of which no target made a response, in the call's format:
// a body that cannot be used, a target's own time limit, the end of the gateway.
func tell(w http.ResponseWriter, r *http.Request, err error) {
	status, typ, code := resilience.StatusOf(err), "server_error", "upstream_error"
	switch {
	case status == http.StatusRequestEntityTooLarge:
		typ, code = "invalid_request_error", "request_too_large"
	case status == 0: // the caller has left, or the gateway is about to
		status, code = http.StatusServiceUnavailable, "unavailable"
	case status < http.StatusInternalServerError:
		typ, code = "invalid_request_error", "invalid_request"
	case status == http.StatusGatewayTimeout:
		typ, code = "timeout_error", "timeout"
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Should-Retry", "false") // what can be tried has been
	f := wire.FormatOf(r.Method, r.URL)
	for name, values := range f.ErrorHeader(status, typ, code) {
		h[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(f.ErrorBody(status, typ, code, http.StatusText(status))) // or the caller has left
}
