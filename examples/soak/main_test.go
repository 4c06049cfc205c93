package main

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

func TestSoak(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), &out, options{length: 3 * time.Second, callers: 50, seed: 1})
	require.NoError(t, err, out.String())
	for _, what := range []string{gotWhole, "retries", "answered by a backup", "most at once", "nothing was violated"} {
		assert.Contains(t, out.String(), what)
	}
}

func TestTheSameSeedGivesTheSamePlan(t *testing.T) {
	for n := range 50 {
		a, b := newPlan(7, 3, n), newPlan(7, 3, n)
		assert.Equal(t, a.describe(), b.describe())
		assert.Equal(t, a.texts(rand.New(rand.NewPCG(1, 2)), 0, 0), b.texts(rand.New(rand.NewPCG(1, 2)), 0, 0))
	}
}

// The checks have to see what is wrong.
func TestSeals(t *testing.T) {
	p := newPlan(7, 3, 1)
	texts := p.texts(rand.New(rand.NewPCG(1, 2)), 1, 2)
	whole := ""
	for _, s := range texts {
		whole += s
	}
	got, err := unseal(whole)
	require.NoError(t, err)
	assert.Equal(t, seal{p.id, "second", 2}, got)
	for n := range len(whole) {
		_, err := unseal(whole[:n])
		assert.Error(t, err, n)
	}
	_, err = unseal(whole + "x")
	require.Error(t, err)
}

func TestOpenTimes(t *testing.T) {
	var o openTimes
	begin := time.Now()
	o.spans[0] = span{begin, begin.Add(time.Second)}
	assert.True(t, o.covered(begin.Add(1), begin.Add(2)))
	assert.False(t, o.covered(begin, begin.Add(2)), "admitted before the change")
	assert.False(t, o.covered(begin.Add(1), begin.Add(time.Second)), "a probe")
}

func TestHoldTimes(t *testing.T) {
	var h holdTimes
	now := time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	h.add(known{key: "m", begin: at(0), heard: at(10), first: at(100), last: at(120)})
	h.add(known{guess: true, begin: at(200), heard: at(210), last: at(300)})
	for _, row := range []struct {
		model             string
		from, to          int
		certain, possible bool
	}{
		{"m", 11, 99, true, true},
		{"m", 9, 99, false, true}, // the answer was under way
		{"m", 11, 110, false, true},
		{"m", 121, 199, false, false},
		{"n", 11, 99, false, false},
		{"n", 220, 230, false, true}, // a guess refuses no call
	} {
		s := span{at(row.from), at(row.to)}
		assert.Equal(t, row.certain, h.certain(row.model, s), row)
		assert.Equal(t, row.possible, h.possible(row.model, s), row)
	}
}

func TestPlacesAtAnUpstream(t *testing.T) {
	p := newPlaces()
	p.begin("a")
	p.begin("b")
	assert.Equal(t, 1, p.arrived("a"))
	assert.Equal(t, 1, p.arrived("a"), "sent again by net/http")
	assert.Equal(t, 2, p.arrived("b"))
	p.end("a")
	p.end("a")
	assert.Equal(t, 1, p.arrived("a"), "after its end")
	assert.Equal(t, 1, p.now())
	assert.Equal(t, 2, p.peak())
}

func TestTroubles(t *testing.T) {
	var o troubles
	begin := time.Now()
	o.changed(breaker.Snapshot{State: breaker.Open, Since: begin}, breaker.Open)
	assert.True(t, o.closed(span{begin.Add(-2), begin.Add(-1)}))
	assert.False(t, o.closed(span{begin.Add(-1), begin}))
	o.changed(breaker.Snapshot{State: breaker.HalfOpen}, breaker.HalfOpen)
	assert.False(t, o.closed(span{time.Now(), time.Now()}))
	o.changed(breaker.Snapshot{}, breaker.Closed)
	after := time.Now().Add(1)
	assert.True(t, o.closed(span{after, after.Add(1)}))
}
