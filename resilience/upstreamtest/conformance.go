package upstreamtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// CheckRoundTripper checks that a layer keeps the rules of
// [http.RoundTripper] and those that callers of net/http rely on: the request
// is not modified, its body is closed whatever happens, an error comes with a
// nil response and a response with a body, trailers arrive on the response
// that was returned, answers without a judged body pass untouched,
// CloseIdleConnections reaches the base, and any number of goroutines may use
// one value.
//
// build puts the layer under test on the base that it is given; it is called
// once a check, so that one check's state does not reach the next. The error
// joins every rule that was broken; nil means that all of them hold.
func CheckRoundTripper(build func(base http.RoundTripper) http.RoundTripper) error {
	checks := []struct {
		name string
		run  func(func(http.RoundTripper) http.RoundTripper) error
	}{
		{"answer", checkAnswer},
		{"failing base", checkFailure},
		{"cancelled context", checkCancelled},
		{"nil header", checkNilHeader},
		{"untouched answers", checkUntouched},
		{"trailers", checkTrailers},
		{"idle connections", checkIdle},
		{"concurrent use", checkConcurrent},
	}
	var errs []error
	for _, c := range checks {
		if err := c.run(build); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// fakeBase is a base transport without sockets.
type fakeBase struct {
	respond func(*http.Request) (*http.Response, error)
	idle    atomic.Int32
}

func (b *fakeBase) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body) // a broken body is the layer's business
		_ = req.Body.Close()
	}
	return b.respond(req)
}

func (b *fakeBase) CloseIdleConnections() { b.idle.Add(1) }

func fakeAnswer(req *http.Request, status int, header http.Header, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: body, ContentLength: -1, Request: req,
	}
}

const conformChat = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`

func chatAnswer(req *http.Request) (*http.Response, error) {
	return fakeAnswer(req, http.StatusOK, http.Header{"Content-Type": {"application/json"}},
		io.NopCloser(strings.NewReader(conformChat))), nil
}

// trackedBody counts its Close calls.
type trackedBody struct {
	io.Reader
	closed atomic.Int32
}

func (b *trackedBody) Close() error { b.closed.Add(1); return nil }

// awaitClosed waits a moment: RFC-wise a transport may close a body after
// RoundTrip has returned.
func (b *trackedBody) awaitClosed() bool {
	for range 200 {
		if b.closed.Load() > 0 {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// chatRequest is a request whose body is tracked, and a copy of what it was.
func chatRequest(ctx context.Context, getBody bool) (*http.Request, *trackedBody, *http.Request) {
	const text = `{"model":"m","messages":[]}`
	b := &trackedBody{Reader: strings.NewReader(text)}
	u := &url.URL{Scheme: "http", Host: "upstream.invalid", Path: "/v1/chat/completions"}
	req := (&http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {"application/json"}, "Accept-Encoding": {"gzip"},
			"Idempotency-Key": {"not\x00valid"}, "Authorization": {"Bearer x"},
		},
		Body: b, ContentLength: int64(len(text)),
	}).WithContext(ctx)
	if getBody {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	}
	was := req.Clone(ctx)
	was.Body = b
	return req, b, was
}

func sameRequest(req, was *http.Request) error {
	switch {
	case req.Method != was.Method, req.Host != was.Host, req.ContentLength != was.ContentLength,
		req.URL.String() != was.URL.String(), req.Context() != was.Context():
		return errors.New("the request was modified")
	case req.Body != was.Body, (req.GetBody == nil) != (was.GetBody == nil):
		return errors.New("the request's body was replaced")
	case !maps.EqualFunc(req.Header, was.Header, func(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }):
		return errors.New("the request's header was modified")
	}
	return nil
}

// try sends a request through rt and checks what holds for every exchange.
func try(rt http.RoundTripper, ctx context.Context, getBody bool) (*http.Response, error, error) { //nolint:revive // the last error is the verdict, the one before it the exchange's
	req, b, was := chatRequest(ctx, getBody)
	resp, err := rt.RoundTrip(req)
	switch {
	case err != nil && resp != nil:
		return resp, err, errors.New("an error came with a response")
	case err == nil && resp == nil:
		return nil, nil, errors.New("neither a response nor an error")
	case err == nil && resp.Body == nil:
		return resp, err, errors.New("a response without a body")
	case !b.awaitClosed():
		return resp, err, errors.New("the request's body was not closed")
	}
	return resp, err, sameRequest(req, was)
}

func checkAnswer(build func(http.RoundTripper) http.RoundTripper) error {
	for _, getBody := range []bool{true, false} {
		rt := build(&fakeBase{respond: chatAnswer})
		resp, err, bad := try(rt, context.Background(), getBody)
		if bad != nil || err != nil {
			return errors.Join(bad, err)
		}
		got, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return fmt.Errorf("reading a good answer: %w", err)
		}
		if string(got) != conformChat {
			return fmt.Errorf("a good answer arrived as %d bytes, want %d, unchanged", len(got), len(conformChat))
		}
	}
	return nil
}

func checkFailure(build func(http.RoundTripper) http.RoundTripper) error {
	boom := errors.New("conformance: base failed")
	for _, getBody := range []bool{true, false} {
		rt := build(&fakeBase{respond: func(*http.Request) (*http.Response, error) { return nil, boom }})
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		resp, err, bad := try(rt, ctx, getBody)
		cancel()
		if resp != nil {
			_ = resp.Body.Close()
		}
		switch {
		case bad != nil:
			return bad
		case err == nil:
			return errors.New("the base's error was swallowed")
		case !errors.Is(err, boom):
			return fmt.Errorf("the base's error is not in %w", err)
		}
	}
	return nil
}

func checkCancelled(build func(http.RoundTripper) http.RoundTripper) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	rt := build(&fakeBase{respond: func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() }})
	resp, err, bad := try(rt, ctx, true)
	switch {
	case bad != nil:
		return bad
	case err == nil:
		return errors.Join(errors.New("a cancelled call got a response"), resp.Body.Close())
	case !errors.Is(err, context.Canceled):
		return fmt.Errorf("context.Canceled is not in %w", err)
	}
	return nil
}

func checkNilHeader(build func(http.RoundTripper) http.RoundTripper) error {
	rt := build(&fakeBase{respond: chatAnswer})
	req, b, _ := chatRequest(context.Background(), true)
	req.Header = nil
	resp, err := rt.RoundTrip(req)
	if err == nil {
		err = resp.Body.Close()
	}
	if !b.awaitClosed() {
		return errors.New("the request's body was not closed")
	}
	return err
}

func checkUntouched(build func(http.RoundTripper) http.RoundTripper) error {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		rt := build(&fakeBase{respond: func(req *http.Request) (*http.Response, error) {
			return fakeAnswer(req, status, http.Header{"X-Mark": {"1"}}, http.NoBody), nil
		}})
		resp, err, bad := try(rt, context.Background(), true)
		if bad != nil || err != nil {
			return errors.Join(bad, err)
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != status || resp.Header.Get("X-Mark") != "1" {
			return fmt.Errorf("a %d arrived as %d", status, resp.StatusCode)
		}
	}
	return nil
}

// trailerBody fills the response's trailers at its end, as net/http does.
type trailerBody struct {
	r    *bytes.Reader
	resp *http.Response
}

func (b *trailerBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil {
		b.resp.Trailer.Set("X-Sum", "42")
	}
	return n, err
}

func (*trailerBody) Close() error { return nil }

func checkTrailers(build func(http.RoundTripper) http.RoundTripper) error {
	rt := build(&fakeBase{respond: func(req *http.Request) (*http.Response, error) {
		b := &trailerBody{r: bytes.NewReader([]byte(conformChat))}
		b.resp = fakeAnswer(req, http.StatusOK, http.Header{"Content-Type": {"application/json"}}, b)
		b.resp.Trailer = http.Header{"X-Sum": nil}
		return b.resp, nil
	}})
	resp, err, bad := try(rt, context.Background(), true)
	if bad != nil || err != nil {
		return errors.Join(bad, err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.Trailer.Get("X-Sum") != "42" {
		return errors.New("a trailer did not arrive on the response that was returned")
	}
	return nil
}

func checkIdle(build func(http.RoundTripper) http.RoundTripper) error {
	base := &fakeBase{respond: chatAnswer}
	(&http.Client{Transport: build(base)}).CloseIdleConnections()
	if base.idle.Load() == 0 {
		return errors.New("CloseIdleConnections did not reach the base")
	}
	return nil
}

func checkConcurrent(build func(http.RoundTripper) http.RoundTripper) error {
	rt := build(&fakeBase{respond: chatAnswer})
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for range 64 {
		wg.Go(func() {
			resp, err, bad := try(rt, context.Background(), true)
			if err == nil && bad == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				err = errors.Join(err, resp.Body.Close())
			}
			if err = errors.Join(err, bad); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
