package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// cell is one contender's outcome on one fault.
type cell struct {
	Verdict verdict
	Why     string // the rule that a verdict below pass broke
	Got     string // what the caller got, in a word or two
	Asked   [2]int // requests that the primary and the backup read
	Took    time.Duration
}

// board is a row of cells, one a fault, for each contender.
type board [][]cell

// play runs the contenders, or only those that cannot have a fake clock, through
// all faults, side by side, over sockets and by the clock on the wall. They share
// nothing but the machine.
func play(all bool) (board, error) {
	b := make(board, len(contenders))
	errs := make([]error, len(contenders))
	var wg sync.WaitGroup
	for i := range contenders {
		if !all && !contenders[i].sockets {
			continue
		}
		wg.Go(func() {
			time.Sleep(time.Duration(i) * cadence / time.Duration(len(contenders))) // not all at once
			b[i], errs[i] = sitting(&contenders[i], newSite(false))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// sitting takes one contender through all faults in order, as it is opened
// once: what breakers and holds remember, they remember for the next fault. A
// minute passes between two, so that no fault is hidden behind a breaker that
// the one before has opened.
func sitting(c *contender, s *site) ([]cell, error) {
	defer s.close()
	base := s.base()
	a, err := c.open(s, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if t, ok := base.(*http.Transport); ok {
		defer t.CloseIdleConnections()
	}
	row := make([]cell, len(faults))
	for j, f := range faults {
		if j > 0 {
			time.Sleep(rest)
		}
		row[j] = playOne(a, f, s, c.form)
	}
	return row, nil
}

// worst takes of each cell the worse one. No row yet is better than any.
func worst(a, b []cell) []cell {
	for j := range a {
		if slices.Index(verdicts, a[j].Verdict) >= slices.Index(verdicts, b[j].Verdict) {
			b[j] = a[j]
		}
	}
	return b
}

func playOne(a ask, f *fault, s *site, how form) cell {
	s.prepare(f, how)
	primary, backup := s.primary.Count(), s.backup.Count()
	r := &recording{}
	if f.outage {
		r.playOutage(a, f, s)
	} else {
		r.calls = []result{one(a, f)}
	}
	r.primary, r.backup = hitsOf(s.primary, primary), hitsOf(s.backup, backup)
	v, why := judge(f, r)
	return cell{
		Verdict: v, Why: why, Got: gotOf(r),
		Asked: [2]int{len(r.primary), len(r.backup)}, Took: longest(r.calls),
	}
}

// playOutage makes a call every four seconds, during the outage and until the
// primary should be in use again.
func (r *recording) playOutage(a ask, f *fault, s *site) {
	start := time.Now()
	r.well = start.Add(outage)
	r.calls = make([]result, (outage+recovery)/cadence+1)
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(time.Until(r.well))
		s.primary.Default(good)
	})
	for i := range r.calls {
		time.Sleep(time.Until(start.Add(cadence*time.Duration(i) + cadence/4)))
		wg.Go(func() { r.calls[i] = one(a, f) })
	}
	wg.Wait()
}

// one makes one call, which is cut off at its limit.
func one(a ask, f *fault) result {
	limit := f.limit
	if limit == 0 {
		limit = usualLimit
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hung := time.AfterFunc(limit, cancel)
	start := time.Now()
	r := a(ctx)
	r.took = time.Since(start)
	r.hung = !hung.Stop()
	return r
}

// gotOf says what the callers got: one of them, or how many got what.
func gotOf(r *recording) string {
	if len(r.calls) == 1 {
		return nameOf(r.calls[0])
	}
	whole := 0
	for _, c := range r.calls {
		if c.whole() {
			whole++
		}
	}
	return fmt.Sprintf("%d of %d", whole, len(r.calls))
}

func nameOf(r result) string {
	switch {
	case r.hung:
		return "hang"
	case r.whole() && r.model == backupModel:
		return "backup's"
	case r.whole():
		return "answer"
	case r.answered():
		return "short answer"
	case r.text != "":
		return "part, error"
	case r.status >= 400:
		return fmt.Sprint(r.status)
	}
	return "error"
}

func longest(results []result) (d time.Duration) {
	for _, r := range results {
		d = max(d, r.took)
	}
	return d
}
