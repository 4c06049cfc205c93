package discovery

import (
	"math"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
)

// The times to the first token are counted in bins of a fifth each, from 1 ms to
// a quarter of an hour, so that a quantile is right to a tenth.
const (
	firstBin  = time.Millisecond
	bins      = 80
	perDouble = 4 // bins
)

// A flow is what passed through a provider in the window, in parts of half a
// minute. Its memory does not depend on the calls.
type flow struct {
	parts  [bars]flowPart
	newest int64
}

type flowPart struct {
	input, output       uint64
	resumed, incomplete uint32
	first               [bins]uint16
}

func (f *flow) advance(now int64) {
	if n := now - f.newest; n >= bars {
		f.parts = [bars]flowPart{}
	} else {
		for i := f.newest + 1; i <= now; i++ {
			f.parts[i%bars] = flowPart{}
		}
	}
	f.newest = max(f.newest, now)
}

// add takes a call down.
func (f *flow) add(now int64, c *resilience.Call) {
	f.advance(now)
	p := &f.parts[now%bars]
	p.input += uint64(max(0, c.Usage.Input))
	p.output += uint64(max(0, c.Usage.Output))
	p.resumed += uint32(min(max(0, c.Resumes), math.MaxUint16)) //nolint:gosec // it is bounded
	if c.Outcome == resilience.OutcomeStreamError {
		p.incomplete++
	}
	if c.FirstEvent > 0 {
		if n := &p.first[bin(c.FirstEvent)]; *n < math.MaxUint16 {
			*n++
		}
	}
}

// bin returns the bin of a time.
func bin(d time.Duration) int {
	if d <= firstBin {
		return 0
	}
	return min(bins-1, int(math.Log2(float64(d)/float64(firstBin))*perDouble))
}

// middle returns the time in the middle of a bin.
func middle(i int) time.Duration {
	return time.Duration(float64(firstBin) * math.Exp2((float64(i)+0.5)/perDouble)).Round(time.Millisecond)
}

// FlowStatus is what passed through a provider in the last ten minutes.
type FlowStatus struct {
	// InputTokens and OutputTokens are what the upstream said that calls took, a
	// minute: the average of the last ten, or of the time since the first call.
	InputTokens  float64 `json:"input_tokens_per_minute"`
	OutputTokens float64 `json:"output_tokens_per_minute"`
	// FirstTokenP50 and P95 are the times from a call's start to its stream's
	// first data event, in milliseconds, right to a tenth; 0 without streams.
	FirstTokenP50 int64 `json:"first_token_p50_ms"`
	FirstTokenP95 int64 `json:"first_token_p95_ms"`
	Resumed       int   `json:"resumed_streams"`    // taken up again behind a break
	Incomplete    int   `json:"incomplete_streams"` // broken off, stalled, or failed in their middle
}

// view sums up. since is how long the window has been filled.
func (f *flow) view(now int64, since time.Duration) FlowStatus {
	f.advance(now)
	var s FlowStatus
	var first [bins]int
	streams := 0
	for i := range f.parts {
		p := &f.parts[i]
		s.InputTokens += float64(p.input)
		s.OutputTokens += float64(p.output)
		s.Resumed += int(p.resumed)
		s.Incomplete += int(p.incomplete)
		for k, n := range p.first {
			first[k] += int(n)
			streams += int(n)
		}
	}
	minutes := min(max(since, time.Minute), windowSpan).Minutes()
	s.InputTokens, s.OutputTokens = math.Round(s.InputTokens/minutes), math.Round(s.OutputTokens/minutes)
	if streams > 0 {
		s.FirstTokenP50, s.FirstTokenP95 = quantile(first[:], streams, 0.5), quantile(first[:], streams, 0.95)
	}
	return s
}

// quantile returns the time, in milliseconds, that a share of all stayed within.
func quantile(counts []int, all int, share float64) int64 {
	need := int(math.Ceil(float64(all) * share))
	for i, n := range counts {
		if need -= n; need <= 0 {
			return middle(i).Milliseconds()
		}
	}
	return 0
}

// PlacesStatus is how many calls a provider's stack lets through at once.
type PlacesStatus struct {
	Used int `json:"used"`
	Most int `json:"most"`
}

// maxFailovers are remembered.
const maxFailovers = 10

// Failover is a call whose first target did not answer it, or several of them in
// a row that differ in their time alone.
type Failover struct {
	Time   time.Time `json:"time"`   // of the last one
	From   string    `json:"from"`   // the target that was asked first, or would have been
	To     string    `json:"to"`     // the target that answered; "": none did
	Reason string    `json:"reason"` // why From did not: a status or a word, as in failover.Attempt
	Times  int       `json:"times"`
}

// failovers remembers the last ones.
type failovers struct {
	mu   sync.Mutex
	last []Failover // guarded by mu, the oldest first
}

// ObserveFailover takes a call down that another target answered than the first,
// or none. Time and Times are set here. It must come from outside any lock; it
// keeps nothing of the texts beyond 256 bytes each.
func (r *Registry) ObserveFailover(f Failover) {
	f.From, f.To, f.Reason = clip(f.From, maxKeyBytes), clip(f.To, maxKeyBytes), clip(f.Reason, 64)
	now := time.Now().UTC()
	r.moves.mu.Lock()
	defer r.moves.mu.Unlock()
	for i, known := range r.moves.last {
		if known.From == f.From && known.To == f.To && known.Reason == f.Reason {
			known.Time, known.Times = now, known.Times+1
			r.moves.last = append(append(r.moves.last[:i:i], r.moves.last[i+1:]...), known)
			return
		}
	}
	f.Time, f.Times = now, 1
	if r.moves.last = append(r.moves.last, f); len(r.moves.last) > maxFailovers {
		r.moves.last = append([]Failover(nil), r.moves.last[1:]...)
	}
}

// Failovers returns the last ten failovers that [Registry.ObserveFailover] was
// told of, the latest first; nil for none. Those with the same targets and reason
// are one, at the place of the latest.
func (r *Registry) Failovers() []Failover {
	r.moves.mu.Lock()
	defer r.moves.mu.Unlock()
	var out []Failover
	for i := len(r.moves.last) - 1; i >= 0; i-- {
		out = append(out, r.moves.last[i])
	}
	return out
}
