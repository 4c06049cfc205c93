package main

import (
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// limits is how many requests of one call a provider may have read: those that
// it answered, and those that were sent.
type limits struct{ calls, least, most int }

// page is what the upstreams read of one call.
type page struct {
	read   [3][]time.Time
	limits [3]limits
	ended  bool
}

// book counts, by call, the requests that the upstreams read in full. A call
// that its caller cancelled may be read after its end, so the pages of ended
// calls are kept for a while.
type book struct {
	mu     sync.Mutex
	pages  map[string]*page
	ended  []string // a ring
	n      int
	total  int
	late   int
	beyond []string // read more often than was sent
}

const keptPages = 8192

func newBook() *book {
	return &book{pages: map[string]*page{}, ended: make([]string, keptPages)}
}

func (b *book) begin(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages[id] = new(page)
}

// arrived counts a request that provider i has read.
func (b *book) arrived(i int, r *upstreamtest.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total++
	id := r.Header.Get(idHeader)
	p := b.pages[id]
	if p == nil {
		b.beyond = append(b.beyond, id+" long after its end")
		return
	}
	p.read[i] = append(p.read[i], r.Time)
	if p.ended {
		b.late++
		if len(p.read[i]) > p.limits[i].most {
			b.beyond = append(b.beyond, id+" after its end, by "+names[i])
		}
	}
}

// end closes a page and returns when something was read so far.
func (b *book) end(id string, l [3]limits) [3][]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[id]
	p.limits, p.ended = l, true
	delete(b.pages, b.ended[b.n%keptPages])
	b.ended[b.n%keptPages] = id
	b.n++
	return p.read
}
