// Package streamguard holds three layers, each an [http.RoundTripper] of its
// own: [Unmasker] judges a 2xx for what it is, [Guard] holds a stream back
// until it shows itself and then watches that it ends, [Idle] bounds silence
// inside a started body.
package streamguard

import (
	"errors"
	"fmt"
	"time"
)

// Modes of [Policy.HoldUntil], [Policy.IncompleteRead] and [Policy.Resume].
const (
	HoldFirstEvent   = "first_event"   // the first data event commits a stream
	HoldFirstContent = "first_content" // the first content does; roles, lifecycle events and pings do not
	HoldComplete     = "complete"      // the whole answer is held, up to Policy.HoldLimit

	IncompleteReadError = "error" // Read of an incomplete stream ends with a typed error
	IncompleteReadEOF   = "eof"   // after the appended event the body ends with a plain io.EOF

	ResumeOff = "off" // a stream that broke off is told broken
	ResumeOn  = "on"  // the rest of it is asked for, where the vendor keeps it
)

// The time limits, as the errors of package ending name them.
const (
	limitIdle         = "idle_timeout"
	limitEventTimeout = "event_timeout"
	limitFirstEvent   = "first_event_timeout"
	limitMinRate      = "min_rate"
)

// DefaultHoldLimit is how much of an answer [HoldComplete] holds, in bytes.
const DefaultHoldLimit = 8 << 20

// DefaultRateWindow is how long [Policy.MinRate] is measured, each time.
const DefaultRateWindow = 20 * time.Second

// Policy says how long a stream is held back, how long it may be silent and
// how a broken one is told. The zero Policy holds until the first data event
// and has no time limits.
type Policy struct {
	// IdleTimeout bounds the silence after the first byte; any byte restarts
	// it. 0 is off.
	IdleTimeout time.Duration
	// EventTimeout is like it, but only a data event restarts it. 0 is off.
	EventTimeout time.Duration
	// FirstEventTimeout bounds the wait for the first data event, from the
	// sending of the request. 0 is off.
	FirstEventTimeout time.Duration
	// MinRate is how many bytes of content a second have to come over a window,
	// from the first content on: texts, arguments and reasoning, not the events
	// around them. A slower stream is a stall. Only waits on the upstream count, and
	// silence of a whole window is the business of the other limits. 0 is off.
	MinRate int
	// RateWindow is how long MinRate is measured each time. 0 is
	// [DefaultRateWindow].
	RateWindow time.Duration
	// HoldUntil is [HoldFirstEvent] (also ""), [HoldFirstContent] or
	// [HoldComplete].
	HoldUntil string
	// HoldLimit is how many bytes [HoldComplete] holds; beyond it the stream
	// is handed out. 0 is [DefaultHoldLimit].
	HoldLimit int64
	// IncompleteRead is [IncompleteReadError] (also "") or
	// [IncompleteReadEOF].
	IncompleteRead string
	// StripComments drops keep-alive comments, which several SDK versions
	// cannot parse.
	StripComments bool
	// Resume is [ResumeOff] (also "") or [ResumeOn]: where the vendor keeps a
	// stream (OpenAI and Azure responses with "background": true, Gemini
	// interactions) and it breaks off or stalls, the rest of it is asked for and
	// handed out as if nothing had happened. A [Guard] that is used alone asks once
	// each time.
	Resume string
}

// DefaultPolicy returns the documented defaults: silence of at most 300 s,
// held until the first data event.
func DefaultPolicy() Policy {
	return Policy{
		IdleTimeout:    300 * time.Second,
		RateWindow:     DefaultRateWindow,
		HoldUntil:      HoldFirstEvent,
		HoldLimit:      DefaultHoldLimit,
		IncompleteRead: IncompleteReadError,
		Resume:         ResumeOff,
	}
}

// Validate returns every fault of p, joined, each naming its field in the words
// of the configuration; nil if there is none. It allocates nothing then.
func (p Policy) Validate() error {
	var errs []error
	for _, d := range [...]struct {
		name string
		v    time.Duration
	}{
		{"idle_timeout", p.IdleTimeout},
		{"event_timeout", p.EventTimeout},
		{"first_event_timeout", p.FirstEventTimeout},
	} {
		if d.v < 0 {
			errs = append(errs, fmt.Errorf("stream.%s: %v is negative, want 0 (off) or more", d.name, d.v))
		}
	}
	if p.MinRate < 0 {
		errs = append(errs, fmt.Errorf("stream.min_rate: %d is negative, want bytes a second, or 0 (off)", p.MinRate))
	}
	if p.RateWindow < 0 {
		errs = append(errs, fmt.Errorf("stream.rate_window: %v is negative, want a time, or 0 for %v", p.RateWindow, DefaultRateWindow))
	}
	switch p.HoldUntil {
	case "", HoldFirstEvent, HoldFirstContent, HoldComplete:
	default:
		errs = append(errs, fmt.Errorf("stream.hold_until: unknown mode %q, want %s, %s or %s",
			p.HoldUntil, HoldFirstEvent, HoldFirstContent, HoldComplete))
	}
	if p.HoldLimit < 0 {
		errs = append(errs, fmt.Errorf("stream.hold_limit: %d is negative, want a number of bytes, or 0 for %d",
			p.HoldLimit, DefaultHoldLimit))
	}
	switch p.IncompleteRead {
	case "", IncompleteReadError, IncompleteReadEOF:
	default:
		errs = append(errs, fmt.Errorf("stream.incomplete_read: unknown mode %q, want %s or %s",
			p.IncompleteRead, IncompleteReadError, IncompleteReadEOF))
	}
	switch p.Resume {
	case "", ResumeOff, ResumeOn:
	default:
		errs = append(errs, fmt.Errorf("stream.resume: unknown mode %q, want %s or %s", p.Resume, ResumeOff, ResumeOn))
	}
	return errors.Join(errs...)
}
