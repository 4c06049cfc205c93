package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
)

// badError is an error whose methods do what a test wants.
type badError struct{ text, unwrap, is, as func() }

func do(f func()) {
	if f != nil {
		f()
	}
}

func (e *badError) Error() string   { do(e.text); return "secret text" }
func (e *badError) Unwrap() error   { do(e.unwrap); return nil }
func (e *badError) Is(error) bool   { do(e.is); return false }
func (e *badError) As(any) bool     { do(e.as); return false }
func (e *badError) Timeout() bool   { panic("boom") }
func (e *badError) Temporary() bool { panic("boom") }

// plainError reads its receiver, as most do.
type plainError struct{ text string }

func (e *plainError) Error() string { return e.text }

// nilLister panics on its nil receiver.
type nilLister struct{ ids []string }

func (l *nilLister) ListModels(context.Context) ([]discovery.Model, error) {
	return models(l.ids...), nil
}

func boom() { panic("boom") }

// failing is a lister that returns an error of somebody else's type.
func failing(err error) discovery.Lister {
	return listFunc(func(context.Context) ([]discovery.Model, error) { return models("m"), err })
}

// overHTTP is a lister over a transport.
func overHTTP(t *testing.T, rt roundTripper) discovery.Lister {
	t.Helper()
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: &http.Client{Transport: rt}, BaseURL: "http://h/v1"})
	require.NoError(t, err)
	return l
}

// badBody is a response body whose methods do what a test wants.
type badBody struct {
	io.Reader
	read, close func()
}

func (b *badBody) Read(p []byte) (int, error) { do(b.read); return b.Reader.Read(p) }
func (b *badBody) Close() error               { do(b.close); return nil }

// Contract 8: whatever one provider's lister does, the library survives, says
// so, and serves the others.
func TestListersAndErrorsThatMisbehave(t *testing.T) {
	var typedNil *discovery.ListError
	var otherNil *plainError
	const panicked, other = "the lister panicked", "an error of the lister"
	for name, tc := range map[string]struct {
		lister discovery.Lister
		word   string
	}{
		"panic in ListModels":   {listFunc(func(context.Context) ([]discovery.Model, error) { panic("boom") }), panicked},
		"panic with nil":        {listFunc(func(context.Context) ([]discovery.Model, error) { panic(error(nil)) }), panicked},
		"Goexit in ListModels":  {listFunc(func(context.Context) ([]discovery.Model, error) { runtime.Goexit(); return nil, nil }), panicked},
		"nil receiver":          {(*nilLister)(nil), panicked},
		"typed nil *ListError":  {failing(typedNil), other},
		"wrapped typed nil":     {failing(fmt.Errorf("wrapped: %w", typedNil)), other},
		"joined typed nil":      {failing(errors.Join(errDown, typedNil)), other},
		"typed nil of another":  {failing(otherNil), other},
		"nil inside *ListError": {failing(&discovery.ListError{Reason: discovery.ReasonStatus, Status: 503}), "status 503"},
		"bad inside *ListError": {failing(&discovery.ListError{Reason: discovery.ReasonStatus, Status: 503, Err: &badError{is: boom, text: boom}}), "status 503"},
		"unknown reason":        {failing(&discovery.ListError{Reason: "secret text"}), other},
		"panic in Error":        {failing(&badError{text: boom}), other},
		"panic in Unwrap":       {failing(&badError{unwrap: boom}), panicked},
		"panic in Is":           {failing(&badError{is: boom}), panicked},
		"panic in As":           {failing(&badError{as: boom}), panicked},
		"Goexit in Error":       {failing(&badError{text: runtime.Goexit}), other},
		"Goexit in Is":          {failing(&badError{is: runtime.Goexit}), panicked},
		"panicking transport":   {overHTTP(t, func(*http.Request) (*http.Response, error) { panic("boom") }), panicked},
		"exiting transport":     {overHTTP(t, func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }), panicked},
		"transport's bad error": {overHTTP(t, func(*http.Request) (*http.Response, error) { return nil, &badError{is: boom} }), panicked},
		"transport's quiet error": {overHTTP(t, func(*http.Request) (*http.Response, error) {
			return nil, errors.New("malformed HTTP status code \"secret text\"")
		}), "connection failed"},
		"body that panics": {overHTTP(t, func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 200, "application/json", "")
			resp.Body = &badBody{Reader: strings.NewReader("{"), read: boom}
			return resp, nil
		}), panicked},
		"body whose Close panics": {overHTTP(t, func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 200, "application/json", "")
			resp.Body = &badBody{Reader: strings.NewReader(`{"data":[{"id":"m"}]}`), close: boom}
			return resp, nil
		}), panicked},
		"body that reads nothing for ever": {overHTTP(t, func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 200, "application/json", "")
			resp.Body = &badBody{Reader: emptyReader{}}
			return resp, nil
		}), "connection failed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry(t, discovery.Config{}, discovery.Provider{Name: "bad", Lister: tc.lister}, discovery.Provider{Name: "good", Lister: newFake("m")})
			for range 2 { // the second compares with what the first left
				err := r.Refresh(t.Context())
				require.Error(t, err)
				assert.NotContains(t, err.Error(), "secret")
				assert.NotErrorIs(t, err, io.EOF)
				var other *url.EscapeError
				assert.NotErrorAs(t, err, &other)
				s := statusOf(t, r, "bad")
				assert.Equal(t, discovery.StatusUnhealthy, s.Status)
				assert.Contains(t, s.LastError, tc.word)
				assert.Equal(t, []string{"good/m"}, names(r.Models()))
			}
			_, err := r.Resolve(t.Context(), "bad/m")
			var re *discovery.ResolveError
			require.ErrorAs(t, err, &re)
			assert.Equal(t, 503, re.StatusCode())
			assert.NotContains(t, err.Error(), "secret")
			assert.NotContains(t, get(r.Handler(), "/").Body.String(), "secret")
		})
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// The cause stays reachable, without its text.
func TestCauseOfAListErrorIsReachable(t *testing.T) {
	cause := &plainError{text: "secret text"}
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: failing(fmt.Errorf("secret wrapping: %w", cause))})
	err := r.Refresh(t.Context())
	require.ErrorIs(t, err, cause)
	var typed *plainError
	require.ErrorAs(t, err, &typed)
	var le *discovery.ListError
	require.ErrorAs(t, err, &le)
	assert.Equal(t, discovery.ReasonOther, le.Reason)
	assert.NotContains(t, err.Error(), "secret")
	require.ErrorContains(t, err, "*fmt.wrapError", "the type is not the upstream's")
}

// A lister may keep its error and change it; what the page shows is a copy.
func TestListErrorIsCopied(t *testing.T) {
	kept := &discovery.ListError{Reason: discovery.ReasonStatus, Status: 500}
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: failing(kept)})
	require.Error(t, r.Refresh(t.Context()))
	kept.Status = 404
	assert.Equal(t, "status 500", statusOf(t, r, "p").LastError)
}

func TestNilListErrorHasMethods(t *testing.T) {
	var e *discovery.ListError
	assert.Equal(t, "list models: an error of the lister", e.Error())
	assert.NoError(t, e.Unwrap())
}

// What a context's cause does falls on its owner alone.
func TestCausesThatMisbehave(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Lister: listFunc(func(ctx context.Context) ([]discovery.Model, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	defer run(t, r)()
	for _, cause := range []error{&badError{is: boom, text: boom}, &badError{unwrap: boom}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		require.ErrorIs(t, r.Refresh(ctx), context.Canceled)
		_, err := r.Resolve(ctx, "p/m")
		var re *discovery.ResolveError
		require.ErrorAs(t, err, &re)
		assert.Equal(t, 0, re.StatusCode())
		assert.NotEmpty(t, err.Error())
	}
}

// badHandler is a log handler that does what a test wants.
type badHandler struct{ enabled, handle func() }

func (h badHandler) Enabled(context.Context, slog.Level) bool  { do(h.enabled); return true }
func (h badHandler) Handle(context.Context, slog.Record) error { do(h.handle); return nil }
func (h badHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h badHandler) WithGroup(string) slog.Handler             { return h }

func TestLogHandlersThatMisbehave(t *testing.T) {
	for name, h := range map[string]badHandler{
		"panic":            {handle: boom},
		"panic in Enabled": {enabled: boom},
		"Goexit":           {handle: runtime.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake("a")
			// The cache file is a directory: that is logged, too.
			r := registry(t, discovery.Config{Logger: slog.New(h), CacheFile: t.TempDir()}, discovery.Provider{Name: "p", Lister: f})
			stop := run(t, r)
			for range 2 {
				f.set(errDown)
				require.ErrorIs(t, r.Refresh(t.Context()), errDown)
				f.set(nil, "a")
				require.NoError(t, r.Refresh(t.Context()))
			}
			stop()
		})
	}
}

// A handler may ask the registry for what it likes: no lock is held.
func TestLogHandlersMayCallTheRegistry(t *testing.T) {
	var r *discovery.Registry
	logged := 0
	h := badHandler{handle: func() {
		if logged++; logged > 1 {
			return
		}
		_, _ = r.Status(), r.Models()
		_ = r.Refresh(t.Context())
	}}
	r = registry(t, discovery.Config{Logger: slog.New(h)})
	r2, err := discovery.NewRegistry(discovery.Config{Logger: slog.New(h), CacheFile: t.TempDir()})
	require.NoError(t, err)
	r = r2
	require.NoError(t, r.Add(discovery.Provider{Name: "p", Lister: newFake("a")}))
	require.NoError(t, r.Refresh(t.Context()))
	assert.NotZero(t, logged, "the cache could not be written")
}

// badControls do what a test wants.
type badControls struct{ f func() }

func (c badControls) ForceOpen(string, time.Duration) { c.f() }
func (c badControls) Reset(string)                    { c.f() }

func TestHooksThatMisbehave(t *testing.T) {
	for name, bad := range map[string]func(){"panic": boom, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			calls := 0
			r := registry(t, discovery.Config{EnableActions: true, Logger: slog.New(slog.NewTextHandler(&log, nil))},
				discovery.Provider{Name: "p", Models: []string{"m"}, Controls: badControls{bad}, Breakers: func() []breaker.Snapshot {
					if calls++; calls == 5 {
						return []breaker.Snapshot{{State: breaker.Open}}
					}
					bad()
					return nil
				}})
			for range 4 {
				s := statusOf(t, r, "p")
				assert.Equal(t, discovery.StatusHealthy, s.Status, "no state is shown")
				assert.Nil(t, s.Breaker)
			}
			assert.Equal(t, 1, strings.Count(log.String(), "hook=Breakers"), "once, not once a second")
			assert.Equal(t, discovery.StatusCircuitOpen, statusOf(t, r, "p").Status)
			page := get(r.Handler(), "http://localhost/").Body.String()
			for _, action := range []string{"open", "reset"} {
				rec := press(r.Handler(), page, url.Values{"action": {action}, "provider": {"p"}})
				assert.Equal(t, http.StatusUnprocessableEntity, rec.Code)
				assert.Contains(t, rec.Body.String(), "panicked")
			}
		})
	}
}

// press posts a form with the page's token.
func press(h http.Handler, page string, form url.Values) *httptest.ResponseRecorder {
	form.Set("token", tokenOf(page))
	req := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

func tokenOf(page string) string {
	if m := tokenField.FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// badContext panics when it is asked for a value.
type badContext struct{ context.Context }

func (badContext) Value(any) any { panic("boom") }

func TestObserveSurvivesItsInputs(t *testing.T) {
	r := registry(t, discovery.Config{}, discovery.Provider{Name: "p", Models: []string{"m"}})
	bad := resilience.Call{Provider: "p", Model: "m", Err: &badError{is: boom, unwrap: boom, text: boom}}
	var typedNil *plainError
	for _, c := range []resilience.Call{bad, {Provider: "p", Model: "m", Err: typedNil}, {Provider: "p", Model: "m", Status: -1, Err: errDown}} {
		r.Observe(t.Context(), c)
		r.Observe(badContext{t.Context()}, c)
		r.Observe(nil, c) //nolint:staticcheck // a caller's mistake
	}
	s := statusOf(t, r, "p")
	assert.Equal(t, 9, s.Calls)
	assert.Equal(t, 9, s.Failures)
	_ = get(r.Handler(), "/")
}
