package resilience_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

func TestStackKeepsTheRulesOfRoundTripper(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]resilience.Policy{"zero": {}, "quick": quick(), "default": resilience.DefaultPolicy()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.Retry.InitialBackoff, p.Retry.MaxBackoff = time.Millisecond, time.Millisecond
			require.NoError(t, upstreamtest.CheckRoundTripper(func(base http.RoundTripper) http.RoundTripper {
				tr, err := resilience.Builder{Base: base}.Build("p", p)
				require.NoError(t, err)
				return tr
			}))
		})
	}
}

// The table of doc.go: what the caller sees.
func TestWhatTheCallerSees(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	status := func(s int) reply { return reply{status: s, body: `{"error":{"message":"x","code":null}}`} }
	for _, c := range []struct {
		name     string
		reply    reply
		seen     int
		reqs     int
		failures int
		outcome  string
		isErr    bool
	}{
		{"refused", reply{err: refused}, 502, 3, 1, resilience.OutcomeTransportError, true},
		{"reset", reply{err: syscall.ECONNRESET}, 502, 3, 1, resilience.OutcomeTransportError, true},
		{"429", status(429), 429, 3, 1, resilience.OutcomeError, false},
		{"502", status(502), 502, 3, 1, resilience.OutcomeError, false},
		{"503", status(503), 503, 3, 1, resilience.OutcomeError, false},
		{"504", status(504), 504, 3, 1, resilience.OutcomeError, false},
		{"522", status(522), 522, 3, 1, resilience.OutcomeError, false},
		{"524", status(524), 524, 3, 1, resilience.OutcomeError, false},
		{"500", status(500), 500, 1, 1, resilience.OutcomeError, false},
		{"529", status(529), 529, 1, 1, resilience.OutcomeError, false},
		{"400", status(400), 400, 1, 0, resilience.OutcomeError, false},
		{"401", status(401), 401, 1, 0, resilience.OutcomeError, false},
		{"408", status(408), 408, 1, 0, resilience.OutcomeError, false},
		{"ok", reply{status: 200, body: okJSON}, 200, 1, 0, resilience.OutcomeSuccess, false},
		{"hidden 429", reply{status: 200, body: `{"error":{"code":429,"message":"busy"}}`}, 429, 3, 1, resilience.OutcomeError, false},
		{"no choices", reply{status: 200, body: `{"choices":[]}`}, 502, 3, 1, resilience.OutcomeError, false},
		{"empty", reply{status: 200}, 502, 3, 1, resilience.OutcomeError, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := play(c.reply)
				tr, rec := build(t, base, quick())
				got, _, err := do(t, tr, chat(t, t.Context(), plainBody))
				assert.Equal(t, c.isErr, err != nil, "%v", err)
				assert.Equal(t, c.seen, seen(got, err))
				assert.Equal(t, c.reqs, base.count())
				require.Len(t, tr.Breakers(), 1)
				assert.Equal(t, c.failures, tr.Breakers()[0].Failures)
				require.Len(t, rec.list(), 1)
				call := rec.last(t)
				assert.Equal(t, c.outcome, call.Outcome)
				assert.Equal(t, c.seen, call.Status)
				assert.Equal(t, "m1", call.Model)
				assert.Equal(t, "chat completions", call.Format)
				assert.Len(t, call.Attempts, c.reqs)
				if err != nil {
					assert.ErrorContains(t, err, "openai-eu")
				}
			})
		})
	}
}

func TestLocalTimeoutIsAnErrorThatSays504(t *testing.T) {
	t.Parallel()
	for name, withTimeout := range map[string]func(*resilience.Policy, context.Context) (context.Context, context.CancelFunc){
		"context": func(_ *resilience.Policy, ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
		"policy timeout": func(p *resilience.Policy, ctx context.Context) (context.Context, context.CancelFunc) {
			p.Timeout = 50 * time.Millisecond
			return ctx, func() {}
		},
		"attempt timeout": func(p *resilience.Policy, ctx context.Context) (context.Context, context.CancelFunc) {
			p.Retry.AttemptTimeout = 50 * time.Millisecond
			return ctx, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := quick()
				ctx, cancel := withTimeout(&p, t.Context())
				defer cancel()
				base := play(reply{status: 200, body: okJSON, delay: time.Hour})
				tr, rec := build(t, base, p)
				start := time.Now()
				_, _, err := do(t, tr, chat(t, ctx, plainBody))
				require.Error(t, err)
				assert.Equal(t, 50*time.Millisecond, time.Since(start))
				assert.Equal(t, 504, resilience.StatusOf(err))
				assert.Equal(t, 1, base.count(), "a local timeout is not retried")
				assert.Equal(t, 1, tr.Breakers()[0].Failures)
				assert.Equal(t, resilience.OutcomeTimeout, rec.last(t).Outcome)
				var ne net.Error
				require.ErrorAs(t, err, &ne)
				assert.True(t, ne.Timeout())
			})
		})
	}
}

func TestPolicyTimeoutIsLiftedOnceAnAnswerHasBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.Timeout = 50 * time.Millisecond
		pr, pw := io.Pipe()
		go func() {
			for _, ev := range []string{evA, evA, evStop + evDone} {
				_, _ = io.WriteString(pw, ev)
				time.Sleep(100 * time.Millisecond)
			}
			_ = pw.Close()
		}()
		tr, rec := build(t, play(reply{status: 200, rest: pr, header: http.Header{"Content-Type": {"text/event-stream"}}}), p)
		status, body, err := do(t, tr, chat(t, t.Context(), streamBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, evA+evA+evStop+evDone, body)
		assert.Equal(t, resilience.OutcomeSuccess, rec.last(t).Outcome)
		_ = pr.Close()
		time.Sleep(time.Second)
	})
}

func TestCancelledByTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := play(reply{status: 200, body: okJSON, delay: time.Hour})
		tr, rec := build(t, base, quick())
		boom := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(boom) })
		_, _, err := do(t, tr, chat(t, ctx, plainBody))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, boom)
		assert.Equal(t, 0, resilience.StatusOf(err))
		assert.Equal(t, 1, base.count())
		assert.Equal(t, 0, tr.Breakers()[0].Failures)
		assert.Equal(t, resilience.OutcomeCanceled, rec.last(t).Outcome)
	})
}

func TestRejection(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, mode string) (*resilience.Transport, *script, *calls) {
		p := quick()
		p.ErrorsAsResponses = mode
		p.CircuitBreaker.Timeout = 20 * time.Second
		base := play(reply{status: 500, body: `{"error":{"message":"x"}}`})
		tr, rec := build(t, base, p)
		for range 3 {
			_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
			require.NoError(t, err)
		}
		return tr, base, rec
	}
	t.Run("as a response", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tr, base, rec := open(t, resilience.RenderRejections)
			resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, 503, resp.StatusCode)
			assert.Equal(t, "20", resp.Header.Get("Retry-After"))
			assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
			assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			var body struct {
				Error struct {
					Message string `json:"message"`
					Code    string `json:"code"`
				} `json:"error"`
			}
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
			assert.Equal(t, "circuit_open", body.Error.Code)
			assert.Equal(t, "circuit breaker is open - provider openai-eu temporarily unavailable", body.Error.Message)
			rej, ok := resilience.Rejection(resp, nil)
			require.True(t, ok)
			assert.Equal(t, "openai-eu", rej.Provider)
			assert.Equal(t, breaker.Open, rej.State)
			assert.InDelta(t, 20*time.Second, rej.RetryAfter, float64(time.Second))
			assert.Equal(t, 3, base.count())
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, resilience.OutcomeRejected, rec.last(t).Outcome)
			assert.Equal(t, "m1", rec.last(t).Model, "who listens is told the model")
		})
	})
	t.Run("looks at no body where nobody listens", func(t *testing.T) {
		t.Parallel()
		tr, err := resilience.Builder{Base: play(reply{status: 200})}.Build("p", quick())
		require.NoError(t, err)
		tr.ForceOpen("", time.Minute)
		req := chat(t, t.Context(), plainBody)
		req.GetBody = func() (io.ReadCloser, error) {
			t.Error("an open breaker does not look at bodies")
			return http.NoBody, nil
		}
		status, _, err := do(t, tr, req)
		require.NoError(t, err)
		assert.Equal(t, 503, status)
	})
	t.Run("as an error", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tr, _, _ := open(t, resilience.RenderNone)
			_, _, err := do(t, tr, chat(t, t.Context(), plainBody))
			require.ErrorIs(t, err, breaker.ErrOpen)
			assert.Equal(t, 503, resilience.StatusOf(err))
			_, ok := resilience.Rejection(nil, err)
			assert.True(t, ok)
		})
	})
	t.Run("an upstream's own 503 is none", func(t *testing.T) {
		t.Parallel()
		p := quick()
		p.Retry.MaxRetries = 0
		tr, _ := build(t, play(reply{status: 503, body: "{}"}), p)
		resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		defer resp.Body.Close()
		_, ok := resilience.Rejection(resp, nil)
		assert.False(t, ok)
	})
}

func TestErrorsAsResponsesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.ErrorsAsResponses = resilience.RenderAll
		p.Retry.AttemptTimeout = time.Second
		p.CircuitBreaker.Disabled = true
		for want, r := range map[int]reply{502: {err: syscall.ECONNRESET}, 504: {delay: time.Hour}} {
			tr, _ := build(t, play(r), p)
			resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
			require.NoError(t, err)
			assert.Equal(t, want, resp.StatusCode)
			assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.True(t, json.Valid(b))
			assert.NotContains(t, string(b), "upstream.invalid")
			require.NoError(t, resp.Body.Close())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		tr, _ := build(t, play(reply{status: 200, body: okJSON}), p)
		_, _, err := do(t, tr, chat(t, ctx, plainBody))
		require.ErrorIs(t, err, context.Canceled, "a cancellation is never rendered")
	})
}

func TestStreamOutcomes(t *testing.T) {
	t.Parallel()
	inBand := `data: {"error":{"code":503,"message":"x"}}` + "\n\n"
	inBand400 := `data: {"error":{"code":400,"message":"x"}}` + "\n\n"
	for _, c := range []struct {
		name     string
		rest     func() io.ReadCloser
		outcome  string
		failures int
		readErr  error
	}{
		{"whole", func() io.ReadCloser { return breaking(evA+evStop+evDone, io.EOF) }, resilience.OutcomeSuccess, 0, nil},
		{"cut", func() io.ReadCloser { return breaking(evA, io.EOF) }, resilience.OutcomeStreamError, 1, streamguard.ErrIncomplete},
		{"reset", func() io.ReadCloser { return breaking(evA, syscall.ECONNRESET) }, resilience.OutcomeStreamError, 1, syscall.ECONNRESET},
		{"stall", func() io.ReadCloser { return stalled(evA) }, resilience.OutcomeStreamError, 1, streamguard.ErrIncomplete},
		{"error event", func() io.ReadCloser { return breaking(evA+inBand+evDone, io.EOF) }, resilience.OutcomeStreamError, 1, streamguard.ErrIncomplete},
		{"4xx event", func() io.ReadCloser { return breaking(evA+inBand400+evDone, io.EOF) }, resilience.OutcomeStreamError, 0, streamguard.ErrIncomplete},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := play(reply{status: 200, rest: c.rest(), header: http.Header{"Content-Type": {"text/event-stream"}}})
				tr, rec := build(t, base, quick())
				status, body, err := do(t, tr, chat(t, t.Context(), streamBody))
				assert.Equal(t, 200, status)
				assert.True(t, strings.HasPrefix(body, evA))
				if c.readErr == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.readErr)
					require.ErrorIs(t, rec.last(t).Err, c.readErr)
				}
				var inc *streamguard.IncompleteError
				if errors.As(err, &inc) {
					assert.Equal(t, inc.Status, resilience.StatusOf(err))
				}
				assert.Equal(t, c.failures, tr.Breakers()[0].Failures)
				assert.Equal(t, c.outcome, rec.last(t).Outcome)
				assert.True(t, rec.last(t).Stream)
				assert.Equal(t, 1, base.count())
			})
		})
	}
}

func TestABrokenDownloadIsNoStreamError(t *testing.T) {
	t.Parallel()
	tr, rec := build(t, play(reply{status: 200, rest: breaking(`{"data":`, syscall.ECONNRESET)}), quick())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.invalid/v1/models", nil)
	require.NoError(t, err)
	_, _, err = do(t, tr, req)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Equal(t, resilience.OutcomeTransportError, rec.last(t).Outcome)
	assert.Equal(t, 1, tr.Breakers()[0].Failures)
}

func TestOnCallComesOnceWithTheBodysEnd(t *testing.T) {
	t.Parallel()
	base := play(reply{status: 200, body: evA + evStop + evDone})
	tr, rec := build(t, base, quick())
	resp, err := tr.RoundTrip(chat(t, t.Context(), streamBody))
	require.NoError(t, err)
	assert.Empty(t, rec.list())
	now, ok := resilience.CallOf(resp)
	require.True(t, ok)
	assert.Empty(t, now.Outcome)
	assert.Equal(t, "m1", now.Model)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close())
	require.Len(t, rec.list(), 1)
	assert.Equal(t, 2, rec.last(t).Events, "[DONE] is no data event")
}

func TestAPanicInOnCallIsRecovered(t *testing.T) {
	t.Parallel()
	tr, err := resilience.Builder{
		Base:   play(reply{status: 200, body: okJSON}),
		OnCall: func(context.Context, resilience.Call) { panic("hook") },
	}.Build("p", quick())
	require.NoError(t, err)
	status, _, err := do(t, tr, chat(t, t.Context(), plainBody))
	require.NoError(t, err)
	assert.Equal(t, 200, status)
}

func TestBodyWithoutGetBodyIsReadAheadAndReplayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := play(reply{status: 503, body: "{}"}, reply{status: 200, body: okJSON})
		tr, rec := build(t, base, quick())
		req := chat(t, t.Context(), plainBody)
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(strings.NewReader(plainBody)), nil, -1
		status, _, err := do(t, tr, req)
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, []string{plainBody, plainBody}, base.bodies)
		assert.Equal(t, "m1", rec.last(t).Model)
	})
}

func TestBodyBeyondTheReadAheadLimitIsSentOnce(t *testing.T) {
	t.Parallel()
	big := `{"model":"m1","messages":[{"role":"user","content":"` + strings.Repeat("x", 5<<20) + `"}]}`
	base := play(reply{status: 503, body: "{}"})
	tr, rec := build(t, base, quick())
	req := chat(t, t.Context(), big)
	req.GetBody = nil
	status, _, err := do(t, tr, req)
	require.NoError(t, err)
	assert.Equal(t, 503, status)
	require.Equal(t, 1, base.count())
	assert.Equal(t, big, base.bodies[0])
	assert.Equal(t, "m1", rec.last(t).Model, "its beginning is looked at")
}

func TestAnUnreadableRequestBodyIsAClearError(t *testing.T) {
	t.Parallel()
	boom := errors.New("disk gone")
	base := play(reply{status: 200, body: okJSON})
	tr, _ := build(t, base, quick())
	req := chat(t, t.Context(), plainBody)
	req.Body, req.GetBody = breaking(`{"mod`, boom), nil
	_, _, err := do(t, tr, req)
	require.ErrorIs(t, err, boom)
	assert.ErrorContains(t, err, "request body")
	assert.Equal(t, 0, base.count())
	assert.Equal(t, 0, tr.Breakers()[0].Failures)
}

func TestModelFromContextWins(t *testing.T) {
	t.Parallel()
	base := play(reply{status: 200, body: okJSON})
	tr, rec := build(t, base, quick())
	_, _, err := do(t, tr, chat(t, resilience.WithModel(t.Context(), "other"), plainBody))
	require.NoError(t, err)
	assert.Equal(t, "other", rec.last(t).Model)
	assert.Equal(t, plainBody, base.bodies[0])
}

// Transports that are not net/http's often leave ContentLength at 0.
func TestAZeroContentLengthSaysNothing(t *testing.T) {
	t.Parallel()
	respond := func(status int, header http.Header, rest io.ReadCloser) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := reply{status: status, header: header, rest: rest}.response(req)
			resp.ContentLength = 0
			return resp, err
		})
	}
	t.Run("quota", func(t *testing.T) {
		t.Parallel()
		body := breaking(`{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"x"}}`, io.EOF)
		tr, rec := build(t, respond(429, nil, body), quick())
		status, text, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 429, status)
		assert.Contains(t, text, "insufficient_quota")
		assert.Len(t, rec.last(t).Attempts, 1)
	})
	t.Run("encoded", func(t *testing.T) {
		t.Parallel()
		tr, _ := build(t, respond(200, http.Header{"Content-Encoding": {"br"}}, breaking("not JSON", io.EOF)), quick())
		status, text, err := do(t, tr, chat(t, t.Context(), plainBody))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, "not JSON", text)
	})
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tr, _ := build(t, respond(200, http.Header{"Content-Type": {"text/event-stream"}}, stalled(evA)), quick())
			_, _, err := do(t, tr, chat(t, t.Context(), streamBody))
			require.ErrorIs(t, err, streamguard.ErrIncomplete)
		})
	})
}

func TestPassthroughLeavesBytesAlone(t *testing.T) {
	t.Parallel()
	hidden := `{"error":{"code":429,"message":"busy"}}`
	base := play(reply{status: 200, body: hidden})
	tr, _ := build(t, base, quick())
	req := chat(t, resilience.WithPassthrough(t.Context()), plainBody)
	req.Header.Set("Accept-Encoding", "gzip")
	status, body, err := do(t, tr, req)
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.Equal(t, hidden, body)
	assert.Equal(t, "gzip", base.headers[0].Get("Accept-Encoding"))
}

func TestAcceptEncodingIsTakenOffForJudgedCalls(t *testing.T) {
	t.Parallel()
	base := play(reply{status: 200, body: okJSON})
	tr, _ := build(t, base, quick())
	req := chat(t, t.Context(), plainBody)
	req.Header.Set("Accept-Encoding", "gzip")
	_, _, err := do(t, tr, req)
	require.NoError(t, err)
	assert.Empty(t, base.headers[0].Get("Accept-Encoding"))
	assert.Equal(t, "gzip", req.Header.Get("Accept-Encoding"))
}

func TestUnmaskedCallKeepsTheOriginal(t *testing.T) {
	t.Parallel()
	p := quick()
	p.Retry.MaxRetries = 0
	base := play(reply{status: 200, body: `<!DOCTYPE html><title>wait</title>`, header: http.Header{"Content-Type": {"text/html"}, "X-Request-Id": {"r1"}}})
	tr, rec := build(t, base, p)
	resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
	require.NoError(t, err)
	assert.Equal(t, 502, resp.StatusCode)
	assert.Equal(t, "r1", resp.Header.Get("X-Request-Id"))
	call, ok := resilience.CallOf(resp)
	require.True(t, ok)
	assert.True(t, call.Unmasked)
	assert.Equal(t, `<!DOCTYPE html><title>wait</title>`, string(call.Original))
	f, ok := resilience.FailureOf(resp)
	require.True(t, ok)
	assert.Equal(t, 502, f.Status)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, resilience.OutcomeError, rec.last(t).Outcome)
}

func TestAPanicBelowCountsAndPassesOn(t *testing.T) {
	t.Parallel()
	tr, rec := build(t, play(reply{panic: "boom"}), quick())
	assert.PanicsWithValue(t, "boom", func() {
		resp, err := tr.RoundTrip(chat(t, t.Context(), plainBody))
		if err == nil {
			_ = resp.Body.Close()
		}
	})
	assert.Equal(t, 1, tr.Breakers()[0].Failures)
	assert.Equal(t, "panic", rec.last(t).Reason)
}

func TestARequestThatCannotBeSentIsNobodysFailure(t *testing.T) {
	t.Parallel()
	bare := http.DefaultTransport.(*http.Transport).Clone()
	for kind, base := range map[string]http.RoundTripper{"bare": bare, "wrapped": roundTrip(bare.RoundTrip)} {
		t.Run(kind, func(t *testing.T) { unsendable(t, base) })
	}
}

func unsendable(t *testing.T, base http.RoundTripper) {
	tr, rec := build(t, base, quick())
	for name, spoil := range map[string]func(*http.Request){
		"header": func(r *http.Request) { r.Header.Set("X-Bad", "a\nb") },
		"host":   func(r *http.Request) { r.URL.Host = "" },
		"method": func(r *http.Request) { r.Method = "BAD METHOD" },
		"name":   func(r *http.Request) { r.Header["X Bad"] = []string{"a"} },
		"scheme": func(r *http.Request) { r.URL.Scheme = "" },
	} {
		req := chat(t, t.Context(), plainBody)
		spoil(req)
		_, _, err := do(t, tr, req)
		require.Error(t, err, name)
		assert.Equal(t, 502, resilience.StatusOf(err), name)
		if call := rec.last(t); assert.Len(t, call.Attempts, 1, name) {
			assert.False(t, call.Attempts[0].Sent, name)
			assert.Equal(t, "request_error", call.Reason, name)
		}
	}
	assert.Equal(t, 0, tr.Breakers()[0].Failures)
}

func TestRedirectBelongsToTheCallBeforeIt(t *testing.T) {
	t.Parallel()
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
		}
		if req.URL.Path == "/moved" {
			return reply{status: 200, body: "<html>sign in</html>", header: http.Header{"Content-Type": {"text/html"}}}.response(req)
		}
		return reply{status: 302, header: http.Header{"Location": {"/moved"}}, body: "x"}.response(req)
	})
	p := quick()
	p.Retry.MaxRetries = 0
	tr, rec := build(t, base, p)
	resp, err := tr.Client().Do(chat(t, t.Context(), plainBody))
	require.NoError(t, err)
	assert.Equal(t, 502, resp.StatusCode, "HTML at a redirect's end is a 502 like any other")
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "chat completions", rec.last(t).Format)
	assert.Equal(t, "m1", rec.last(t).Model)
}

func TestCredentialsDoNotFollowARedirectToAnotherOrigin(t *testing.T) {
	t.Parallel()
	var seen []http.Header
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		seen = append(seen, req.Header.Clone())
		if len(seen) == 1 {
			return reply{status: 307, header: http.Header{"Location": {"http://elsewhere.invalid/v1/chat/completions"}}}.response(req)
		}
		return reply{status: 200, body: okJSON}.response(req)
	})
	policy := quick()
	policy.Words.Credentials = []string{"X-Wallet"}
	tr, _ := build(t, base, policy)
	req := chat(t, t.Context(), plainBody)
	req.Header.Set("X-Wallet", "secret")
	req.Header.Set("X-Api-Key", "secret")
	req.Header.Set("X-Trace", "kept")
	resp, err := tr.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Len(t, seen, 2)
	assert.Equal(t, "secret", seen[0].Get("X-Api-Key"))
	assert.Empty(t, seen[1].Get("X-Api-Key"))
	assert.Equal(t, "secret", seen[0].Get("X-Wallet"))
	assert.Empty(t, seen[1].Get("X-Wallet"), "a configured word")
	assert.Equal(t, "kept", seen[1].Get("X-Trace"))
}

func TestBuildRefusesAnInvalidPolicy(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*resilience.Policy){
		"retry.max_retries":                   func(p *resilience.Policy) { p.Retry.MaxRetries = -1 },
		"retry.retry_on_statuses":             func(p *resilience.Policy) { p.Retry.RetryOnStatuses = []string{"6xx"} },
		"retry.initial_backoff":               func(p *resilience.Policy) { p.Retry.InitialBackoff = 0 },
		"retry.backoff_factor":                func(p *resilience.Policy) { p.Retry.BackoffFactor = 0.5 },
		"retry.jitter_factor":                 func(p *resilience.Policy) { p.Retry.JitterFactor = 1.5 },
		"retry.streams":                       func(p *resilience.Policy) { p.Retry.Streams = "always" },
		"retry.replay":                        func(p *resilience.Policy) { p.Retry.Replay = "x" },
		"retry.attempt_timeout":               func(p *resilience.Policy) { p.Retry.AttemptTimeout = -1 },
		"circuit_breaker.scope":               func(p *resilience.Policy) { p.CircuitBreaker.Scope = "world" },
		"circuit_breaker.failure_on_statuses": func(p *resilience.Policy) { p.CircuitBreaker.FailureOnStatuses = []string{"99"} },
		"circuit_breaker.success_threshold":   func(p *resilience.Policy) { p.CircuitBreaker.SuccessThreshold = 0 },
		"circuit_breaker.timeout":             func(p *resilience.Policy) { p.CircuitBreaker.Timeout = 0 },
		"stream.idle_timeout":                 func(p *resilience.Policy) { p.Stream.IdleTimeout = -1 },
		"stream.hold_until":                   func(p *resilience.Policy) { p.Stream.HoldUntil = "x" },
		"stream.resume":                       func(p *resilience.Policy) { p.Stream.Resume = "x" },
		"stream.incomplete_read":              func(p *resilience.Policy) { p.Stream.IncompleteRead = "x" },
		"limits.max_hold":                     func(p *resilience.Policy) { p.Limits.MaxHold = -time.Second },
		"limits.max_concurrent":               func(p *resilience.Policy) { p.Limits.MaxConcurrent = -1 },
		"timeout":                             func(p *resilience.Policy) { p.Timeout = -1 },
		"errors_as_responses":                 func(p *resilience.Policy) { p.ErrorsAsResponses = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := resilience.DefaultPolicy()
			change(&p)
			tr, err := resilience.Builder{}.Build("p", p)
			require.Error(t, err)
			assert.Nil(t, tr)
			assert.ErrorContains(t, err, name)
		})
	}
	require.NoError(t, resilience.Policy{}.Validate(), "the zero policy is a passive stack")
	require.NoError(t, resilience.DefaultPolicy().Validate())
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"canceled", context.Canceled, 0},
		{"deadline", context.DeadlineExceeded, 504},
		{"client timeout", &url.Error{Op: "Post", URL: "x", Err: context.DeadlineExceeded}, 504},
		{"refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, 502},
		{"dial timeout", &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, 502},
		{"open", &breaker.OpenError{Provider: "p"}, 503},
		{"other", io.ErrUnexpectedEOF, 502},
	} {
		assert.Equal(t, c.want, resilience.StatusOf(c.err), c.name)
	}
}
