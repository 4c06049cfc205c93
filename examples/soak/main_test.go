package main

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSoak(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), &out, options{length: 3 * time.Second, callers: 50, seed: 1})
	require.NoError(t, err, out.String())
	for _, what := range []string{gotWhole, "retries", "answered by a backup", "nothing was violated"} {
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
