package resilience_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

func TestAccountsOfOneStackDoNotHoldEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &counted{base: play(
			reply{status: 429, header: http.Header{"Retry-After": {"60"}}},
			reply{status: 200, body: okJSON},
		)}
		p := holding()
		tr, _ := build(t, up, p)
		call := func(account string) int {
			t.Helper()
			status, _, err := do(t, tr, chat(t, as(t.Context(), account), plainBody))
			require.NoError(t, err)
			return status
		}
		assert.Equal(t, 429, call("a"))
		for account, want := range map[string]int{"a": 429, "b": 200, "": 200} {
			assert.Equal(t, want, call(account), account)
			assert.Equal(t, want == 429, tr.PeekAccount(account, "m1") != nil, account)
		}
		assert.Nil(t, tr.Peek("m1"), "of the stack's own account")
		require.Len(t, tr.Holds(), 1)
		assert.Equal(t, "m1", tr.Holds()[0].Key)
		time.Sleep(time.Minute)
		assert.Equal(t, 200, call("a"))
	})
}

// However many words stand above, memory is bounded, and one account too many
// is not held rather than mistaken for another.
func TestAccountsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := holding()
		p.CircuitBreaker.Disabled = true
		tr, _ := build(t, always(reply{status: 429, header: http.Header{"Retry-After": {"60"}}}), p)
		ask := func(from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				_, _, err := do(t, tr, chat(t, as(t.Context(), fmt.Sprint("account-", i)), plainBody))
				require.NoError(t, err)
			}
		}
		ask(0, 200)
		assert.Len(t, tr.Holds(), 64)
		assert.Nil(t, tr.PeekAccount("account-199", "m1"))
		assert.NotNil(t, tr.PeekAccount("account-0", "m1"))
		time.Sleep(time.Minute)
		ask(199, 200)
		assert.Len(t, tr.Holds(), 1, "those whose holds are over make room")
		assert.NotNil(t, tr.PeekAccount("account-199", "m1"))
	})
}

func as(ctx context.Context, account string) context.Context {
	return context.WithValue(ctx, resilience.AccountKey{}, account)
}

// always gives the same answer.
func always(r reply) roundTrip { return r.response }
