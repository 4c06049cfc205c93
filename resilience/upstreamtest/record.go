package upstreamtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds of what an Upstream remembers.
const (
	maxRequests  = 10_000   // requests
	maxBody      = 1 << 20  // bytes of one body
	maxBodies    = 32 << 20 // bytes of all bodies; the oldest are let go
	maxNames     = 10_000   // models that are counted by name
	maxInspected = 32 << 20 // bytes of a body that are searched for the model
)

// Request is a request that was read in full, as it was recorded. Its Header
// and Body are shared: do not modify them.
type Request struct {
	Seq    int       // 1 for the first
	Time   time.Time // when it had been read
	Method string
	Host   string
	Path   string
	// RawQuery is the query without the question mark; see also Query.
	RawQuery string
	Header   http.Header
	// Body is the first MiB of the body; nil too when more than 32 MiB of
	// later bodies have been recorded since.
	Body   []byte
	Size   int64    // bytes of the whole body
	Sum    [32]byte // SHA-256 of the whole body
	Length int64    // Content-Length as declared; -1: none
	Proto  string   // "HTTP/1.1", "HTTP/2.0"
	Remote string   // the client's address, the same for all requests of a connection; empty in memory

	Format Format
	Model  string // from the body's top-level "model", else from the path
	Stream bool   // it asks for a stream

	// Ended is when the exchange was over, zero until then; Aborted tells that
	// the client went away before the answer's end.
	Ended   time.Time
	Aborted bool

	full   []byte // first 32 MiB, until the exchange is over
	usage  bool
	inputs int
	kept   content // what it reads again, until the exchange is over
	owed   bool    // see journal.owed
}

// Query is the request's query; what does not parse is left out.
func (r Request) Query() url.Values {
	q, _ := url.ParseQuery(r.RawQuery) // the valid pairs are returned with the error
	return q
}

// Dump is the request as text: request line, host, headers in order of name,
// body. It is made for searching, in tests of what must not be sent.
func (r Request) Dump() string {
	var b strings.Builder
	target := r.Path
	if r.RawQuery != "" {
		target += "?" + r.RawQuery
	}
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\n", r.Method, target, r.Proto, r.Host)
	_ = r.Header.Write(&b) // a strings.Builder takes every write
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.String()
}

// receive reads the request in full; an error means that the client did not
// send all of it.
func receive(r *http.Request) (*Request, error) {
	rec := &Request{Method: r.Method, Host: r.Host, Path: r.URL.Path, RawQuery: r.URL.RawQuery,
		Header: r.Header.Clone(), Length: r.ContentLength, Proto: r.Proto, Remote: r.RemoteAddr}
	if rec.Host == "" {
		rec.Host = r.URL.Host
	}
	sum := sha256.New()
	if r.Body != nil && r.Body != http.NoBody {
		var kept bytes.Buffer
		if n := r.ContentLength; n > 0 {
			kept.Grow(int(min(n, maxInspected)) + bytes.MinRead) // room for the read that sees the end
		}
		body := io.TeeReader(r.Body, sum)
		n, err := io.Copy(&kept, io.LimitReader(body, maxInspected))
		if err != nil {
			return nil, err
		}
		more, err := io.Copy(io.Discard, body)
		if err != nil {
			return nil, err
		}
		rec.full, rec.Size = kept.Bytes(), n+more
	}
	sum.Sum(rec.Sum[:0])
	// What is remembered for long does not hold on to a buffer that grew.
	rec.Body = bytes.Clone(rec.full[:min(len(rec.full), maxBody)])
	rec.Format = formatOf(r.Method, r.URL.Path)
	a := readAsks(rec.full)
	rec.Model, rec.usage, rec.inputs = a.model, a.usage, a.inputs
	if rec.Model == "" && rec.Format != Models {
		rec.Model = pathModel(r.URL.Path)
	}
	rec.Stream = streaming(rec.Format, r.URL, a)
	return rec, nil
}

// journal is what happened so far. Guarded by Upstream.mu.
type journal struct {
	requests []*Request
	bodies   int // bytes held by requests
	emptied  int // of requests, from the start, those whose body was let go
	count    int
	byModel  map[string]int
	partial  int
	aborted  int
	inFlight int
	conns    int
	active   int // connections that a request is using, as the server sees it
	owed     int // requests whose answer the client cannot have in full
}

// settled tells whether all active connections have an answer to send.
func (j *journal) settled() bool { return j.active <= j.owed }

// add records a request and numbers it.
func (j *journal) add(r *Request) {
	j.count++
	j.inFlight++
	j.owed++
	r.owed = true
	r.Seq = j.count
	if r.Model != "" {
		if _, known := j.byModel[r.Model]; known || len(j.byModel) < maxNames {
			j.byModel[r.Model]++
		}
	}
	j.requests = append(j.requests, r)
	j.bodies += len(r.Body)
	if len(j.requests) > maxRequests {
		if j.emptied > 0 {
			j.emptied--
		} else {
			j.bodies -= len(j.requests[0].Body)
		}
		j.requests[0] = nil
		j.requests = j.requests[1:]
	}
	for j.bodies > maxBodies && j.emptied < len(j.requests)-1 {
		old := j.requests[j.emptied]
		j.bodies -= len(old.Body)
		old.Body = nil
		j.emptied++
	}
}

// record notes a request that has been read and picks its answer, as one step:
// the order of Seq is the order of the script.
func (u *Upstream) record(r *Request) Step {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.Time = time.Now()
	u.log.add(r)
	u.notify()
	step := u.pick(r)
	u.keepAnswer(&step, r)
	return step
}

// settle notes that the exchange is over.
func (u *Upstream) settle(r *Request, aborted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !r.Ended.IsZero() {
		return
	}
	r.Ended, r.full, r.kept = time.Now(), nil, content{}
	r.Aborted = aborted && !u.closed
	u.log.inFlight--
	u.log.pay(r)
	if r.Aborted {
		u.log.aborted++
	}
	u.notify()
}

// pay notes that the client may have the answer in full from now on.
func (j *journal) pay(r *Request) {
	if r.owed {
		r.owed = false
		j.owed--
	}
}

// notify wakes [Upstream.Wait]. Callers hold u.mu.
func (u *Upstream) notify() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// Requests are the last 10,000 requests that were read in full, oldest first.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]Request, len(u.log.requests))
	for i, r := range u.log.requests {
		out[i] = *r
		out[i].full, out[i].kept = nil, content{}
	}
	return out
}

// Last is the latest request; the zero Request if there was none.
func (u *Upstream) Last() Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.log.requests) == 0 {
		return Request{}
	}
	r := *u.log.requests[len(u.log.requests)-1]
	r.full = nil
	return r
}

// Count is how many requests were read in full, model lists included.
func (u *Upstream) Count() int { return read(u, func(j *journal) int { return j.count }) }

// CountModel is how many of the requests that [Upstream.Count] counts named
// this model. The first 10,000 names are
// counted.
func (u *Upstream) CountModel(name string) int {
	return read(u, func(j *journal) int { return j.byModel[name] })
}

// Partial is how many requests broke off before their body had been read.
func (u *Upstream) Partial() int { return read(u, func(j *journal) int { return j.partial }) }

// Aborted is how many exchanges ended because the client went away: it
// cancelled, or closed the body or the connection before the answer's end.
func (u *Upstream) Aborted() int { return read(u, func(j *journal) int { return j.aborted }) }

// InFlight is how many requests have been read and not yet answered in full.
func (u *Upstream) InFlight() int { return read(u, func(j *journal) int { return j.inFlight }) }

// Connections is how many connections were opened; none in memory.
func (u *Upstream) Connections() int { return read(u, func(j *journal) int { return j.conns }) }

func read[T any](u *Upstream, f func(*journal) T) T {
	u.mu.Lock()
	defer u.mu.Unlock()
	return f(&u.log)
}

// Wait blocks until cond is true, and returns ctx's error if it ends before.
// cond is called whenever something was recorded, and may ask the Upstream:
//
//	err := up.Wait(ctx, func() bool { return up.Aborted() == 1 })
func (u *Upstream) Wait(ctx context.Context, cond func() bool) error {
	for {
		u.mu.Lock()
		changed := u.changed
		u.mu.Unlock()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
