package layer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// upload is a request body of a type that net/http does not know.
type upload struct {
	io.Reader
	closes   int
	closeErr error
}

func (u *upload) Close() error { u.closes++; return u.closeErr }

// stuck is a body whose Read waits for its Close.
type stuck struct {
	once   sync.Once
	closed chan struct{}
}

func newStuck() *stuck { return &stuck{closed: make(chan struct{})} }

func (s *stuck) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s *stuck) Close() error             { s.once.Do(func() { close(s.closed) }); return nil }

func requestFault(t *testing.T, err error) {
	t.Helper()
	var fault *ending.RequestError
	require.ErrorAs(t, err, &fault)
}

func TestInMemoryIsWhatNetHTTPKnows(t *testing.T) {
	t.Parallel()
	half := strings.NewReader("hello")
	_, err := half.ReadByte()
	require.NoError(t, err)
	for name, row := range map[string]struct {
		body io.ReadCloser
		want string
		ok   bool
	}{
		"string":           {io.NopCloser(strings.NewReader("hello")), "hello", true},
		"bytes":            {io.NopCloser(bytes.NewReader([]byte("hello"))), "hello", true},
		"buffer":           {io.NopCloser(bytes.NewBufferString("hello")), "hello", true},
		"half read":        {io.NopCloser(half), "ello", true},
		"read to its end":  {io.NopCloser(strings.NewReader("")), "", true},
		"a limited reader": {io.NopCloser(io.LimitReader(half, 1)), "", false},
		"NoBody":           {http.NoBody, "", false},
		"nil":              {nil, "", false},
		"another closer":   {&upload{Reader: strings.NewReader("hello")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := []byte("what was there before")
			require.Equal(t, row.ok, layer.InMemory(row.body, &data))
			assert.Equal(t, row.ok, layer.Known(row.body))
			if !row.ok {
				assert.Equal(t, -1, layer.Unread(row.body))
				return
			}
			assert.Equal(t, row.want, string(data))
			assert.Equal(t, len(row.want), layer.Unread(row.body))
			sent, err := io.ReadAll(row.body)
			require.NoError(t, err)
			assert.Equal(t, row.want, string(sent), "nothing was read from it")
		})
	}
}

func TestCopiesHaveReadersOfTheirOwn(t *testing.T) {
	t.Parallel()
	get := layer.Copies([]byte("hello"))
	for range 2 {
		body, err := get()
		require.NoError(t, err)
		assert.True(t, layer.Known(body), "net/http sends it in one write")
		b, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(b))
	}
	none, err := layer.Copies(nil)()
	require.NoError(t, err)
	assert.Equal(t, http.NoBody, none, "a length of 0, not an unknown one")
}

func TestReadAhead(t *testing.T) {
	t.Parallel()
	gone := errors.New("disk gone")
	text := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	failing := func(err error) func() io.Reader {
		return func() io.Reader { return io.MultiReader(strings.NewReader("he"), iotest.ErrReader(err)) }
	}
	for name, row := range map[string]struct {
		read   func() io.Reader
		length int64
		close  error
		head   string
		whole  bool
		fails  error // in the chain of the error
		open   bool
	}{
		"shorter than the limit":      {read: text("hello"), length: 5, head: "hello", whole: true},
		"of unknown length":           {read: text("hello"), length: -1, head: "hello", whole: true},
		"longer than it says":         {read: text("hello"), length: 2, head: "hello", whole: true},
		"shorter than it says":        {read: text("hello"), length: 7, head: "hello", whole: true},
		"absurd length":               {read: text("hello"), length: 1 << 62, head: "hello", whole: true},
		"empty":                       {read: text(""), head: "", whole: true},
		"as long as the limit":        {read: text("hello678"), length: 8, head: "hello678", open: true},
		"longer than the limit":       {read: text("hello6789"), length: -1, head: "hello678", open: true},
		"byte by byte":                {read: func() io.Reader { return iotest.OneByteReader(strings.NewReader("hello")) }, head: "hello", whole: true},
		"data with the end":           {read: func() io.Reader { return iotest.DataErrReader(strings.NewReader("hello")) }, head: "hello", whole: true},
		"Read fails":                  {read: failing(gone), fails: gone},
		"an end that is wrapped":      {read: failing(fmt.Errorf("peer: %w", io.EOF)), fails: io.EOF},
		"an end that came too soon":   {read: failing(io.ErrUnexpectedEOF), fails: io.ErrUnexpectedEOF},
		"a Read that returns nothing": {read: func() io.Reader { return readerFunc(func([]byte) (int, error) { return 0, nil }) }, fails: io.ErrNoProgress},
		"Close fails":                 {read: text("hello"), close: gone, head: "hello", whole: true, fails: gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ctx := range []context.Context{context.Background(), t.Context()} {
				body := &upload{Reader: row.read(), closeErr: row.close}
				head, whole, err := layer.ReadAhead(ctx, body, row.length, 8)
				if row.fails != nil {
					requestFault(t, err)
					require.ErrorIs(t, err, row.fails)
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, row.head, string(head))
				assert.Equal(t, row.whole, whole)
				if row.open {
					assert.Zero(t, body.closes)
				} else {
					assert.Equal(t, 1, body.closes)
				}
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestReadAheadEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body := newStuck()
		start := time.Now()
		_, whole, err := layer.ReadAhead(ctx, body, -1, 8)
		require.Equal(t, context.DeadlineExceeded, err)
		assert.False(t, whole)
		assert.Equal(t, time.Second, time.Since(start))
		<-body.closed
	})
}

func TestReadAheadThatPanicsClosesTheBody(t *testing.T) {
	t.Parallel()
	body := &upload{Reader: readerFunc(func([]byte) (int, error) { panic("boom") })}
	require.PanicsWithValue(t, "boom", func() { _, _, _ = layer.ReadAhead(t.Context(), body, -1, 8) })
	assert.Equal(t, 1, body.closes)
}

// What is wrong with a body that is sent as it comes is the request's own
// fault, and no byte more than was declared is given out: HTTP/2 would make an
// error of its own of that.
func TestUploadOfAnotherLength(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		head, body string
		length     int64
		want       string
		fails      bool
	}{
		"as it says":                   {"he", "llo", 5, "hello", false},
		"unknown":                      {"he", "llo", -1, "hello", false},
		"unknown, as a zero":           {"he", "llo", 0, "hello", false},
		"head alone":                   {"hello", "", 5, "hello", false},
		"shorter":                      {"he", "ll", 5, "hell", true},
		"shorter, nothing behind head": {"he", "", 5, "he", true},
		"one byte longer":              {"he", "llo!", 5, "hello", true},
		"much longer":                  {"", strings.Repeat("x", 100), 5, "xxxxx", true},
		"head is longer":               {"hello", "", 3, "hel", true},
		"head is longer, more behind":  {"hello", "world", 3, "hel", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for size := 1; size <= 8; size++ {
				u := &layer.Upload{Head: []byte(row.head), Body: &upload{Reader: strings.NewReader(row.body)}, Length: row.length}
				var got []byte
				var err error
				for buf := make([]byte, size); err == nil; {
					var n int
					n, err = u.Read(buf)
					got = append(got, buf[:n]...)
				}
				assert.Equal(t, row.want, string(got))
				if row.fails {
					requestFault(t, err)
					n, err := u.Read(make([]byte, size))
					assert.Zero(t, n)
					requestFault(t, err)
				} else {
					require.Equal(t, io.EOF, err)
				}
			}
		})
	}
}

func TestUploadWhoseReadOrCloseFails(t *testing.T) {
	t.Parallel()
	gone := errors.New("disk gone")
	for name, fault := range map[string]error{"an error": gone, "an end that is wrapped": fmt.Errorf("peer: %w", io.EOF)} {
		for _, length := range []int64{-1, 2, 5} {
			u := &layer.Upload{Head: []byte("h"), Body: &upload{Reader: io.MultiReader(strings.NewReader("e"), iotest.ErrReader(fault))}, Length: length}
			got, err := io.ReadAll(u)
			requestFault(t, err)
			require.ErrorIs(t, err, fault, name)
			assert.Equal(t, "he", string(got))
			if length < 0 {
				assert.EqualValues(t, -1, u.Size(), "what it would have been is not known")
			}
		}
	}
	u := &layer.Upload{Body: &upload{Reader: strings.NewReader(""), closeErr: gone}}
	err := u.Close()
	requestFault(t, err)
	require.ErrorIs(t, err, gone)
}

func TestUploadSize(t *testing.T) {
	t.Parallel()
	u := &layer.Upload{Head: []byte("he"), Body: &upload{Reader: strings.NewReader("llo")}, Length: -1}
	assert.EqualValues(t, -1, u.Size())
	_, err := io.ReadAll(u)
	require.NoError(t, err)
	assert.EqualValues(t, 5, u.Size(), "as it was")
	assert.EqualValues(t, 7, (&layer.Upload{Length: 7}).Size(), "as declared")
}

func TestUploadIsClosedBesideARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &layer.Upload{Body: newStuck(), Length: 5}
		done := make(chan error)
		go func() {
			_, err := u.Read(make([]byte, 8))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, u.Close())
		requestFault(t, <-done)
		assert.EqualValues(t, 5, u.Size())
	})
}

func TestCheckLength(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		declared, is int64
		fails        bool
	}{{5, 5, false}, {-1, 5, false}, {0, 5, false}, {5, 4, true}, {5, 6, true}, {5, 0, true}} {
		err := layer.CheckLength(&http.Request{ContentLength: row.declared}, row.is)
		if !row.fails {
			require.NoError(t, err)
			continue
		}
		requestFault(t, err)
	}
}
