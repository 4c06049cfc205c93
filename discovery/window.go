package discovery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// The health window is ten minutes in buckets of ten seconds, counted from a
// provider's first call on the monotonic clock.
const (
	bucketWidth     = 10 * time.Second
	buckets         = 60
	windowSpan      = buckets * bucketWidth
	maxWindowModels = 512 // a provider; calls to further ones are counted together
	maxKeyBytes     = 256 // longer names are counted with those
	otherModels     = "(other models)"

	failingMin = 3 // failures from which on a model may be failing
)

// ring counts calls in the window. Sums follow the buckets, so that a reader
// adds nothing up.
type ring struct {
	counts [buckets]count
	newest int64 // number of the newest bucket
	sum    count
}

type count struct{ calls, failures uint32 }

// advance drops the buckets that left the window.
func (r *ring) advance(now int64) {
	if n := now - r.newest; n >= buckets {
		r.counts, r.sum = [buckets]count{}, count{}
	} else {
		for i := r.newest + 1; i <= now; i++ {
			c := &r.counts[i%buckets]
			r.sum.calls -= c.calls
			r.sum.failures -= c.failures
			*c = count{}
		}
	}
	r.newest = max(r.newest, now)
}

func (r *ring) add(now int64, failed bool) {
	r.advance(now)
	c := &r.counts[now%buckets]
	c.calls++
	r.sum.calls++
	if failed {
		c.failures++
		r.sum.failures++
	}
}

// window is one provider's health window. Its memory is bounded whatever
// models callers name: half a kilobyte for each of at most 512 models.
type window struct {
	mu      sync.Mutex
	base    time.Time // of bucket 0; zero: no call yet
	all     ring
	flow    flow
	models  map[string]*ring
	other   *ring
	swept   int64  // bucket at which idle models last made room
	lastKey string // model of the call that ended last
	ended   bool   // there was one
	failure CallFailure
	failed  time.Time // when that was, with the monotonic reading that failure.Time has lost
}

// CallFailure is the failure of a call, without any word of the upstream's.
type CallFailure struct {
	Time   time.Time `json:"time"`
	Model  string    `json:"model"`
	Status int       `json:"status,omitempty"` // what the caller saw; 0: none
	Reason string    `json:"reason"`           // a status or a word, as in the metrics' error.type
}

// Observe counts a call that has ended into its provider's health window; it
// fits the Builder's OnCall. Left out are calls that the caller cancelled, those
// whose request could not be sent for its own fault, calls without a model, those
// of providers that were never added, and the registry's own requests. It costs well under a microsecond and allocates
// nothing but a model's first entry.
func (r *Registry) Observe(ctx context.Context, c resilience.Call) {
	p := r.table.Load().byName[c.Provider]
	if p == nil || isProbe(ctx) {
		return
	}
	p.window.observe(&c, time.Now())
}

func (w *window) observe(c *resilience.Call, now time.Time) {
	theirs, failed := callersOwn(c), failedCall(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if len(c.Model) > maxKeyBytes {
		w.lastKey = otherModels
	} else if w.lastKey != c.Model {
		w.lastKey = strings.Clone(c.Model) // the model's name may be a piece of a large body
	}
	if theirs || c.Model == "" {
		return
	}
	if w.base.IsZero() {
		w.base = now
	}
	at := w.bucket(now)
	w.all.add(at, failed)
	w.ring(c.Model, at).add(at, failed)
	w.flow.add(at/(buckets/bars), c)
	// A rejection tells nothing that the breaker's state and the holds do not: it
	// does not hide what led to them.
	if failed && (c.Outcome != resilience.OutcomeRejected || now.Sub(w.failed) >= windowSpan) {
		w.failed = now
		w.failure = CallFailure{Time: now.UTC(), Model: w.lastKey, Status: c.Status, Reason: clip(cmp.Or(c.Reason, c.Outcome, "error"), 64)}
	}
}

// callersOwn reports whether the caller ended the call, by cancelling it or by a
// request that cannot be sent: that shows nothing of the provider (contract 4).
func callersOwn(c *resilience.Call) bool {
	switch {
	case c.Outcome == resilience.OutcomeCanceled, c.Reason == ending.ReasonRequestError:
		return true
	case c.Outcome == "":
		err := contained(c.Err)
		var own *ending.RequestError
		return errors.Is(err, context.Canceled) || errors.As(err, &own)
	}
	return false
}

// failedCall: any status from 400 up, unmasked ones and rejections too, a
// transport failure, a local timeout, a stream that went wrong.
func failedCall(c *resilience.Call) bool {
	switch c.Outcome {
	case resilience.OutcomeError, resilience.OutcomeTransportError, resilience.OutcomeTimeout,
		resilience.OutcomeRejected, resilience.OutcomeStreamError:
		return true
	case "":
		return c.Status >= 400 || c.Err != nil
	}
	return c.Status >= 400
}

func (w *window) bucket(now time.Time) int64 {
	return max(int64(now.Sub(w.base)/bucketWidth), w.all.newest)
}

// ring returns where to count a model. When all places are taken, models
// without a call in the window make room, looked for once a bucket.
func (w *window) ring(model string, at int64) *ring {
	if m := w.models[model]; m != nil {
		return m
	}
	if len(w.models) >= maxWindowModels && w.swept != at {
		w.swept = at
		for k, m := range w.models {
			if m.advance(at); m.sum.calls == 0 {
				delete(w.models, k)
			}
		}
	}
	if len(model) > maxKeyBytes || len(w.models) >= maxWindowModels {
		if w.other == nil {
			w.other = &ring{newest: at}
		}
		return w.other
	}
	if w.models == nil {
		w.models = map[string]*ring{}
	}
	m := &ring{newest: at}
	w.models[w.lastKey] = m // the cloned name
	return m
}

// ModelHealth is one model's share of the window.
type ModelHealth struct {
	Model    string `json:"model"`
	Calls    int    `json:"calls"`
	Failures int    `json:"failures"`
}

// Bucket is a part of the window, the oldest first.
type Bucket struct {
	Calls    int `json:"calls"`
	Failures int `json:"failures"`
}

// bars is how many parts the window is shown in, of half a minute each.
const bars = 20

// view is a copy of a window as of now.
type view struct {
	calls, failures int
	chart           [bars]Bucket
	flow            FlowStatus
	failing         []ModelHealth
	ended           bool
	lastKey         string
	failure         CallFailure
}

func (w *window) view(now time.Time) view {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := view{ended: w.ended, lastKey: w.lastKey}
	if w.base.IsZero() {
		return v
	}
	at := w.bucket(now)
	w.all.advance(at)
	v.flow = w.flow.view(at/(buckets/bars), now.Sub(w.base))
	v.calls, v.failures = int(w.all.sum.calls), int(w.all.sum.failures)
	if v.failures > 0 && now.Sub(w.failed) < windowSpan {
		v.failure = w.failure
	}
	for i := range buckets {
		// Oldest first: the bucket after the newest is the oldest.
		c := w.all.counts[(at+1+int64(i))%buckets]
		b := &v.chart[i*bars/buckets]
		b.Calls += int(c.calls)
		b.Failures += int(c.failures)
	}
	for name, m := range w.models {
		v.failing = m.appendFailing(v.failing, name, at)
	}
	if w.other != nil {
		v.failing = w.other.appendFailing(v.failing, otherModels, at)
	}
	slices.SortFunc(v.failing, func(a, b ModelHealth) int { return strings.Compare(a.Model, b.Model) })
	return v
}

// appendFailing adds the model if it has at least three failures that are at
// least half of its calls.
func (r *ring) appendFailing(to []ModelHealth, name string, at int64) []ModelHealth {
	if r.advance(at); r.sum.failures >= failingMin && uint64(r.sum.failures)*2 >= uint64(r.sum.calls) {
		to = append(to, ModelHealth{Model: name, Calls: int(r.sum.calls), Failures: int(r.sum.failures)})
	}
	return to
}
