package streamguard

import (
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

// A pace is how fast content comes (Policy.MinRate). Its windows are made of
// waits on the upstream, which a slow reader above does not lengthen, and they
// begin and end with content: silence is for the other time limits. So a wait for
// content counts half a window at most, and one of a whole window, in which a
// model reasons or a tool works, begins the window anew.
type pace struct {
	rate   float64 // least bytes a second
	window time.Duration
	waited time.Duration // since the last content
	spent  time.Duration // of the window
	said   int64         // bytes in it
	total  int64         // bytes before the last content
	begun  bool          // content came
}

// newPace returns what watches over a stream by p, nil for nothing.
func newPace(p Policy) *pace {
	if p.MinRate <= 0 {
		return nil
	}
	w := p.RateWindow
	if w == 0 {
		w = DefaultRateWindow
	}
	return &pace{rate: float64(p.MinRate), window: w}
}

// heard takes up content, with which total bytes of it have come.
func (p *pace) heard(total int64) {
	switch {
	case !p.begun, p.waited >= p.window, p.spent >= p.window:
		p.begun, p.spent, p.said = true, 0, 0
	}
	if p.said > 0 || p.spent > 0 {
		p.spent += min(p.waited, p.window/2)
	}
	p.said += total - p.total
	p.total, p.waited = total, 0
}

// slow returns the time limit that a whole window has broken, nil for none.
func (p *pace) slow() error {
	if p.spent < p.window || float64(p.said) >= p.rate*p.spent.Seconds() {
		return nil
	}
	return &ending.TimeoutError{What: limitMinRate, After: p.window}
}

// anew forgets what was of another body.
func (p *pace) anew() { p.begun, p.waited = false, 0 }
