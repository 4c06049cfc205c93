package wire

import (
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// A LimitKind says which limit an answer ran into.
type LimitKind string

// The kinds of limits. An answer that names a wait without saying that there is
// a limit (a 503 with a Retry-After) is of no kind, "".
const (
	// LimitConcurrency is about calls at the same time, or an overload: it
	// clears in seconds.
	LimitConcurrency LimitKind = "concurrency"
	// LimitRate is about requests or tokens a minute.
	LimitRate LimitKind = "rate"
	// LimitQuota is about a longer time: a day, a month, the window of a plan.
	// It concerns the account.
	LimitQuota LimitKind = "quota"
	// LimitBilling is about money: no credit, a spending limit. It concerns the
	// account.
	LimitBilling LimitKind = "billing"
	// LimitNeverFits is about this request: it is larger than what the limit
	// ever allows. A wait, even one that the answer names, does not help it.
	LimitNeverFits LimitKind = "never_fits"
)

// Sources of [Limit.Wait], in the order in which they count.
const (
	SourceHeader  = "header"  // Retry-After and its family
	SourceBody    = "body"    // RetryInfo, retry_after, resets_in_seconds, resets_at
	SourceMessage = "message" // "try again in 5.289s"
	SourceReset   = "reset"   // the reset of a dimension of which nothing remains
)

// MaxWait is the longest wait that is reported. A longer one in Retry-After
// counts as this one; anywhere else it is absurd and counts as none.
const MaxWait = 366 * 24 * time.Hour

// minWait is what a shorter wait counts as, so that it is no tight loop.
const minWait = 10 * time.Millisecond

// A Limit is what an answer says of the limit that it ran into.
type Limit struct {
	Kind LimitKind
	// Wait is how long to stay away, 10 ms to [MaxWait]; 0: no wait was named.
	Wait time.Duration
	// Source says where the wait was named, "" without one.
	Source string
}

// ReadLimit returns what an answer says of a limit, by its status, its header
// and the beginning of its body; false if it tells of none and names no wait. With
// a status that tells of no limit (see [TellsOfLimit]) only a wait in a member of
// the body counts (a RetryInfo). now is when the answer came.
func ReadLimit(status int, h http.Header, body []byte, now time.Time) (Limit, bool) {
	if status < http.StatusBadRequest {
		return Limit{}, false
	}
	v := (*Vocabulary)(nil).readFailure(status, body, now)
	return v.ReadLimit(h, now)
}

// TellsOfLimit reports whether a status is one of a limit: 429, 413, 402 or 503.
func TellsOfLimit(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge, http.StatusPaymentRequired, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// ReadLimit is the function [ReadLimit] for a body that has been read.
func (v *Failure) ReadLimit(h http.Header, now time.Time) (Limit, bool) {
	l := v.Limit
	if !TellsOfLimit(v.Status) {
		if l.Source != SourceBody {
			return Limit{}, false
		}
		l.Kind = ""
		return l, true
	}
	reset := readResets(h, now, false)
	if d, ok := layer.ParseWait(h, now); ok {
		l.wish(min(d, MaxWait), SourceHeader)
	} else if l.Wait == 0 || l.Source == SourceReset && reset.Wait > l.Wait {
		l.Wait, l.Source = reset.Wait, reset.Source
	}
	l.Kind = kindOf(v.Status, l.Kind, reset.Kind)
	if v.Status == http.StatusServiceUnavailable && l.Kind == LimitConcurrency && l.Wait == 0 {
		return Limit{}, false // a plain overload
	}
	return l, l != Limit{}
}

// kindOf decides between what the status, the body and the header say.
func kindOf(status int, told, reset LimitKind) LimitKind {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return LimitNeverFits
	case status == http.StatusPaymentRequired:
		return LimitBilling
	case told != "":
		return told
	case reset != "":
		return reset
	case status == http.StatusTooManyRequests:
		return LimitRate
	}
	return ""
}

// wish takes a wait; one that is absurd is none.
func (l *Limit) wish(d time.Duration, source string) {
	if d > 0 && d <= MaxWait {
		l.Wait, l.Source = max(d, minWait), source
	}
}

// Remaining returns the limit of which the header of a good answer says that
// nothing remains, false if there is none or nothing says when it resets. now is
// when the answer came.
func Remaining(h http.Header, now time.Time) (Limit, bool) {
	l := readResets(h, now, true)
	if l.Wait == 0 {
		return Limit{}, false
	}
	return l, true
}
