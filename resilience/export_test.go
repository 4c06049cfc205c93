package resilience

import (
	"context"
	"net/http"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Looks returns how often the request of the call that ctx belongs to was
// looked at, and its body parsed, by the call's stack and whatever stood above.
func Looks(ctx context.Context) (looks, parses int) {
	rd := readingOf(ctx)
	if c := callOf(ctx); c != nil && c.exchange != nil && c.reading.looks > 0 {
		rd = &c.reading
	}
	if rd == nil {
		return 0, 0
	}
	return rd.looks, rd.parses
}

// LimitSteps returns what the limits add to a call of t that meets none, and that
// was answered with resp: the looks at the holds, the place, what is learnt.
func LimitSteps(t *Transport, req *http.Request, resp *http.Response) func() error {
	c := t.newCall(req)
	c.wire = wire.Inspect(req.Method, req.URL, req.Header)
	c.wire.Model = ModelOf(req.Context())
	return func() error {
		if open := c.held(); open != nil {
			return open
		}
		if err := c.takePlace(); err != nil {
			return err
		}
		if c.t.limits.holds != nil {
			c.learn(resp)
		}
		c.place.giveBack()
		c.place.given = false
		return nil
	}
}
