package breaker_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

const rateKind, quotaKind, billingKind = "rate", "quota", "billing"

func TestHolds(t *testing.T) {
	none := breaker.Hold{}
	for name, row := range map[string]struct {
		do   func(*breaker.Holds)
		key  string
		want breaker.Hold
	}{
		"nothing":                {func(*breaker.Holds) {}, "m", none},
		"a model":                {func(h *breaker.Holds) { h.Hold("m", rateKind, 20*time.Second, false) }, "m", breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: 20 * time.Second}},
		"is not another":         {func(h *breaker.Holds) { h.Hold("m", rateKind, 20*time.Second, false) }, "n", none},
		"nor the account":        {func(h *breaker.Holds) { h.Hold("m", rateKind, 20*time.Second, false) }, "", none},
		"the account":            {func(h *breaker.Holds) { h.Hold("", quotaKind, time.Minute, false) }, "", breaker.Hold{Kind: quotaKind, RetryAfter: time.Minute}},
		"is every model":         {func(h *breaker.Holds) { h.Hold("", quotaKind, time.Minute, false) }, "m", breaker.Hold{Kind: quotaKind, RetryAfter: time.Minute}},
		"over":                   {func(h *breaker.Holds) { h.Hold("m", rateKind, time.Second, false); time.Sleep(time.Second) }, "m", none},
		"a moment before":        {func(h *breaker.Holds) { h.Hold("m", rateKind, time.Second, false); time.Sleep(time.Second - 1) }, "m", breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: 1}},
		"no wait":                {func(h *breaker.Holds) { h.Hold("m", rateKind, 0, false); h.Hold("m", rateKind, -1, false) }, "m", none},
		"the longest":            {func(h *breaker.Holds) { h.Hold("m", rateKind, math.MaxInt64, false) }, "m", breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: time.Hour}},
		"the later of two":       {func(h *breaker.Holds) { h.Hold("m", rateKind, 9, false); h.Hold("m", quotaKind, 20, false) }, "m", breaker.Hold{Key: "m", Kind: quotaKind, RetryAfter: 20}},
		"in any order":           {func(h *breaker.Holds) { h.Hold("m", quotaKind, 20, false); h.Hold("m", rateKind, 9, false) }, "m", breaker.Hold{Key: "m", Kind: quotaKind, RetryAfter: 20}},
		"of model and account":   {func(h *breaker.Holds) { h.Hold("m", rateKind, 20, false); h.Hold("", quotaKind, 9, false) }, "m", breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: 20}},
		"of account and model":   {func(h *breaker.Holds) { h.Hold("m", rateKind, 9, false); h.Hold("", quotaKind, 20, false) }, "m", breaker.Hold{Kind: quotaKind, RetryAfter: 20}},
		"a guess":                {func(h *breaker.Holds) { h.Hold("", billingKind, 20, true) }, "m", breaker.Hold{Kind: billingKind, RetryAfter: 20, Guess: true}},
		"a guess beyond a name":  {func(h *breaker.Holds) { h.Hold("m", rateKind, 9, false); h.Hold("m", billingKind, 20, true) }, "m", breaker.Hold{Key: "m", Kind: billingKind, RetryAfter: 20, Guess: true}},
		"a name beyond a guess":  {func(h *breaker.Holds) { h.Hold("m", billingKind, 9, true); h.Hold("m", rateKind, 20, false) }, "m", breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: 20}},
		"a guess of the account": {func(h *breaker.Holds) { h.Hold("m", rateKind, 9, false); h.Hold("", billingKind, 20, true) }, "m", breaker.Hold{Kind: billingKind, RetryAfter: 20, Guess: true}},
		"released":               {func(h *breaker.Holds) { h.Hold("m", rateKind, 9, false); h.Release("m") }, "m", none},
		"released, the account":  {func(h *breaker.Holds) { h.Hold("", rateKind, 9, false); h.Release("") }, "m", none},
		"released, what is left": {func(h *breaker.Holds) { h.Hold("", rateKind, 9, false); h.Hold("m", rateKind, 5, false); h.Release("") }, "m", breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: 5}},
		"released, what is not":  {func(h *breaker.Holds) { h.Release("m"); h.Release("") }, "m", none},
		"held again when it over": {func(h *breaker.Holds) {
			h.Hold("m", quotaKind, 9, false)
			time.Sleep(9 * time.Nanosecond)
			h.Hold("m", rateKind, 5, true)
		}, "m", breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: 5, Guess: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := breaker.NewHolds(0)
				row.do(h)
				got, ok := h.Held(row.key, true)
				assert.Equal(t, row.want, got)
				assert.Equal(t, row.want != none, ok)
			})
		})
	}
}

// What a call meets is one hold, whole: a guess that ends later neither hides
// nor lengthens what the upstream named (contract 11).
func TestAGuessAndANameAreTwoHolds(t *testing.T) {
	const name, guess = 10 * time.Second, 5 * time.Minute
	rate := func(h *breaker.Holds) { h.Hold("m", rateKind, name, false) }
	billing := func(h *breaker.Holds) { h.Hold("", billingKind, guess, true) }
	for label, do := range map[string]func(*breaker.Holds){
		"the guess last":  func(h *breaker.Holds) { rate(h); billing(h) },
		"the guess first": func(h *breaker.Holds) { billing(h); rate(h) },
	} {
		synctest.Test(t, func(t *testing.T) {
			h := breaker.NewHolds(0)
			do(h)
			for _, row := range []struct {
				guesses bool
				want    breaker.Hold
			}{
				{true, breaker.Hold{Kind: billingKind, RetryAfter: guess, Guess: true}},
				{false, breaker.Hold{Key: "m", Kind: rateKind, RetryAfter: name}},
			} {
				got, ok := h.Held("m", row.guesses)
				assert.True(t, ok, label)
				assert.Equal(t, row.want, got, label)
			}
			time.Sleep(name)
			_, ok := h.Held("m", false)
			assert.False(t, ok, label)
			got, _ := h.Held("m", true)
			assert.Equal(t, breaker.Hold{Kind: billingKind, RetryAfter: guess - name, Guess: true}, got, label)
			h.Hold("", quotaKind, 2*name, false) // of the same key
			got, _ = h.Held("m", false)
			assert.Equal(t, breaker.Hold{Kind: quotaKind, RetryAfter: 2 * name}, got, label)
			assert.Equal(t, []breaker.Hold{{Kind: billingKind, RetryAfter: guess - name, Guess: true}}, h.Snapshot(), label)
		})
	}
}

// Whatever keys callers invent, memory is bounded: the hold that ends first
// makes room.
func TestHoldsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := breaker.NewHolds(24 * time.Hour)
		for i := range 3000 {
			h.Hold(fmt.Sprintf("m%d", i), rateKind, time.Hour+time.Duration(i), false)
		}
		h.Hold("short", rateKind, time.Second, false)
		h.Hold("", quotaKind, time.Minute, false)
		all := h.Snapshot()
		require.Len(t, all, 1024+1)
		_, ok := h.Held("m2999", true)
		assert.True(t, ok)
		got, _ := h.Held("m0", true)
		assert.Empty(t, got.Key, "only the account's")
		got, _ = h.Held("short", true)
		assert.Empty(t, got.Key)

		long := strings.Repeat("k", 1<<20)
		h.Hold(long, rateKind, 2*time.Hour, false)
		got, ok = h.Held(long, true)
		assert.True(t, ok)
		assert.Less(t, len(got.Key), 128)
		time.Sleep(3 * time.Hour)
		assert.Empty(t, h.Snapshot())
	})
}

// Many goroutines: what was held last and longest is held.
func TestHoldsAreSafeForConcurrentUse(t *testing.T) {
	h := breaker.NewHolds(0)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprintf("m%d", (g*7+i)%40)
				h.Hold(key, rateKind, time.Minute, i%2 == 0)
				if hold, ok := h.Held(key, true); ok && hold.RetryAfter > time.Minute {
					assert.Fail(t, "longer than any", hold)
				}
				h.Snapshot()
				if i%100 == 0 {
					h.Release(key)
				}
			}
		})
	}
	wg.Wait()
	h.Hold("m1", quotaKind, time.Hour, false)
	hold, ok := h.Held("m1", true)
	require.True(t, ok)
	assert.Equal(t, quotaKind, hold.Kind)
}

func TestAskingHoldsDoesNotAllocate(t *testing.T) {
	h := breaker.NewHolds(0)
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Held("m", true) }))
	h.Hold("m", rateKind, time.Hour, false)
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Held("m", true); h.Held("n", true) }))
}

func BenchmarkHeld(b *testing.B) {
	for _, n := range []int{0, 10, 1024} {
		h := breaker.NewHolds(0)
		for i := range n {
			h.Hold(fmt.Sprintf("vendor/model-%d", i), rateKind, time.Hour, false)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.Held("vendor/model-7", true)
			}
		})
	}
}
