package layer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// MaxBody is how much of an inference call's body a layer reads into memory to
// look at it and to send it again (contract 2).
const MaxBody = 4 << 20

var (
	nopCloser         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(struct {
		io.Reader
		io.WriterTo
	}{}))
)

// InMemory reports whether body reads from memory in a way that net/http knows,
// and if so sets *data to the bytes that it has yet to give. Nothing is read
// from body, which can still be sent; data must not be written to. Such a body
// is sent in one write with the headers, any other type, a wrapper too, in two.
func InMemory(body io.ReadCloser, data *[]byte) bool {
	switch reflect.TypeOf(body) {
	case nopCloser, nopCloserWriterTo:
	default:
		return false
	}
	switch r := reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader:
		*data = nil
		snapshot := *r
		_, _ = snapshot.WriteTo((*capture)(data)) // capture knows no errors
	case *bytes.Buffer:
		*data = r.Bytes()
	case *strings.Reader:
		*data = nil
		snapshot := *r
		_, _ = snapshot.WriteTo((*capture)(data))
	default:
		return false
	}
	return true
}

// Known reports whether net/http knows that body reads from memory; see
// [InMemory].
func Known(body io.ReadCloser) bool { return Unread(body) >= 0 }

// Unread returns how many bytes a body that reads from memory has yet to give,
// -1 for any other.
func Unread(body io.ReadCloser) int {
	switch reflect.TypeOf(body) {
	case nopCloser, nopCloserWriterTo:
	default:
		return -1
	}
	switch r := reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader:
		return r.Len()
	case *bytes.Buffer:
		return r.Len()
	case *strings.Reader:
		return r.Len()
	}
	return -1
}

// capture keeps the slice that it is given. The readers of package bytes write
// all that they have at once, from memory that does not change while a request
// is under way.
type capture []byte

func (c *capture) Write(p []byte) (int, error) {
	*c = p[:len(p):len(p)]
	return len(p), nil
}

func (c *capture) WriteString(s string) (int, error) {
	*c = []byte(s)
	return len(s), nil
}

// NewBody returns a reader of its own over data, of a type that net/http knows.
func NewBody(data []byte) io.ReadCloser {
	if len(data) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(data))
}

// Copies returns a GetBody over data: each body that it returns has a reader of
// its own.
func Copies(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return NewBody(data), nil }
}

// ReadAhead reads body until it ends or limit bytes were read, whichever comes
// first. length is the declared one, not positive if there is none. whole says
// that body has ended, and then it is closed; else it goes on behind head. It
// is closed, too, where it failed, ctx ended, or its Read panicked.
func ReadAhead(ctx context.Context, body io.ReadCloser, length, limit int64) (head []byte, whole bool, err error) {
	open := false
	defer func() {
		if !open {
			if cerr := body.Close(); err == nil && cerr != nil && whole {
				err = ending.AsRequestError(fmt.Errorf("closing the request body: %w", cerr))
			}
		}
	}()
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = body.Close() }) // ends a blocked Read
	}
	head, err = readUpTo(body, length, limit)
	stop()
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case err == io.EOF: //nolint:errorlint // a plain one: a wrapped one is an error
		return head, true, nil
	case err != nil:
		return nil, false, ending.AsRequestError(fmt.Errorf("reading the request body: %w", err))
	}
	open = true
	return head, false, nil
}

// readUpTo reads limit bytes of r, or all of it and then returns [io.EOF]. With
// a declared length that is one allocation.
func readUpTo(r io.Reader, length, limit int64) ([]byte, error) {
	size := int64(bytes.MinRead)
	if length > 0 {
		size = min(length, limit) + 1 // room for the Read that sees the end
	}
	b := make([]byte, 0, size)
	for empty := 0; int64(len(b)) < limit; {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(int64(cap(b)), limit)])
		b = b[:len(b)+n]
		if empty++; n > 0 {
			empty = 0
		}
		if err == nil && empty == maxEmptyReads {
			err = io.ErrNoProgress
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// CheckLength returns what is wrong with a request whose whole body is n bytes
// long: net/http refuses one that is not as long as its ContentLength says, but
// has opened a connection and sent a part by then.
func CheckLength(req *http.Request, n int64) error {
	if req.ContentLength <= 0 || req.ContentLength == n {
		return nil
	}
	return &ending.RequestError{Err: fmt.Errorf("http: ContentLength=%d with Body length %d", req.ContentLength, n)}
}

// Upload is a request body that is sent as it comes: Head, which was read
// ahead, and then the rest of Body. What goes wrong with it is the request's own
// fault: Read returns it as an [*ending.RequestError], which the transport
// returns in its turn. A body that ends early or late for a Length above 0 is
// such a fault. Close may be called beside a Read.
type Upload struct {
	Head   []byte
	Body   io.ReadCloser
	Length int64 // declared; not positive: unknown

	mu    sync.Mutex
	read  int64 // guarded by mu
	ended bool  // guarded by mu
}

// Read implements [io.Reader].
func (u *Upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	if len(u.Head) > 0 {
		defer u.mu.Unlock()
		n := copy(p, u.Head)
		u.Head = u.Head[n:]
		return u.count(n, nil)
	}
	u.mu.Unlock()
	n, err := u.Body.Read(p)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count(n, err)
}

// count takes down what a Read returned, and returns what it stands for. mu is
// held. No byte above Length is given out: HTTP/2 would make an error of its own
// of it.
func (u *Upload) count(n int, err error) (int, error) {
	u.read += int64(n)
	u.ended = err == io.EOF //nolint:errorlint // a plain one: a wrapped one is an error
	switch {
	case u.Length > 0 && (u.read > u.Length || u.ended && u.read < u.Length):
		n = max(0, n-int(max(0, u.read-u.Length)))
		err = &ending.RequestError{Err: fmt.Errorf("http: ContentLength=%d with Body length %d", u.Length, u.read)}
	case err != nil && !u.ended:
		err = ending.AsRequestError(fmt.Errorf("reading the request body: %w", err))
	}
	return n, err
}

// Close closes Body. What that says is the request's own fault, too: net/http
// lets an attempt fail by it.
func (u *Upload) Close() error {
	if err := u.Body.Close(); err != nil {
		return ending.AsRequestError(fmt.Errorf("closing the request body: %w", err))
	}
	return nil
}

// Size returns how long the body is: as declared, or as it was where it has
// been read to its end; -1 while that is unknown.
func (u *Upload) Size() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.Length > 0:
		return u.Length
	case u.ended:
		return u.read
	}
	return -1
}
