package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// cell is one contender's outcome on one fault.
type cell struct {
	verdict verdict
	why     string // the rule that a verdict below pass broke
	got     string // what the caller got, in a word or two
	asked   [2]int // requests that the primary and the backup read
	took    time.Duration
}

// board is a row of sixteen cells for each contender.
type board [][]cell

// stagger lies between the starts of two cells, so that the little work that
// there is does not come all at once and disturb the waits.
const stagger = 20 * time.Millisecond

// play runs every contender through every fault, all side by side: they share
// nothing but the machine, and nearly all of the time is waits.
func play(t times) (board, error) {
	b := make(board, len(contenders))
	var wg sync.WaitGroup
	errs := make(chan error, len(contenders)*len(faults))
	for i := range contenders {
		b[i] = make([]cell, len(faults))
		for j, f := range faults {
			wg.Go(func() {
				time.Sleep(stagger * time.Duration(i*len(faults)+j))
				var err error
				if b[i][j], err = playOne(&contenders[i], f, t); err != nil {
					errs <- fmt.Errorf("%s: %s: %w", contenders[i].name, f.name, err)
				}
			})
		}
	}
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return b, nil
	}
}

func playOne(c *contender, f *fault, t times) (cell, error) {
	s := newSite(f, t)
	defer s.close()
	a, closeIdle, err := c.open(s)
	if err != nil {
		return cell{}, err
	}
	defer closeIdle()
	r := &recording{times: t}
	if f.outage {
		r.playOutage(a, f)
	} else {
		r.calls = []result{patient(a, f, t)}
	}
	r.primary, r.backup = hitsOf(s.primary), hitsOf(s.backup)
	v, why := judge(f, r)
	return cell{
		verdict: v, why: why, got: gotOf(r),
		asked: [2]int{len(r.primary), len(r.backup)}, took: longest(r.calls),
	}, nil
}

// playOutage sends twenty calls, evenly spread over the outage, and three more
// when any breaker that opened during it may let one through.
func (r *recording) playOutage(a ask, f *fault) {
	t, start := r.times, time.Now()
	r.well = start.Add(t.outage)
	r.calls = make([]result, outageCalls)
	var wg sync.WaitGroup
	for i := range r.calls {
		wg.Go(func() {
			time.Sleep(time.Until(start.Add(t.outage * time.Duration(i) / outageCalls)))
			r.calls[i] = patient(a, f, t)
		})
	}
	time.Sleep(time.Until(r.well.Add(t.open * 6 / 5)))
	for range afterCalls {
		r.after = append(r.after, patient(a, f, t))
	}
	wg.Wait()
}

// patient makes one call of a caller that waits as long as t says. A call that
// does not even heed its context's end is left behind.
func patient(a ask, f *fault, t times) result {
	ctx, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	start := time.Now()
	done := make(chan result, 1)
	go func() { done <- a(ctx, f) }()
	var r result
	select {
	case r = <-done:
	case <-time.After(t.patience + t.patience/4):
		r.err = context.DeadlineExceeded
	}
	r.took = time.Since(start)
	r.hung = r.took >= t.patience
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
		return "backup's answer"
	case r.whole():
		return "answer"
	case r.answered():
		return "short answer"
	case r.text != "":
		return "part, then error"
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
