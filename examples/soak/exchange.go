package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
)

const exchangeHeader = "X-Soak-Exchange"

// bottom stands between a stack and its net/http transport. It numbers the
// exchanges and says which of them are over for the stack.
type bottom struct {
	*http.Transport
	places *places
	n      atomic.Int64
}

// RoundTrip implements [http.RoundTripper].
func (b *bottom) RoundTrip(req *http.Request) (*http.Response, error) {
	id := strconv.FormatInt(b.n.Add(1), 10)
	r := req.WithContext(req.Context())
	r.Header = maps.Clone(req.Header)
	r.Header.Set(exchangeHeader, id)
	b.places.begin(id)
	resp, err := b.Transport.RoundTrip(r)
	if err != nil || resp.StatusCode >= http.StatusBadRequest { // the upstream's work is done
		b.places.end(id)
	} else {
		resp.Body = &lastRead{resp.Body, b.places, id}
	}
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

// lastRead says when a body has ended.
type lastRead struct {
	io.ReadCloser
	places *places
	id     string
}

func (b *lastRead) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.places.end(b.id)
	}
	return n, err
}

func (b *lastRead) Close() error {
	b.places.end(b.id)
	return b.ReadCloser.Close()
}

// places counts, at an upstream, the requests that it has read and that are not
// over: whoever has gone is at none.
type places struct {
	mu   sync.Mutex
	here map[string]bool // guarded by mu: by exchange; it was read
	n    int             // guarded by mu
	most int             // guarded by mu
}

func newPlaces() *places { return &places{here: map[string]bool{}} }

func (p *places) begin(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.here[id] = false
}

// arrived counts a request that was read, once: net/http may send it again on
// another connection. It returns how many there are.
func (p *places) arrived(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if here, open := p.here[id]; open && !here {
		p.here[id] = true
		p.n++
		p.most = max(p.most, p.n)
	}
	return p.n
}

func (p *places) end(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.here[id] {
		p.n--
	}
	delete(p.here, id)
}

func (p *places) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

func (p *places) peak() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// top stands between a chain and a stack. It notes the limits that the stack
// has been told of, once it has handed their answer out.
type top struct {
	*resilience.Transport
	s *soak
	p *provider
}

// RoundTrip implements [http.RoundTripper].
func (t *top) RoundTrip(req *http.Request) (*http.Response, error) {
	begin := time.Now()
	resp, err := t.Transport.RoundTrip(req)
	if err != nil || resp.Header.Get(formHeader) == "" {
		return resp, err
	}
	now := time.Now()
	k := known{key: resp.Header.Get(keyHeader), begin: begin, heard: now, last: now.Add(maxHold)}
	wait, err := strconv.ParseInt(resp.Header.Get(untilHeader), 10, 64)
	if err != nil { // a guess: other targets first, but no call is refused
		k.guess = true
		t.p.holds.add(k)
		return resp, nil
	}
	// It was sent after the call had begun, in milliseconds that were cut off
	// perhaps, and learned of before it was handed out.
	k.first, k.last = begin.Add(time.Duration(wait)-time.Millisecond), now.Add(time.Duration(wait))
	if resp.Header.Get(longerHeader) != "" {
		k.last = now.Add(maxHold)
	}
	t.p.holds.add(k)
	if !t.held(&k) && whole(resp) {
		form, left := resp.Header.Get(formHeader), time.Until(k.first)
		t.s.later(func() {
			if t.s.lags.worst(span{begin, now}) < lookTime/4 {
				t.s.tally.violation("holds: %s is not held: %s, %q for %v", t.p.name, form, k.key, left)
			}
		})
	}
	return resp, nil
}

// whole reports whether the body of an answer can be read to its end: of one that
// the caller's leaving or an outage cut off nothing can be learned.
func whole(resp *http.Response) bool {
	body, err := io.ReadAll(resp.Body)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	return err == nil
}

// lookTime is how long a stack waits for the body of an answer that it looks at:
// on a machine that stands still for so long it does not see what stands there.
const lookTime = 500 * time.Millisecond

// held reports whether the stack holds the key at least until the limit ends.
func (t *top) held(k *known) bool {
	for _, h := range t.Holds() {
		if h.Key == k.key && !time.Now().Add(h.RetryAfter).Before(k.first) {
			return true
		}
	}
	return !time.Now().Before(k.first)
}
