package failover_test

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// byKey answers for each credential as its upstream does.
type byKey map[string]*upstream

func (b byKey) RoundTrip(req *http.Request) (*http.Response, error) {
	key := req.Header.Get("Authorization")
	if k := req.URL.Query().Get("key"); k != "" {
		key = k
	}
	return b[key].RoundTrip(req)
}

func holds() resilience.Policy {
	p := once()
	p.Limits.Hold = true
	return p
}

// A key is held for an account: targets of one stack with credentials of their
// own do not hold each other (contract 11).
func TestAHoldIsOfItsAccount(t *testing.T) {
	target := func(name string, rt http.RoundTripper) failover.Target {
		return failover.Target{Name: name, Provider: "p", Model: "m", Transport: rt}
	}
	header := func(name, key string, rt http.RoundTripper) failover.Target {
		tg := target(name, rt)
		tg.Header = http.Header{"Authorization": {key}}
		return tg
	}
	query := func(name, key string, rt http.RoundTripper) failover.Target {
		tg := target(name, rt)
		tg.Query = url.Values{"key": {key}}
		return tg
	}
	for name, tc := range map[string]struct {
		targets func(rt http.RoundTripper) []failover.Target
		answer  reply
	}{
		"headers, a rate": {func(rt http.RoundTripper) []failover.Target {
			return []failover.Target{header("a", "1", rt), header("b", "2", rt)}
		}, limited("600")},
		"headers, no credit": {func(rt http.RoundTripper) []failover.Target {
			return []failover.Target{header("a", "1", rt), header("b", "2", rt)}
		}, reply{status: 402}},
		"queries": {func(rt http.RoundTripper) []failover.Target {
			return []failover.Target{query("a", "1", rt), query("b", "2", rt)}
		}, limited("600")},
		"the caller's own and a target's": {func(rt http.RoundTripper) []failover.Target {
			return []failover.Target{target("a", rt), header("b", "2", rt)}
		}, limited("600")},
		"a layer between": {func(rt http.RoundTripper) []failover.Target {
			return []failover.Target{header("a", "1", traced{rt}), header("b", "2", traced{rt})}
		}, limited("600")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := newUpstream(tc.answer), healthy()
				s := stack(t, "p", byKey{"1": first, "": first, "2": second}, holds())
				policy := failover.DefaultPolicy()
				policy.RetryOnStatuses = []string{"default", "402"}
				c := chain(t, policy, tc.targets(s)...)
				got := ask(t, c, "x")
				assert.Equal(t, 200, got.StatusCode)
				assert.Len(t, s.Holds(), 1)
				for range 2 {
					got = ask(t, c, "x")
					assert.Equal(t, 200, got.StatusCode)
				}
				assert.Equal(t, 1, first.count(), "the held account is not asked again")
				assert.Equal(t, 3, second.count())
				for _, h := range s.Holds() {
					s.ReleaseHold(h.Key)
				}
				assert.Empty(t, s.Holds())
				first.set(reply{status: 200, body: okJSON})
				ask(t, c, "x")
				assert.Equal(t, 1, first.count(), "released")
			})
		})
	}
}

// Targets of the same credentials are one account, by whatever chain they are
// reached: a stack that knows one account shows and peeks it as before.
func TestTargetsOfOneAccountShareItsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newUpstream(reply{status: 402})
		s := stack(t, "p", up, holds())
		target := func(name, model string) failover.Target {
			return failover.Target{Name: name, Provider: "p", Model: model, Header: bearer("1"), Transport: s}
		}
		policy := failover.DefaultPolicy()
		policy.RetryOnStatuses = []string{"default", "402"}
		c := chain(t, policy, target("a", "m"), target("b", "n"))
		ask(t, c, "x")
		assert.Equal(t, 1, up.count(), "an account without credit is not asked for another model")
		assert.NotNil(t, s.Peek("m"))
		time.Sleep(5 * time.Minute)
		assert.Nil(t, s.Peek("m"))
	})
}

// Chains that list the same accounts in another order know them by the same
// word.
func TestAccountsAreTheSameInEveryChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newUpstream(limited("600")), healthy()
		s := stack(t, "p", byKey{"1": first, "2": second}, holds())
		target := func(name, key string) failover.Target {
			return failover.Target{Name: name, Provider: "p", Model: "m", Header: http.Header{"Authorization": {key}}, Transport: s}
		}
		a := chain(t, failover.DefaultPolicy(), target("a", "1"), target("b", "2"))
		b := chain(t, failover.DefaultPolicy(), target("b", "2"), target("a", "1"))
		ask(t, a, "x")
		second.set(reply{status: 503})
		assert.Equal(t, 503, ask(t, b, "x").StatusCode)
		assert.Equal(t, 1, first.count())
		assert.Equal(t, 1, second.count())
	})
}
