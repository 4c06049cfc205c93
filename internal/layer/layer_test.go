package layer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNilBaseWaitsTenMinutesForHeaders(t *testing.T) {
	t.Parallel()
	var b layer.Base
	std, ok := b.Of(nil).(*http.Transport)
	require.True(t, ok)
	assert.Equal(t, layer.HeaderTimeout, std.ResponseHeaderTimeout)
	assert.NotSame(t, http.DefaultTransport, std)
	assert.Same(t, std, b.Of(nil), "one pool of connections a layer")
	given := http.DefaultTransport
	assert.Same(t, given, b.Of(given))
	layer.CloseIdle(std)
	layer.CloseIdle(roundTrip(nil)) // has none to close
}

func TestSendHoldsABaseToTheRules(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequest(http.MethodGet, "http://x/", nil)
	fault := errors.New("reset")
	body := &closing{Reader: strings.NewReader("x")}
	_, err := layer.Send(roundTrip(func(*http.Request) (*http.Response, error) { //nolint:bodyclose // there is none
		return &http.Response{Body: body}, fault
	}), req)
	require.ErrorIs(t, err, fault)
	assert.Equal(t, 1, body.closes(), "a response beside an error is closed")

	_, err = layer.Send(roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil }), req) //nolint:bodyclose,nilnil // there is none
	require.ErrorIs(t, err, layer.ErrNoResponse)
	_, err = layer.Send(roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{}, fault }), req) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, fault)

	resp, err := layer.Send(roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{}, nil }), req)
	require.NoError(t, err)
	assert.Equal(t, http.NoBody, resp.Body)
	require.NoError(t, resp.Body.Close())
}

type awkward struct{}

func (awkward) Error() string { panic("again") }

// badHandler is a handler of log records that panics.
type badHandler struct{ slog.Handler }

func (badHandler) Handle(context.Context, slog.Record) error { panic("no disk") }

func TestHookFaultsStayTheHooks(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	assert.True(t, layer.Hook(log, "OnGood", func() {}))
	assert.Empty(t, out.String())
	assert.False(t, layer.Hook(log, "OnBad", func() { panic("oops") }, "provider", "p"))
	assert.Contains(t, out.String(), `msg="surefoot: panic in a hook" provider=p hook=OnBad panic=string`)
	out.Reset()
	assert.False(t, layer.Hook(log, "OnAwkward", func() { panic(awkward{}) }))
	assert.Contains(t, out.String(), "hook=OnAwkward panic=layer_test.awkward")
	out.Reset()
	none := map[string]map[string]int{}["none"]
	assert.False(t, layer.Hook(log, "OnNil", func() { none["a"] = 1 }))
	assert.Contains(t, out.String(), `panic="assignment to entry in nil map"`)
	assert.False(t, layer.Hook(nil, "silent", func() { panic("oops") }))
	assert.False(t, layer.Hook(slog.New(badHandler{log.Handler()}), "OnBad", func() { panic("oops") }), "a log that panics costs its line only")

	out.Reset()
	deferred := false
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { deferred = true }()
		layer.Hook(log, "OnExit", runtime.Goexit)
	})
	wg.Wait()
	assert.True(t, deferred)
	assert.Contains(t, out.String(), `hook=OnExit panic="the hook ended its goroutine"`)
}

func TestStatusWords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		word string
		in   []int
		out  []int
	}{
		"a code":                     {"429", []int{429}, []int{428, 430, 29, 0, -1, 1 << 20}},
		"a class":                    {"5xx", []int{500, 599}, []int{499, 600}},
		"a class in capitals":        {"5XX", []int{500, 599}, []int{499, 600}},
		"a class in mixed case":      {"4xX", []int{400, 499}, []int{500}},
		"padded":                     {" 429\t", []int{429}, []int{428}},
		"the lowest and the highest": {"1xx", []int{100, 199}, []int{99, 200}},
		"default":                    {"default", []int{502, 503, 504}, []int{500}},
		"default in capitals":        {" DEFAULT ", []int{502, 503, 504}, []int{500}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, errs := layer.ParseStatuses("f", []string{tc.word}, []string{"502", "503", "504"})
			assert.Empty(t, errs)
			for _, status := range tc.in {
				assert.True(t, s.Has(status), status)
			}
			for _, status := range tc.out {
				assert.False(t, s.Has(status), status)
			}
		})
	}
	for _, word := range []string{"", " ", "99", "099", "600", "6xx", "0xx", "50x", "5x5", "xx5", "+42", "-42", "4290", "4٢9", "5xx,4xx", "defaults", "5 xx"} {
		_, errs := layer.ParseStatuses("retry.retry_on_statuses", []string{"429", word}, nil)
		require.Len(t, errs, 1, word)
		assert.ErrorContains(t, errs[0], "retry.retry_on_statuses[1]: ")
		assert.ErrorContains(t, errs[0], "is neither a status from 100 to 599 nor a class from 1xx to 5xx")
	}
	s, errs := layer.ParseStatuses("f", nil, []string{"502"})
	assert.Empty(t, errs)
	assert.Equal(t, layer.StatusSet{}, s, "what nil means is the caller's to say")
}

// closing counts how often it was closed.
type closing struct {
	io.Reader
	mu sync.Mutex
	n  int
}

func (c *closing) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return nil
}

func (c *closing) closes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func TestPrefixComesFirst(t *testing.T) {
	t.Parallel()
	under := &closing{Reader: strings.NewReader("rest")}
	b := &layer.Prefix{Head: []byte("head, "), Body: under}
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	assert.Equal(t, "head, rest", string(got))
	assert.False(t, b.InMemory())
	require.NoError(t, b.Close())
	assert.Equal(t, 1, under.closes())
	_, err = b.Read(make([]byte, 1))
	require.ErrorIs(t, err, http.ErrBodyReadAfterClose)

	cut := &layer.Prefix{Head: []byte("head"), Err: io.ErrUnexpectedEOF, Body: &closing{Reader: strings.NewReader("never")}}
	got, err = io.ReadAll(cut)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, "head", string(got))
	assert.True(t, cut.InMemory())
	require.NoError(t, cut.Close())
}

func TestAtEndReleases(t *testing.T) {
	t.Parallel()
	count := func(body func() io.ReadCloser, use func(io.ReadCloser)) (released int) {
		b := layer.AtEnd(body(), func() { released++ })
		use(b)
		return released
	}
	text := func() io.ReadCloser { return io.NopCloser(strings.NewReader("x")) }
	assert.Equal(t, 1, count(func() io.ReadCloser { return nil }, func(b io.ReadCloser) { assert.Nil(t, b) }))
	assert.Equal(t, 1, count(func() io.ReadCloser { return http.NoBody }, func(b io.ReadCloser) { assert.Equal(t, http.NoBody, b) }))
	assert.Zero(t, count(text, func(b io.ReadCloser) { _, _ = b.Read(make([]byte, 1)) }), "before its end")
	assert.Equal(t, 1, count(text, func(b io.ReadCloser) { _, _ = io.ReadAll(b) }))
	assert.Equal(t, 1, count(text, func(b io.ReadCloser) { _ = b.Close() }))
	assert.Equal(t, 1, count(func() io.ReadCloser { return io.NopCloser(panicking{}) }, func(b io.ReadCloser) {
		assert.PanicsWithValue(t, "oops", func() { _, _ = b.Read(nil) })
	}))
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("oops") }

type conn struct {
	io.ReadCloser
	io.Writer
}

func TestAtEndKeepsAWriter(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	b := layer.AtEnd(conn{io.NopCloser(strings.NewReader("")), &sent}, func() {})
	w, ok := b.(io.Writer)
	require.True(t, ok, "the body of a 101 is written to")
	_, err := io.WriteString(w, "frame")
	require.NoError(t, err)
	assert.Equal(t, "frame", sent.String())
	require.NoError(t, b.Close())
	_, ok = layer.AtEnd(io.NopCloser(strings.NewReader("x")), func() {}).(io.Writer)
	assert.False(t, ok, "no other body is")
}

type half struct {
	conn
	closed *int
}

func (h half) CloseWrite() error { *h.closed++; return nil }

func TestAtEndKeepsCloseWrite(t *testing.T) {
	t.Parallel()
	type closeWriter interface{ CloseWrite() error }
	closed, released := 0, 0
	b := layer.AtEnd(half{conn{io.NopCloser(strings.NewReader("x")), io.Discard}, &closed}, func() { released++ })
	require.Implements(t, (*io.Writer)(nil), b)
	require.Implements(t, (*closeWriter)(nil), b)
	require.NoError(t, b.(closeWriter).CloseWrite())
	assert.Equal(t, 1, closed)
	assert.Zero(t, released, "the other half goes on")
	data, err := io.ReadAll(b)
	require.NoError(t, err)
	assert.Equal(t, "x", string(data))
	assert.Equal(t, 1, released)
	require.NoError(t, b.Close())
	assert.NotImplements(t, (*closeWriter)(nil), layer.AtEnd(conn{io.NopCloser(strings.NewReader("")), io.Discard}, func() {}))
}
