package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// section is one table: rows that do the same unit of work, and our targets.
type section struct {
	title   string
	note    string   // what the unit of work is
	base    string   // the row that the column of ratios is relative to
	columns []string // of a table of weights
	rows    []*row
	targets []target
	cleanup func()
}

// row is one way to do the section's work.
type row struct {
	name    string
	bench   func(b *testing.B)     // timed; a failure ends the program
	weigh   func() (sample, error) // or weighed
	cores   bool                   // the work is spread over all cores: only the wall's time says something
	samples []sample
}

// sample is what a row's run in one round came to.
type sample struct {
	ns     float64 // of the processor's time where that is counted, else the wall's
	wall   float64 // ns
	allocs float64
	bytes  float64 // weighed, or allocated an operation

	stacks, goroutines float64 // of idle streams
}

// round is every row's sample of one round, by name.
type round map[string]sample

// target is a number of ours that must not exceed a limit.
type target struct {
	what  string
	unit  string
	limit float64
	good  float64 // 0: none
	of    func(round) float64
}

func timed(name string, fn func(b *testing.B)) *row { return &row{name: name, bench: fn} }

// spread is a row whose work is done by all cores at once.
func spread(name string, fn func()) *row { return &row{name: name, bench: parallel(fn), cores: true} }

func weighed(name string, fn func() float64) *row {
	return &row{name: name, weigh: func() (sample, error) { return sample{bytes: fn()}, nil }}
}

// ratio is a target in times of another row's time.
func ratio(ours, theirs string, limit, good float64) target {
	return target{
		what: fmt.Sprintf("%s / %s", ours, theirs), limit: limit, good: good,
		of: func(r round) float64 { return r[ours].ns / r[theirs].ns },
	}
}

func allocs(ours string, limit float64) target {
	return target{
		what: ours + ": allocations", limit: limit,
		of: func(r round) float64 { return r[ours].allocs },
	}
}

// measure runs the rows one after the other, rounds times over, so that what
// else the machine does hits all of them alike.
func (s *section) measure(rounds int, cpu bool) error {
	if s.cleanup != nil {
		defer s.cleanup()
	}
	if s.rows[0].weigh != nil {
		rounds = min(rounds, 3) // bytes do not drift
	}
	for range rounds {
		for _, r := range s.rows {
			got, err := r.run(cpu)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.samples = append(r.samples, got)
		}
	}
	return nil
}

// run runs the row once. cpu counts the time of the processor, not of the wall.
func (r *row) run(cpu bool) (sample, error) {
	if r.weigh != nil {
		return r.weigh()
	}
	before, _ := cpuTime()
	res := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		r.bench(b)
	})
	if res.N == 0 {
		return sample{}, errors.New("the benchmark failed")
	}
	n, took := float64(res.N), res.T
	if after, ok := cpuTime(); cpu && ok && !r.cores {
		took = after - before
	}
	return sample{
		ns:     float64(took.Nanoseconds()) / n,
		wall:   float64(res.T.Nanoseconds()) / n,
		allocs: float64(res.AllocsPerOp()),
		bytes:  float64(res.AllocedBytesPerOp()),
	}, nil
}

// rounds puts the rows' samples together again.
func (s *section) rounds() []round {
	out := make([]round, len(s.rows[0].samples))
	for i := range out {
		out[i] = make(round)
		for _, r := range s.rows {
			out[i][r.name] = r.samples[i]
		}
	}
	return out
}

// over is the median of what of makes of each round.
func (s *section) over(of func(round) float64) float64 {
	var all []float64
	for _, r := range s.rounds() {
		all = append(all, of(r))
	}
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

// heap returns the bytes that are live.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
