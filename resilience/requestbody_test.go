package resilience_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// A request's body is what Body holds (contract 2): code above replaces it and
// leaves GetBody as it was.

const (
	secretBody = `{"model":"m1","messages":[{"role":"user","content":"my card is 4111-1111"}]}`
	cleanBody  = `{"model":"m1","messages":[{"role":"user","content":"my card is XXXX-XXXX"}]}`
)

// plainReader is a body of a type that net/http does not know.
type plainReader struct{ io.ReadCloser }

func gzipped(t testing.TB, text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// replacements are what code above does to a request's body.
func replacements(t testing.TB) map[string]struct {
	body   string
	length func(n int) int64
	header http.Header
} {
	same := func(n int) int64 { return int64(n) }
	return map[string]struct {
		body   string
		length func(n int) int64
		header http.Header
	}{
		"a redaction of the same length":  {cleanBody, same, nil},
		"a redaction, length not known":   {cleanBody, func(int) int64 { return -1 }, nil},
		"a redaction, length set to zero": {cleanBody, func(int) int64 { return 0 }, nil},
		"a shorter text":                  {strings.Replace(cleanBody, "XXXX-XXXX", "X", 1), same, nil},
		"an added field":                  {strings.Replace(cleanBody, "{", `{"user":"u",`, 1), same, nil},
		"compression":                     {gzipped(t, cleanBody), same, http.Header{"Content-Encoding": {"gzip"}}},
		"a signature":                     {cleanBody, same, http.Header{"X-Signature": {"abc"}}},
	}
}

func TestAReplacedBodyIsOnTheWireOnEveryAttempt(t *testing.T) {
	t.Parallel()
	for name, r := range replacements(t) {
		for kind, wrap := range map[string]func(io.ReadCloser) io.ReadCloser{
			"memory": func(rc io.ReadCloser) io.ReadCloser { return rc },
			"reader": func(rc io.ReadCloser) io.ReadCloser { return plainReader{rc} },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := play(reply{status: 503, body: "{}"}, reply{err: errors.New("reset")}, reply{status: 200, body: okJSON})
					tr, rec := build(t, base, quick())
					req := chat(t, t.Context(), secretBody)
					req.Body, req.ContentLength = wrap(io.NopCloser(strings.NewReader(r.body))), r.length(len(r.body))
					req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody was called"); return nil, io.EOF }
					for k, v := range r.header {
						req.Header[k] = v
					}
					status, _, err := do(t, tr, req)
					require.NoError(t, err)
					assert.Equal(t, 200, status)
					assert.Equal(t, []string{r.body, r.body, r.body}, base.bodies)
					assert.Equal(t, resilience.OutcomeSuccess, rec.last(t).Outcome)
					assert.Equal(t, breaker.Closed, tr.Breakers()[0].State)
					assert.Zero(t, tr.Breakers()[0].Failures)
				})
			})
		}
	}
}

func TestAReplacedBodyBelowTheStackIsTheBasesOwnAffair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := play(reply{status: 503, body: "{}"}, reply{status: 200, body: okJSON})
		redact := roundTrip(func(req *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.NoError(t, req.Body.Close())
			out := req.Clone(req.Context())
			out.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(b), "4111-1111", "XXXX-XXXX")))
			return base.RoundTrip(out)
		})
		tr, _ := build(t, redact, quick())
		status, _, err := do(t, tr, chat(t, t.Context(), secretBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, []string{cleanBody, cleanBody}, base.bodies)
	})
}

// A body too large to be read is sent again only if GetBody gives one of the
// same length and the same beginning.
func TestALargerBodyIsSentAgainIfItIsTheSame(t *testing.T) {
	t.Parallel()
	big := `{"model":"m1","input":"` + strings.Repeat("x", 5<<20) + `"}`
	other := strings.Replace(big, "m1", "m2", 1)
	open := func(body string) io.ReadCloser { return plainReader{io.NopCloser(strings.NewReader(body))} }
	for name, c := range map[string]struct {
		length int64
		get    func() (io.ReadCloser, error)
		want   int
	}{
		"the same":                   {int64(len(big)), func() (io.ReadCloser, error) { return open(big), nil }, 2},
		"the same, no length":        {-1, func() (io.ReadCloser, error) { return open(big), nil }, 2},
		"another beginning":          {int64(len(big)), func() (io.ReadCloser, error) { return open(other), nil }, 1},
		"a shorter one":              {int64(len(big)), func() (io.ReadCloser, error) { return open(big[:len(big)-1]), nil }, 1},
		"a longer one, no length":    {-1, func() (io.ReadCloser, error) { return open(big + " "), nil }, 1},
		"an error":                   {int64(len(big)), func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }, 1},
		"nothing":                    {int64(len(big)), func() (io.ReadCloser, error) { return nil, nil }, 1},
		"one that cannot be read":    {int64(len(big)), func() (io.ReadCloser, error) { return plainReader{io.NopCloser(iotest.ErrReader(io.EOF))}, nil }, 1},
		"there is none at all":       {int64(len(big)), nil, 1},
		"there is none, and no size": {-1, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := play(reply{status: 503, body: `{"error":{"message":"first"}}`}, reply{status: 200, body: okJSON})
			tr, rec := build(t, base, quick())
			req := chat(t, t.Context(), "")
			req.Body, req.GetBody, req.ContentLength = open(big), c.get, c.length
			status, body, err := do(t, tr, req)
			require.NoError(t, err)
			require.Equal(t, c.want, base.count())
			for i := range c.want {
				assert.True(t, big == base.bodies[i])
			}
			if c.want == 1 {
				assert.Equal(t, 503, status, "the answer in hand goes back")
				assert.Contains(t, body, "first")
			}
			assert.Len(t, rec.last(t).Attempts, c.want)
			assert.Equal(t, "m1", rec.last(t).Model)
			assert.LessOrEqual(t, tr.Breakers()[0].Failures, 1)
		})
	}
}

// What is wrong with a request is neither retried nor the upstream's fault
// (contract 4, issue 18.4).
func TestARequestBodyThatFailsIsNobodysFailure(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, okJSON)
	}))
	t.Cleanup(server.Close)
	gone := errors.New("disk gone")
	big := strings.Repeat("x", 5<<20)
	for name, c := range map[string]struct {
		path   string
		body   io.Reader
		length int64
	}{
		"shorter than it says":               {"/v1/chat/completions", strings.NewReader(secretBody), int64(len(secretBody)) + 16},
		"longer than it says":                {"/v1/chat/completions", strings.NewReader(secretBody), int64(len(secretBody)) - 16},
		"Read fails":                         {"/v1/chat/completions", io.MultiReader(strings.NewReader(`{"m`), iotest.ErrReader(gone)), -1},
		"Read fails, length known":           {"/v1/chat/completions", io.MultiReader(strings.NewReader(`{"m`), iotest.ErrReader(gone)), 100},
		"large, shorter than it says":        {"/v1/chat/completions", strings.NewReader(big), 6 << 20},
		"large, longer than it says":         {"/v1/chat/completions", strings.NewReader(big), 5<<20 - 1},
		"large, Read fails":                  {"/v1/chat/completions", io.MultiReader(strings.NewReader(big), iotest.ErrReader(gone)), -1},
		"unknown format, shorter":            {"/upload", strings.NewReader("hello"), 6},
		"unknown format, longer":             {"/upload", strings.NewReader("hello"), 4},
		"unknown format, Read fails":         {"/upload", io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(gone)), -1},
		"unknown format, Read fails at once": {"/upload", iotest.ErrReader(gone), 5},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			for _, traced := range []bool{false, true} {
				t.Run(fmt.Sprint(name, method, traced), func(t *testing.T) {
					std := new(http.Transport)
					defer std.CloseIdleConnections()
					var base http.RoundTripper = std
					if traced { // a base that wraps it, as for tracing
						base = roundTrip(std.RoundTrip)
					}
					tr, rec := build(t, base, quick())
					req, err := http.NewRequestWithContext(t.Context(), method, server.URL+c.path, nil)
					require.NoError(t, err)
					closed := false
					rd := c.body
					if s, ok := rd.(*strings.Reader); ok {
						own := *s // the transport may go on reading it
						rd = &own
					} else if strings.Contains(name, "large") {
						rd = io.MultiReader(strings.NewReader(big), iotest.ErrReader(gone))
					}
					req.Body, req.ContentLength = &closeNoted{rd, &closed}, c.length
					req.GetBody = func() (io.ReadCloser, error) { t.Error("sent again"); return nil, io.EOF }
					_, _, err = do(t, tr, req)
					assert.Zero(t, tr.Breakers()[0].Failures)
					if err == nil && strings.Contains(name, "longer") {
						return // the server had all that it was promised and was the first to answer
					}
					require.Error(t, err)
					var fault *ending.RequestError
					require.ErrorAs(t, err, &fault)
					if strings.Contains(name, "Read fails") {
						require.ErrorIs(t, err, gone)
					}
					assert.True(t, closed)
					assert.LessOrEqual(t, len(rec.last(t).Attempts), 1)
					assert.Zero(t, tr.Breakers()[0].Failures)
					assert.Equal(t, breaker.Closed, tr.Breakers()[0].State)
				})
			}
		}
	}
}

// net/http refuses these before or while it writes, over whatever wraps it.
func TestARequestThatCannotBeWrittenIsNobodysFailure(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(server.Close)
	for name, spoil := range map[string]func(*http.Request){
		"a length and no body":          func(r *http.Request) { r.Body, r.GetBody = nil, nil },
		"a trailer's name":              func(r *http.Request) { r.Trailer = http.Header{"a b": nil} },
		"a header's value":              func(r *http.Request) { r.Header.Set("X-User", "a\nb") },
		"a control in the query":        func(r *http.Request) { r.URL.RawQuery = "a=\x01" },
		"a tab in the query":            func(r *http.Request) { r.URL.RawQuery = "a=\t" },
		"a body whose Close goes wrong": func(r *http.Request) { r.Body = closeFails{r.Body} },
	} {
		for _, path := range []string{"/v1/chat/completions", "/upload"} {
			for _, wrapped := range []bool{false, true} {
				t.Run(fmt.Sprint(name, path, wrapped), func(t *testing.T) {
					std := new(http.Transport)
					defer std.CloseIdleConnections()
					var base http.RoundTripper = std
					if wrapped {
						base = roundTrip(std.RoundTrip)
					}
					tr, rec := build(t, base, quick())
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+path, strings.NewReader(`{"model":"m1"}`))
					require.NoError(t, err)
					spoil(req)
					_, _, err = do(t, tr, req)
					require.Error(t, err)
					assert.LessOrEqual(t, len(rec.last(t).Attempts), 1)
					assert.Zero(t, tr.Breakers()[0].Failures)
				})
			}
		}
	}
}

type closeFails struct{ io.ReadCloser }

func (c closeFails) Close() error { return errors.Join(io.ErrClosedPipe, c.ReadCloser.Close()) }

type closeNoted struct {
	io.Reader
	closed *bool
}

func (c *closeNoted) Close() error { *c.closed = true; return nil }

func TestARejectedCallsBodyIsClosedUnread(t *testing.T) {
	t.Parallel()
	tr, _ := build(t, play(reply{status: 200, body: okJSON}), quick())
	tr.ForceOpen("", 0)
	closed := false
	req := chat(t, t.Context(), secretBody)
	req.Body = &closeNoted{readerFunc(func([]byte) (int, error) { t.Error("read"); return 0, io.EOF }), &closed}
	req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody was called"); return nil, io.EOF }
	status, _, err := do(t, tr, req)
	require.NoError(t, err)
	assert.Equal(t, 503, status)
	assert.True(t, closed)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// countReads counts how often a body was read to its end.
type countReads struct {
	io.Reader
	ends *atomic.Int64
}

func (c countReads) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil {
		c.ends.Add(1)
	}
	return n, err
}
func (c countReads) Close() error { return nil }

// However many layers a request goes through, router, chains and stack, it is
// looked at once, and its body is read once and parsed once (design, "How a call
// flows"). Who replaces something in between has made another request.
func TestARequestIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	type count struct{ looks, parses int }
	for name, row := range map[string]struct {
		between func(http.RoundTripper) http.RoundTripper
		count   count
		want    string
	}{
		"nothing between": {func(rt http.RoundTripper) http.RoundTripper { return rt }, count{1, 1}, `{"model":"m-2","x":"4111"}`},
		"a clone between": {func(rt http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) { return rt.RoundTrip(req.Clone(req.Context())) })
		}, count{1, 1}, `{"model":"m-2","x":"4111"}`},
		"a redaction between": {func(rt http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				b, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				require.NoError(t, req.Body.Close())
				out := req.Clone(req.Context())
				out.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(b), "4111", "XXXX")))
				return rt.RoundTrip(out)
			})
		}, count{2, 2}, `{"model":"m-2","x":"XXXX"}`},
		"another path": {func(rt http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				out := req.Clone(req.Context())
				out.URL.Path = "/v1/completions"
				return rt.RoundTrip(out)
			})
		}, count{2, 1}, `{"model":"m-2","x":"4111"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := play(reply{status: 503, body: "{}"}, reply{status: 200, body: okJSON})
				var counts []count
				seen := roundTrip(func(req *http.Request) (*http.Response, error) {
					var n count
					n.looks, n.parses = resilience.Looks(req.Context())
					counts = append(counts, n)
					return base.RoundTrip(req)
				})
				stack, rec := build(t, seen, quick())
				inner, err := failover.NewChain(failover.Policy{}, failover.Target{Name: "s", Provider: "p", Model: "m-2", Transport: row.between(stack)})
				require.NoError(t, err)
				outer, err := failover.NewChain(failover.Policy{}, failover.Target{Name: "c", Model: "m-1", BaseURL: "https://b.example/v1", Transport: inner})
				require.NoError(t, err)
				router, err := failover.NewRouter(map[string]*failover.Chain{"virtual": outer}, nil)
				require.NoError(t, err)
				var ends atomic.Int64
				req := chat(t, t.Context(), "")
				req.Body, req.ContentLength = countReads{strings.NewReader(`{"model":"virtual","x":"4111"}`), &ends}, -1
				req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody was called"); return nil, io.EOF }
				status, _, err := do(t, router, req)
				require.NoError(t, err)
				assert.Equal(t, 200, status)
				assert.Equal(t, []string{row.want, row.want}, base.bodies)
				assert.Equal(t, []count{row.count, row.count}, counts, "of each attempt")
				assert.EqualValues(t, 1, ends.Load())
				assert.Equal(t, "m-2", rec.last(t).Model)
			})
		})
	}
}

// A second request under the context of the first is read for itself.
func TestAReadingBelongsToOneRequest(t *testing.T) {
	t.Parallel()
	base := play(reply{status: 200, body: okJSON})
	inner, rec := build(t, base, quick())
	var got context.Context
	chain, err := failover.NewChain(failover.Policy{}, failover.Target{Name: "a", Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		got = req.Context()
		return inner.RoundTrip(req)
	})})
	require.NoError(t, err)
	status, _, err := do(t, chain, chat(t, t.Context(), `{"model":"m1"}`))
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	_, _, err = do(t, inner, chat(t, got, `{"model":"m2"}`))
	require.NoError(t, err)
	assert.Equal(t, []string{`{"model":"m1"}`, `{"model":"m2"}`}, base.bodies)
	assert.Equal(t, "m2", rec.last(t).Model)
}
