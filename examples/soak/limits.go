package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

const (
	// shortest is the least that a limited answer asks for: more than a retry
	// waits for, so that it holds its key.
	shortest = 200 * time.Millisecond
	// maxHold is beyond what any answer but a day's asks for.
	maxHold = 2500 * time.Millisecond
)

// shared are the models that many callers ask for, and that a limit of theirs
// concerns. Every other model is one caller's own.
var shared = [4]string{"shared-0", "shared-1", "shared-2", "shared-3"}

// A limit is what an upstream keeps calls away for: a model's requests, or with
// the key "" an account's.
type limit struct {
	key   string
	until time.Time
	form  *limitForm
}

// limitForm is one vendor's way to say it. It gets the wait, and the moment
// itself, and writes the answer.
type limitForm struct {
	name    string
	account bool // a quota or billing: the limit is of the account
	unnamed bool // no time is named
	longer  bool // where the body comes too late its header names a later one
	whole   bool // the moment is one of whole seconds
	say     func(h http.Header, wait time.Duration, at time.Time) (status int, body string)
}

// openAI is the usual body of a limited answer.
func openAI(message, code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"requests","param":null,"code":%q}}`, message, code)
}

const limitReached = "Rate limit reached for the model."

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

var limitForms = []limitForm{
	{name: "retry-after-ms", say: func(h http.Header, wait time.Duration, _ time.Time) (int, string) {
		h.Set("Retry-After-Ms", millis(wait))
		return 429, openAI(limitReached, "rate_limit_exceeded")
	}},
	{name: "Retry-After", say: func(h http.Header, wait time.Duration, _ time.Time) (int, string) {
		h.Set("Retry-After", fmt.Sprintf("%.3f", wait.Seconds()))
		return 429, openAI(limitReached, "rate_limit_exceeded")
	}},
	{name: "prose before the time to full replenishment", longer: true, say: func(h http.Header, wait time.Duration, _ time.Time) (int, string) {
		h.Set("X-Ratelimit-Remaining-Requests", "0")
		h.Set("X-Ratelimit-Reset-Requests", "6m0s")
		return 429, openAI(limitReached+" Please try again in "+millis(wait)+"ms.", "rate_limit_exceeded")
	}},
	{name: "reset as a Go duration", say: func(h http.Header, wait time.Duration, _ time.Time) (int, string) {
		h.Set("X-Ratelimit-Remaining-Requests", "12")
		h.Set("X-Ratelimit-Reset-Requests", "6m0s")
		h.Set("X-Ratelimit-Remaining-Tokens", "0")
		h.Set("X-Ratelimit-Reset-Tokens", wait.String())
		return 429, openAI(limitReached, "rate_limit_exceeded")
	}},
	{name: "reset in RFC 3339", whole: true, say: func(h http.Header, _ time.Duration, at time.Time) (int, string) {
		h.Set("Anthropic-Ratelimit-Requests-Remaining", "0")
		h.Set("Anthropic-Ratelimit-Requests-Reset", at.UTC().Format(time.RFC3339))
		return 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed the limit."}}`
	}},
	{name: "reset in epoch milliseconds, in the body", say: func(_ http.Header, _ time.Duration, at time.Time) (int, string) {
		return 429, fmt.Sprintf(`{"error":{"code":429,"message":"Rate limit exceeded","metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"%d"}}}}`, at.UnixMilli())
	}},
	{name: "RetryInfo", say: func(_ http.Header, wait time.Duration, _ time.Time) (int, string) {
		return 429, fmt.Sprintf(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Limit.","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%.3fs"}]}}`, wait.Seconds())
	}},
	{name: "a plan's window in epoch seconds", account: true, whole: true, say: func(h http.Header, _ time.Duration, at time.Time) (int, string) {
		h.Set("Anthropic-Ratelimit-Unified-Status", "rejected")
		h.Set("Anthropic-Ratelimit-Unified-Reset", strconv.FormatInt(at.Unix(), 10))
		return 429, `{"type":"error","error":{"type":"rate_limit_error","message":"Limit."}}`
	}},
	{name: "a plan's window in seconds", account: true, say: func(_ http.Header, wait time.Duration, _ time.Time) (int, string) {
		return 429, fmt.Sprintf(`{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":%.3f}}`, wait.Seconds())
	}},
	{name: "billing with a time", account: true, say: func(h http.Header, wait time.Duration, _ time.Time) (int, string) {
		h.Set("Retry-After-Ms", millis(wait))
		return 402, openAI("Insufficient credits.", "insufficient_credits")
	}},
	{name: "billing", account: true, unnamed: true, say: func(http.Header, time.Duration, time.Time) (int, string) {
		return 429, openAI("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota")
	}},
}

// limiter is what one upstream refuses calls for.
type limiter struct {
	mu    sync.Mutex
	at    map[string]*limit // guarded by mu: by key
	meets map[string]*limit // guarded by mu: what an exchange's request runs into
}

func newLimiter() *limiter { return &limiter{at: map[string]*limit{}, meets: map[string]*limit{}} }

func (l *limiter) set(x *limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[x.key] = x
}

// refuses reports whether a request runs into a limit, or into the given one.
func (l *limiter) refuses(exchange, model string, full *limit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range [...]string{model, ""} {
		if x := l.at[key]; x != nil && full == nil && time.Now().Before(x.until) {
			full = x
		}
	}
	if full != nil {
		l.meets[exchange] = full
	}
	return full != nil
}

// met returns what refuses has found.
func (l *limiter) met(exchange string) *limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.meets[exchange]
	delete(l.meets, exchange)
	return x
}

// tooMany is what an upstream says to more calls at once than it has places
// for, which holds nothing.
var tooMany = &limit{form: &limitForm{name: "too many at once", say: func(http.Header, time.Duration, time.Time) (int, string) {
	return 429, `{"type":"error","error":{"type":"rate_limit_error","message":"Number of concurrent connections has exceeded your rate limit. Please try again later."}}`
}}}

// Headers of a limited answer, for the checks alone.
const (
	keyHeader    = "X-Soak-Limited"      // its key
	untilHeader  = "X-Soak-Limited-For"  // ns from its being sent on; "" for none
	formHeader   = "X-Soak-Limited-Form" // its name
	longerHeader = "X-Soak-Limited-Longer"
)

// limited answers a request that runs into a limit.
func (p *provider) limited(s *soak) ut.Step {
	return ut.Raw(func(w http.ResponseWriter, r *http.Request) {
		x := p.limiter.met(r.Header.Get(exchangeHeader))
		s.tally.count("limits", "refused: "+x.form.name)
		now := time.Now()
		wait := max(x.until.Sub(now), shortest).Round(time.Millisecond) + time.Millisecond
		if x.form.whole {
			wall := now.Add(wait).Truncate(time.Second).Add(time.Second)
			wait = wall.Sub(now.Round(0))
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		if x != tooMany {
			h.Set(keyHeader, x.key)
			h.Set(formHeader, x.form.name)
			if !x.form.unnamed {
				h.Set(untilHeader, strconv.FormatInt(int64(wait), 10))
			}
			if x.form.longer {
				h.Set(longerHeader, "true")
			}
		}
		status, body := x.form.say(h, wait, now.Add(wait))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // whoever has gone does not read it
	})
}

// limitWeather limits a shared model or an account now and then.
func (s *soak) limitWeather(ctx context.Context) {
	rng := rand.New(rand.NewPCG(s.seed, 1<<62))
	for pause(ctx, time.Duration(20+rng.IntN(150))*time.Millisecond) {
		f := &limitForms[rng.IntN(len(limitForms))]
		x := &limit{form: f, until: time.Now().Add(time.Duration(50+rng.IntN(800)) * time.Millisecond)}
		if !f.account {
			x.key = shared[rng.IntN(len(shared))]
		} else if rng.IntN(6) > 0 {
			continue // an account's limit hides all else
		}
		s.tally.count("weather", "limits")
		s.providers[rng.IntN(len(s.providers))].limiter.set(x)
	}
}
