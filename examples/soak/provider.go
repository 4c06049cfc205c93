package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// provider is one of the three.
type provider struct {
	name  string
	up    *upstreamtest.Upstream
	tr    *resilience.Transport
	base  *http.Transport
	conns atomic.Int64 // open
	storm atomic.Bool  // everything fails
	open  openTimes

	limiter  *limiter
	places   *places
	holds    holdTimes
	troubles troubles
}

func (s *soak) newProvider(i int, name string) (*provider, error) {
	p := &provider{name: name, up: upstreamtest.New(), limiter: newLimiter(), places: newPlaces()}
	for _, model := range shared {
		p.up.Model(model, sharedScript(s.seed, model, i))
	}
	p.up.When(func(*upstreamtest.Request) bool { return p.storm.Load() }, upstreamtest.Status(500))
	p.up.When(func(r *upstreamtest.Request) bool { return s.arrived(i, r) }, p.limited(s))
	p.base = &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: s.callers}
	b := resilience.Builder{
		Base: &bottom{Transport: p.base, places: p.places},
		OnCall: func(ctx context.Context, c resilience.Call) {
			if w, ok := ctx.Value(callKey{}).(*callState); ok {
				w.add(c)
			}
		},
		OnStateChange: func(_, _ string, _, to breaker.State) {
			p.open.changed(p.tr, to)
			p.troubles.changed(p.tr.Breakers()[0], to)
		},
	}
	var err error
	p.tr, err = b.Build(name, policy(i))
	return p, err
}

// arrived hears of every request that provider i has read, and reports whether
// a limit is in its way.
func (s *soak) arrived(i int, r *upstreamtest.Request) bool {
	p := s.providers[i]
	s.book.arrived(i, r)
	exchange, full := r.Header.Get(exchangeHeader), (*limit)(nil)
	if n := p.places.arrived(exchange); n > atOnce[i] {
		full = tooMany
		if policy(i).Limits.MaxConcurrent > 0 {
			s.tally.violation("places: %s read %d requests at once, call %s", p.name, n, r.Header.Get(idHeader))
		}
	}
	return p.limiter.refuses(exchange, r.Model, full)
}

// openFor is how long a breaker stays open.
const openFor = 250 * time.Millisecond

// policy differs from provider to provider, so that the modes are mixed.
func policy(i int) resilience.Policy {
	p := resilience.DefaultPolicy()
	p.Retry.MaxRetries = 2
	p.Retry.InitialBackoff = 5 * time.Millisecond
	p.Retry.MaxBackoff = 150 * time.Millisecond
	p.Retry.AttemptTimeout = 2 * time.Second
	p.Retry.Streams = [...]string{"never", "held_back", "held_back"}[i]
	p.CircuitBreaker.FailureThreshold = 4
	p.CircuitBreaker.Timeout = openFor
	p.Stream.IdleTimeout = 500 * time.Millisecond
	p.Stream.EventTimeout = time.Second
	p.Stream.FirstEventTimeout = 2 * time.Second
	p.Stream.HoldUntil = [...]string{"first_event", "first_content", "complete"}[i]
	p.Timeout = 6 * time.Second
	p.Limits.MaxConcurrent = [...]int{atOnce[0], 0, atOnce[2]}[i]
	p.Limits.MaxHold = maxHold
	p.ErrorsAsResponses = [...]string{resilience.RenderRejections, resilience.RenderAll, resilience.RenderNone}[i]
	return p
}

func (p *provider) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p.conns.Add(1)
	return &conn{Conn: c, open: &p.conns}, nil
}

// conn counts itself out when it is closed.
type conn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// openTimes remembers when the breaker was open for certain.
type openTimes struct {
	mu    sync.Mutex
	spans [64]span // the latest, in a ring
	n     int
}

// span is a time in which every call is rejected: begin is when the change was
// heard of, end what the breaker itself says about when the first probe may be.
type span struct{ begin, end time.Time }

// changed hears of a change, in order but perhaps late. The end of the span
// counts from the breaker's own instant, so that it never comes too late.
func (o *openTimes) changed(tr *resilience.Transport, to breaker.State) {
	if to != breaker.Open {
		return
	}
	b := tr.Breakers()[0]
	if b.State != breaker.Open {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans[o.n%len(o.spans)] = span{time.Now(), b.Since.Add(openFor)}
	o.n++
}

// covered reports whether the breaker was open from begin to end.
func (o *openTimes) covered(begin, end time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.spans {
		if begin.After(s.begin) && end.Before(s.end) {
			return true
		}
	}
	return false
}
