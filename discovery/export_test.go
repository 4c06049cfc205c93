package discovery

import (
	"time"
	"unsafe"

	"github.com/surefoot-go/surefoot/resilience"
)

// ObserveAt is Observe at another time.
func (r *Registry) ObserveAt(c resilience.Call, now time.Time) {
	r.table.Load().byName[c.Provider].window.observe(&c, now)
}

// LastFailureAt is the window's last failure as seen at another time.
func (r *Registry) LastFailureAt(provider string, now time.Time) (CallFailure, bool) {
	v := r.table.Load().byName[provider].window.view(now)
	return v.failure, !v.failure.Time.IsZero()
}

// StepWallClock returns t as it would read had somebody moved the wall clock by
// a number of seconds: the monotonic reading stays. No function of package time
// makes such a value; its first word holds a flag, 33 bits of seconds and 30 of
// nanoseconds where there is a monotonic reading.
func StepWallClock(t time.Time, seconds int64) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(seconds) << 30
	return t
}

// LivePages is how many live pages there are.
func (r *Registry) LivePages() int {
	r.page.live.mu.Lock()
	defer r.page.live.mu.Unlock()
	return len(r.page.live.taken)
}

// AgeLivePages makes the live pages older, without anybody waiting for it.
func (r *Registry) AgeLivePages(d time.Duration) {
	r.page.live.mu.Lock()
	defer r.page.live.mu.Unlock()
	for _, p := range r.page.live.taken {
		p.since = p.since.Add(-d)
	}
}
