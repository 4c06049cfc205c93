package resilience_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
)

const noCredit = `{"error":{"code":"insufficient_credits","message":"x"}}`

// A local 429 is one hold with its own kind and end: a guess of the account, which
// a stack alone does not refuse for, says nothing about the limit that it does.
func TestARejectionIsOneHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := reply{status: 429, header: http.Header{"Retry-After": {"10"}}}
		up := play(limited, reply{status: 402, body: noCredit}, reply{status: 200, body: okJSON})
		tr, _ := build(t, up, holding())
		for _, model := range []string{"m1", "m2"} { // the second finds out that the account has no credit
			_, _, err := do(t, tr, chat(t, t.Context(), `{"model":"`+model+`"}`))
			require.NoError(t, err)
		}
		resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		open, ok := resilience.Rejection(resp, nil)
		require.True(t, ok)
		assert.Equal(t, "rate", open.Limit)
		assert.Equal(t, "m1", open.Key)
		assert.Equal(t, 10*time.Second, open.RetryAfter)
		assert.Equal(t, "10", resp.Header.Get("Retry-After"))
		assert.False(t, open.Guess)

		peeked := tr.Peek("m1") // a chain had better ask somebody else for longer
		require.NotNil(t, peeked)
		assert.Equal(t, "billing", peeked.Limit)
		assert.Empty(t, peeked.Key)
		assert.Equal(t, 5*time.Minute, peeked.RetryAfter)
		assert.True(t, peeked.Guess)

		time.Sleep(10 * time.Second)
		status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status, "what was named is over, and a guess refuses nobody")
	})
}

// A stack that nobody stands above waits out what fits into max_backoff, 30 s by
// default (contract 3.6): nobody else could answer. What does not fit, into that
// or into the deadline, goes back at once and is held (contract 11.4).
func TestAStackAloneWaitsOutAShortLimit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		after    string
		deadline time.Duration
		status   int
		took     time.Duration // at least, and up to a tenth more
		held     bool
	}{
		"20 s":                    {"20", 0, 200, 20 * time.Second, false},
		"20 s, with 5 s left":     {"20", 5 * time.Second, 429, 0, true},
		"30 s":                    {"30", 0, 200, 30 * time.Second, false},
		"more than a retry waits": {"31", 0, 429, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := play(reply{status: 429, header: http.Header{"Retry-After": {row.after}}}, reply{status: 200, body: okJSON})
				tr, _ := build(t, up, resilience.DefaultPolicy())
				ctx := t.Context()
				if row.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				start := time.Now()
				status, _, err := do(t, tr, chat(t, ctx, plainBody))
				require.NoError(t, err)
				took := time.Since(start)
				assert.Equal(t, row.status, status)
				assert.GreaterOrEqual(t, took, row.took)
				assert.LessOrEqual(t, took, row.took+row.took/10)
				assert.Equal(t, row.held, tr.Peek("m1") != nil)
			})
		})
	}
}

// Where rejections are errors, that of a limit is one as well, told apart from an
// open breaker's.
func TestALimitAsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := holding()
		p.ErrorsAsResponses = resilience.RenderNone
		tr, rec := build(t, play(reply{status: 429, header: http.Header{"Retry-After": {"60"}}}), p)
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err, "the upstream's own")
		_, _, err = do(t, tr, chat(t, t.Context(), plainBody))
		require.ErrorIs(t, err, breaker.ErrLimited)
		require.NotErrorIs(t, err, breaker.ErrOpen)
		assert.Equal(t, 429, resilience.StatusOf(err))
		open, ok := resilience.Rejection(nil, err)
		require.True(t, ok)
		assert.Equal(t, time.Minute, open.RetryAfter)
		assert.Equal(t, "rate_limited", rec.last(t).Reason)
	})
}

// A hold is of calls that run a model. Whatever else an account can do goes on:
// lists of models, without which discovery would call it offline, and the look at
// an answer that is kept. Nor do their answers hold anything.
func TestAHoldIsOfCallsThatRunAModel(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ method, path, body string }{
		"the list of models":     {http.MethodGet, "/v1/models", ""},
		"a model":                {http.MethodGet, "/v1/models/m1", ""},
		"an answer that is kept": {http.MethodGet, "/v1/responses/resp_1?stream=true&starting_after=4", ""},
		"its end":                {http.MethodPost, "/v1/responses/resp_1/cancel", ""},
		"a count of tokens":      {http.MethodPost, "/v1/messages/count_tokens", `{"model":"m1"}`},
		"a file":                 {http.MethodPost, "/v1/files", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				quota := reply{status: 429, header: http.Header{"Retry-After": {"600"}}, body: `{"error":{"type":"usage_limit_reached"}}`}
				up := play(quota, reply{status: 200, body: `{"object":"list","data":[]}`}, quota)
				tr, _ := build(t, up, holding())
				_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				require.Len(t, tr.Holds(), 1)
				ask := func() int {
					req, err := http.NewRequestWithContext(t.Context(), row.method, "https://api.example.com"+row.path, strings.NewReader(row.body))
					require.NoError(t, err)
					status, _, err := do(t, tr, req)
					require.NoError(t, err)
					return status
				}
				assert.Equal(t, 200, ask())
				assert.Equal(t, 2, up.count())
				status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				require.NoError(t, err)
				assert.Equal(t, 429, status)
				assert.Equal(t, 2, up.count())

				tr.ReleaseHold("")
				assert.Equal(t, 429, ask())
				assert.Empty(t, tr.Holds())
			})
		})
	}
}

// A provider's own word for a quota holds the account, as the built-in ones do.
func TestAnAddedWordHoldsTheAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := holding()
		p.Words.Quota = []string{"empty_wallet"}
		tr, _ := build(t, play(reply{status: 429, header: http.Header{"Retry-After": {"600"}}, body: `{"error":{"code":"empty_wallet"}}`}), p)
		_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		for _, model := range []string{"m1", "m2"} {
			open := tr.Peek(model)
			require.NotNil(t, open, model)
			assert.Equal(t, "quota", open.Limit)
		}
	})
}

// plainStack is a stack and a request that cost as little as any, so that what
// limits add to it shows: nothing is judged, and the answer has no body.
func plainStack(tb testing.TB, p resilience.Policy) (*resilience.Transport, *http.Request) {
	tb.Helper()
	tr, err := resilience.Builder{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("X-Limited") != "" {
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"3000"}}, Body: http.NoBody, Request: req}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	})}.Build("p", p)
	require.NoError(tb, err)
	ctx := resilience.WithModel(resilience.WithPassthrough(tb.Context()), "m1")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, http.NoBody)
	require.NoError(tb, err)
	return tr, req
}

// plainCalls makes a call of a plainStack.
func plainCalls(tb testing.TB, tr *resilience.Transport, req *http.Request) func() {
	return func() {
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			tb.Fatal(resp, err)
		}
		_ = resp.Body.Close()
	}
}

// limitRows are a stack without limits and those beside which a call that meets
// none must cost the same.
func limitRows() []limitRow {
	var without, holds, places resilience.Policy
	holds.Limits.Hold = true
	places.Limits.MaxConcurrent = 100
	return []limitRow{
		{"without", without, false}, {"holds", holds, false},
		{"holds, another is held", holds, true}, {"places", places, false},
	}
}

type limitRow struct {
	name    string
	policy  resilience.Policy
	another bool // has another model held, so that calls have to look
}

func (row limitRow) build(tb testing.TB) (*resilience.Transport, *http.Request) {
	tb.Helper()
	tr, req := plainStack(tb, row.policy)
	if row.another {
		limited := req.Clone(resilience.WithModel(tb.Context(), "m2"))
		limited.Header.Set("X-Limited", "1")
		resp, err := tr.RoundTrip(limited)
		require.NoError(tb, err)
		require.NoError(tb, resp.Body.Close())
		require.NotEmpty(tb, tr.Holds())
	}
	return tr, req
}

func TestLimitsThatAreNotMetAllocateNothing(t *testing.T) {
	var want float64
	for i, row := range limitRows() {
		tr, req := row.build(t)
		got := testing.AllocsPerRun(100, plainCalls(t, tr, req))
		if i == 0 {
			want = got
		}
		assert.InDelta(t, want, got, 0, row.name)
	}
}

// BenchmarkLimits sets a call that meets no limit beside one of a stack that has
// none, and shows alone what the limits add to it.
func BenchmarkLimits(b *testing.B) {
	for _, row := range limitRows() {
		tr, req := row.build(b)
		b.Run("call/"+row.name, func(b *testing.B) {
			call := plainCalls(b, tr, req)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
		b.Run("added/"+row.name, func(b *testing.B) {
			steps := resilience.LimitSteps(tr, req, &http.Response{StatusCode: http.StatusOK, Header: http.Header{}})
			b.ReportAllocs()
			for b.Loop() {
				if err := steps(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
