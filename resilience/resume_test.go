package resilience_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
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

// The streams that are kept, event by event.
var keptStreams = map[string]struct {
	path, body string
	events     []string
}{
	"responses": {"/v1/responses", `{"model":"m1","stream":true,"background":true}`, []string{
		"event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"}}\n\n",
		"event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":1,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"}}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":2,\"delta\":\"a那\"}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":3,\"delta\":\"b\"}\n\n",
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":4,\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"output\":[{}],\"usage\":{\"total_tokens\":3}}}\n\n",
	}},
	"interactions": {"/v1beta/interactions", `{"model":"m1","stream":true}`, []string{
		"event: interaction.created\ndata: {\"event_type\":\"interaction.created\",\"interaction\":{\"id\":\"v1_1\",\"status\":\"in_progress\"},\"event_id\":\"e0\"}\n\n",
		"event: content.start\ndata: {\"event_type\":\"content.start\",\"index\":0,\"content\":{\"type\":\"text\"},\"event_id\":\"e1\"}\n\n",
		"event: content.delta\ndata: {\"event_type\":\"content.delta\",\"index\":0,\"delta\":{\"type\":\"text\",\"text\":\"a那\"},\"event_id\":\"e2\"}\n\n",
		"event: content.delta\ndata: {\"event_type\":\"content.delta\",\"index\":0,\"delta\":{\"type\":\"text\",\"text\":\"b\"},\"event_id\":\"e3\"}\n\n",
		"event: interaction.completed\ndata: {\"event_type\":\"interaction.completed\",\"interaction\":{\"id\":\"v1_1\",\"status\":\"completed\",\"usage\":{\"total_tokens\":3}},\"event_id\":\"e4\"}\n\n",
	}},
}

// resuming is the policy of these tests.
func resuming() resilience.Policy {
	p := quick()
	p.Retry.JitterFactor = 0
	p.Stream.Resume = streamguard.ResumeOn
	return p
}

// A resumer is a stack over an upstream that keeps one of the streams.
type resumer struct {
	up     *upstreamtest.Upstream
	tr     *resilience.Transport
	calls  *calls
	meter  *meter
	log    *bytes.Buffer
	format string
}

func newResumer(t *testing.T, format string, up *upstreamtest.Upstream, base http.RoundTripper, p resilience.Policy) *resumer {
	t.Helper()
	r := &resumer{up: up, calls: new(calls), meter: new(meter), log: new(bytes.Buffer), format: format}
	var err error
	r.tr, err = resilience.Builder{
		Base: base, OnCall: r.calls.on, MeterProvider: provider{m: r.meter}, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}.Build("eu", p)
	require.NoError(t, err)
	return r
}

// cut is the answer to the first request: n whole events and nine bytes.
func (r *resumer) cut(n int) upstreamtest.Step {
	return r.stream().CutBytes(len(r.text(0, n)) + 9).Reset()
}

func (r *resumer) stream() upstreamtest.Step {
	return upstreamtest.RawStream(keptStreams[r.format].events...).Keep()
}

func (r *resumer) text(from, to int) string {
	return strings.Join(keptStreams[r.format].events[from:to], "")
}

func (r *resumer) whole() string { return r.text(0, len(keptStreams[r.format].events)) }

func (r *resumer) send(t *testing.T, ctx context.Context) (*http.Response, error) { //nolint:revive // t comes first in tests
	t.Helper()
	k := keptStreams[r.format]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.up.URL+k.path, strings.NewReader(k.body))
	require.NoError(t, err)
	return r.tr.RoundTrip(req)
}

func (r *resumer) do(t *testing.T, ctx context.Context) (string, error) { //nolint:revive // t comes first in tests
	t.Helper()
	resp, err := r.send(t, ctx)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return string(b), err
}

// resumes is what the metric has counted, by error.type.
func (r *resumer) resumes() (out []string) {
	for _, record := range r.meter.take() {
		if rest, ok := strings.CutPrefix(record, "surefoot.client.resumes{"); ok {
			reason, _, _ := strings.Cut(strings.TrimPrefix(rest, "error.type="), " ")
			out = append(out, strings.Replace(reason, "gen_ai.request.model=m1", "", 1))
		}
	}
	return out
}

// withResumer runs a test over an upstream in memory.
func withResumer(t *testing.T, format string, p resilience.Policy, test func(t *testing.T, r *resumer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := upstreamtest.NewInMemory("")
		defer up.Close()
		test(t, newResumer(t, format, up, up.RoundTripper(), p))
		assert.Zero(t, up.InFlight())
	})
}

// Over sockets, wherever the first answer is cut.
func TestAStreamCutAnywhereOverSockets(t *testing.T) {
	t.Parallel()
	for format := range keptStreams {
		for _, version := range []string{"HTTP/1", "HTTP/2"} {
			t.Run(format+" "+version, func(t *testing.T) {
				t.Parallel()
				up := upstreamtest.New()
				defer up.Close()
				base := &http.Transport{Protocols: new(http.Protocols)}
				base.Protocols.SetHTTP1(version == "HTTP/1")
				base.Protocols.SetUnencryptedHTTP2(version == "HTTP/2")
				p := resuming()
				p.Stream.IdleTimeout = time.Minute
				r := newResumer(t, format, up, base, p)
				whole := r.whole()
				for cut := len(r.text(0, 1)); cut < len(whole)-1; cut++ {
					step := r.stream().CutBytes(cut)
					switch cut % 3 { // a TCP reset may overtake the bytes before it
					case 0:
						step = step.FIN()
					case 1:
						step = step.BadChunk()
					}
					up.Next(step)
					got, err := r.do(t, t.Context())
					require.NoError(t, err, "cut at %d", cut)
					require.Equal(t, whole, got, "cut at %d", cut)
				}
				assert.Equal(t, "success", r.calls.last(t).Outcome)
				r.tr.CloseIdleConnections()
				up.CloseIdle()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, up.Wait(ctx, func() bool { return up.InFlight() == 0 }))
			})
		}
	}
}

// The call's record, the metric and one log line tell of it.
func TestWhatIsRecordedOfAResume(t *testing.T) {
	t.Parallel()
	rest := upstreamtest.Rest
	status := upstreamtest.Status
	for name, c := range map[string]struct {
		rests    []upstreamtest.Step
		expire   bool
		gets     int
		resumes  int
		noResume string
		log      string
		took     time.Duration
	}{
		"resumed":                        {gets: 1, resumes: 1, log: `msg="surefoot: broken stream resumed" provider=eu model=m1 format=responses stream=true reconnects=1`},
		"twice":                          {rests: []upstreamtest.Step{rest().CutAfter(1).Reset(), rest()}, gets: 2, resumes: 2},
		"a 503 is retried":               {rests: []upstreamtest.Step{status(503), rest()}, gets: 2, resumes: 1, log: "reconnects=2", took: 10 * time.Millisecond},
		"for as long as it asks":         {rests: []upstreamtest.Step{status(503).Header("Retry-After-Ms", "700"), rest()}, gets: 2, resumes: 1, took: 700 * time.Millisecond},
		"a cut before an event":          {rests: []upstreamtest.Step{rest().CutAfter(0).Reset(), rest()}, gets: 2, resumes: 1, took: 10 * time.Millisecond},
		"a connection that drops":        {rests: []upstreamtest.Step{upstreamtest.Drop(), upstreamtest.Drop(), rest()}, gets: 3, resumes: 1, took: 30 * time.Millisecond},
		"a sign of life":                 {rests: []upstreamtest.Step{rest().Repeat(0, 1)}, gets: 1, resumes: 1},
		"three without a new event":      {rests: []upstreamtest.Step{rest().CutAfter(0).FIN()}, gets: 3, noResume: "no_event", took: 30 * time.Millisecond},
		"three drops":                    {rests: []upstreamtest.Step{upstreamtest.Drop()}, gets: 3, noResume: "transport_error", took: 30 * time.Millisecond},
		"three 503":                      {rests: []upstreamtest.Step{status(503)}, gets: 3, noResume: "503", took: 30 * time.Millisecond},
		"a wait that is too long":        {rests: []upstreamtest.Step{status(503).RetryAfter(time.Minute)}, gets: 1, noResume: "503"},
		"a 500 is not":                   {rests: []upstreamtest.Step{status(500)}, gets: 1, noResume: "500"},
		"nor a 429":                      {rests: []upstreamtest.Step{status(429)}, gets: 1, noResume: "429"},
		"nor a 400 that says otherwise":  {rests: []upstreamtest.Step{status(400).Header("X-Should-Retry", "true")}, gets: 1, noResume: "400"},
		"expired":                        {expire: true, gets: 1, noResume: "404", log: `level=WARN msg="surefoot: broken stream not resumed" provider=eu model=m1 format=responses stream=true reason=404 reconnects=1`},
		"JSON, whole":                    {rests: []upstreamtest.Step{upstreamtest.Body("application/json", `{"id":"resp_1","status":"in_progress"}`)}, gets: 1, noResume: "gap"},
		"a page":                         {rests: []upstreamtest.Step{upstreamtest.HTML()}, gets: 1, noResume: "gap"},
		"a gap":                          {rests: []upstreamtest.Step{rest().Skip(1)}, gets: 1, noResume: "gap"},
		"an older event":                 {rests: []upstreamtest.Step{rest().Repeat(2)}, gets: 1, noResume: "older"},
		"a redirect":                     {rests: []upstreamtest.Step{status(302).Header("Location", "/x")}, gets: 1, noResume: "302"},
		"silence":                        {rests: []upstreamtest.Step{rest().CutAfter(0).Stall()}, gets: 1, noResume: "timeout", took: 200 * time.Millisecond},
		"silence before the headers":     {rests: []upstreamtest.Step{upstreamtest.Silence()}, gets: 1, noResume: "timeout", took: 200 * time.Millisecond},
		"resumed, and then not any more": {rests: []upstreamtest.Step{rest().CutAfter(1).Reset(), status(404)}, gets: 2, resumes: 1, noResume: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withResumer(t, "responses", resuming(), func(t *testing.T, r *resumer) {
				r.up.Next(r.cut(3))
				r.up.Rests(c.rests...)
				if c.rests == nil {
					r.up.Rests(rest())
				}
				resp, err := r.send(t, t.Context())
				require.NoError(t, err)
				if c.expire {
					r.up.Expire()
				}
				start := time.Now()
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, c.took, time.Since(start))
				rec := r.calls.last(t)
				if c.noResume == "" {
					require.NoError(t, err)
					assert.Equal(t, r.whole(), string(b))
					assert.Equal(t, "success", rec.Outcome)
				} else {
					require.ErrorIs(t, err, streamguard.ErrIncomplete)
					assert.True(t, strings.HasPrefix(string(b), r.text(0, 3)))
					assert.Equal(t, 1, bytes.Count(b, []byte("stream_incomplete"))/2)
					assert.Equal(t, "stream_error", rec.Outcome)
					assert.Equal(t, "transport_error", rec.Reason, "the first break is the reason")
				}
				assert.Equal(t, c.gets, r.up.Count()-1)
				assert.Len(t, rec.Attempts, 1)
				assert.Equal(t, c.resumes, rec.Resumes)
				assert.Equal(t, c.noResume, rec.NoResume)
				want := make([]string, c.resumes)
				if c.noResume != "" {
					want = append(want, c.noResume)
				}
				assert.ElementsMatch(t, want, r.resumes())
				assert.Contains(t, r.log.String(), c.log)
				assert.Equal(t, len(want), strings.Count(r.log.String(), "surefoot: broken stream"))
			})
		})
	}
}

// The breaker is asked before each reconnect, before and after each wait. What
// was mended is no failure of it.
func TestAResumeAsksTheBreaker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   time.Duration // when it opens, from the break on; negative: before
		gets int
	}{
		"before":       {-1, 0},
		"in the wait":  {5 * time.Millisecond, 1},
		"after a wait": {15 * time.Millisecond, 2},
	} {
		withResumer(t, "responses", resuming(), func(t *testing.T, r *resumer) {
			r.up.Next(r.cut(3))
			r.up.Rests(upstreamtest.Status(503))
			resp, err := r.send(t, t.Context())
			require.NoError(t, err, name)
			if c.at < 0 {
				r.tr.ForceOpen("", time.Hour)
			} else {
				time.AfterFunc(c.at, func() { r.tr.ForceOpen("", time.Hour) })
			}
			_, err = io.ReadAll(resp.Body)
			require.ErrorIs(t, err, streamguard.ErrIncomplete, name)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, c.gets, r.up.Count()-1, name)
			if want := "circuit_open"; c.at < 0 {
				assert.Equal(t, want, r.calls.last(t).NoResume, name)
			}
		})
	}
	p := resuming()
	p.CircuitBreaker.FailureThreshold = 1
	withResumer(t, "responses", p, func(t *testing.T, r *resumer) {
		r.up.Next(r.cut(3))
		r.up.Rests(upstreamtest.Status(503), upstreamtest.Rest())
		_, err := r.do(t, t.Context())
		require.NoError(t, err)
		assert.Equal(t, breaker.Closed, r.tr.Breakers()[0].State)

		r.up.Next(r.cut(3))
		r.up.Rests(upstreamtest.Status(404))
		_, err = r.do(t, t.Context())
		require.Error(t, err)
		assert.Equal(t, breaker.Open, r.tr.Breakers()[0].State)
	})
}

// A wait that what stands above has no patience for is not begun.
func TestAResumeAsksForPatience(t *testing.T) {
	t.Parallel()
	withResumer(t, "responses", resuming(), func(t *testing.T, r *resumer) {
		p := &impatient{longest: 15 * time.Millisecond}
		r.up.Next(r.cut(3))
		r.up.Rests(upstreamtest.Status(503))
		_, err := r.do(t, resilience.WithPatience(t.Context(), p))
		require.ErrorIs(t, err, streamguard.ErrIncomplete)
		assert.Equal(t, 2, r.up.Count()-1)
		assert.Equal(t, 10*time.Millisecond, p.waited)
	})
}

type impatient struct{ longest, waited time.Duration }

func (p *impatient) MayWait(_ *http.Request, _ *http.Response, wait time.Duration) (time.Duration, bool) {
	return p.longest, wait <= p.longest
}

func (p *impatient) Waits(_ *http.Request, wait time.Duration) { p.waited += wait }

// Whoever leaves while the rest is looked for leaves nothing behind.
func TestACallerLeavesDuringAReconnect(t *testing.T) {
	t.Parallel()
	gate := func() <-chan struct{} { return make(chan struct{}) }
	for name, rest := range map[string]func() upstreamtest.Step{
		"before the headers":      func() upstreamtest.Step { return upstreamtest.Rest().Hold(gate()) },
		"before an event":         func() upstreamtest.Step { return upstreamtest.Rest().At(0, upstreamtest.Gate(gate())) },
		"in a wait":               func() upstreamtest.Step { return upstreamtest.Status(503).Header("Retry-After-Ms", "900") },
		"behind the resumed part": func() upstreamtest.Step { return upstreamtest.Rest().At(1, upstreamtest.Gate(gate())) },
	} {
		for _, leave := range []string{"cancel", "deadline", "close"} {
			t.Run(name+" "+leave, func(t *testing.T) {
				t.Parallel()
				p := resuming()
				p.Stream.IdleTimeout = time.Hour
				withResumer(t, "responses", p, func(t *testing.T, r *resumer) {
					r.up.Next(r.cut(3))
					r.up.Rests(rest())
					ctx, cancel := context.WithCancel(t.Context())
					if leave == "deadline" {
						ctx, cancel = context.WithTimeout(t.Context(), time.Second)
					}
					defer cancel()
					resp, err := r.send(t, ctx)
					require.NoError(t, err)
					switch leave {
					case "cancel":
						time.AfterFunc(50*time.Millisecond, cancel)
					case "close":
						time.AfterFunc(50*time.Millisecond, func() { assert.NoError(t, resp.Body.Close()) })
					}
					_, err = io.ReadAll(resp.Body)
					require.Error(t, err)
					synctest.Wait()
					require.NoError(t, resp.Body.Close())
					rec := r.calls.last(t)
					switch leave {
					case "cancel":
						require.ErrorIs(t, err, context.Canceled)
						assert.Equal(t, "canceled", rec.Outcome)
					case "close":
						assert.Equal(t, "canceled", rec.Outcome)
					default:
						if name == "in a wait" { // no second one is begun that the deadline would cut
							require.ErrorIs(t, err, streamguard.ErrIncomplete)
							return
						}
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					assert.Equal(t, breaker.Closed, r.tr.Breakers()[0].State)
				})
			})
		}
	}
}

// While the stream is held back, it is resumed before anything else is done
// about it: no attempt follows, and the time limits of the call hold.
func TestAStreamThatIsHeldBackIsResumed(t *testing.T) {
	t.Parallel()
	for _, hold := range []string{streamguard.HoldFirstContent, streamguard.HoldComplete} {
		p := resuming()
		p.Stream.HoldUntil, p.Retry.Streams = hold, "held_back"
		p.Timeout = time.Second
		withResumer(t, "interactions", p, func(t *testing.T, r *resumer) {
			r.up.Next(r.cut(1))
			r.up.Rests(upstreamtest.Rest().CutAfter(1).Reset(), upstreamtest.Rest())
			got, err := r.do(t, t.Context())
			require.NoError(t, err)
			assert.Equal(t, r.whole(), got)
			assert.Len(t, r.calls.last(t).Attempts, 1)
			assert.Equal(t, 2, r.calls.last(t).Resumes)

			r.up.Next(r.cut(1), r.stream())
			r.up.Rests(upstreamtest.Status(404))
			got, err = r.do(t, t.Context())
			require.NoError(t, err, "then the call is made anew")
			assert.Equal(t, r.whole(), got)
			assert.Len(t, r.calls.last(t).Attempts, 2)

			r.up.Next(r.cut(1))
			r.up.Rests(upstreamtest.Silence())
			p.Stream.IdleTimeout = 0
			slow := newResumer(t, "interactions", r.up, r.up.RoundTripper(), p)
			start := time.Now()
			_, err = slow.do(t, t.Context())
			assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
			assert.Equal(t, time.Second, time.Since(start))
		})
	}
}

// A reconnect is an attempt, and first_event_timeout is for its first new event.
func TestTheTimeLimitsOfAReconnect(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*resilience.Policy){
		"attempt_timeout":     func(p *resilience.Policy) { p.Retry.AttemptTimeout = 3 * time.Second },
		"first_event_timeout": func(p *resilience.Policy) { p.Stream.FirstEventTimeout = 3 * time.Second },
		"event_timeout":       func(p *resilience.Policy) { p.Stream.EventTimeout = 3 * time.Second },
	} {
		p := resuming()
		p.Stream.IdleTimeout = time.Hour
		change(&p)
		withResumer(t, "responses", p, func(t *testing.T, r *resumer) {
			r.up.Next(r.cut(3))
			r.up.Rests(upstreamtest.Rest().At(0, upstreamtest.Pings(time.Second, -1)))
			start := time.Now()
			_, err := r.do(t, t.Context())
			require.ErrorIs(t, err, streamguard.ErrIncomplete, name)
			assert.Equal(t, 3*time.Second, time.Since(start), name)
			assert.Equal(t, "timeout", r.calls.last(t).NoResume, name)
		})
	}
}

// Silence, too, while the stream is held back.
func TestAStallOfAHeldStreamSaysWhere(t *testing.T) {
	t.Parallel()
	p := resuming()
	p.Stream.Resume, p.Stream.HoldUntil = streamguard.ResumeOff, streamguard.HoldComplete
	withResumer(t, "responses", p, func(t *testing.T, r *resumer) {
		r.up.Next(r.stream().CutAfter(3).Stall())
		_, err := r.do(t, t.Context())
		inc, ok := errors.AsType[*streamguard.IncompleteError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, &streamguard.Resume{ID: "resp_1", Sequence: 2}, inc.Resume)
		assert.Equal(t, http.StatusGatewayTimeout, resilience.StatusOf(err))
		assert.Equal(t, "timeout", r.calls.last(t).Outcome)
	})
}

// Off, the error says what a caller needs, through every layer.
func TestACallerResumesByHimself(t *testing.T) {
	t.Parallel()
	p := resuming()
	p.Stream.Resume = ""
	for format, want := range map[string]streamguard.Resume{
		"responses": {ID: "resp_1", Sequence: 2}, "interactions": {ID: "v1_1", EventID: "e2"},
	} {
		for _, hold := range []string{"", streamguard.HoldComplete} {
			p.Stream.HoldUntil = hold
			withResumer(t, format, p, func(t *testing.T, r *resumer) {
				r.up.Next(r.cut(3))
				_, err := r.do(t, t.Context())
				inc, ok := errors.AsType[*streamguard.IncompleteError](err)
				require.True(t, ok, "%v", err)
				require.NotNil(t, inc.Resume)
				assert.Equal(t, want, *inc.Resume)
				assert.Equal(t, 1, r.up.Count())
				assert.Empty(t, r.resumes())

				// A stream that the caller reads again himself is resumed, too.
				on := newResumer(t, format, r.up, r.up.RoundTripper(), resuming())
				r.up.Rests(upstreamtest.Rest().CutAfter(1).Reset(), upstreamtest.Rest())
				query := fmt.Sprintf("?stream=true&starting_after=%d", want.Sequence)
				if want.EventID != "" {
					query = "?stream=true&last_event_id=" + want.EventID
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.up.URL+keptStreams[format].path+"/"+want.ID+query, nil)
				require.NoError(t, err)
				resp, err := on.tr.RoundTrip(req)
				require.NoError(t, err)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, err)
				assert.Equal(t, r.text(3, 5), string(b))
				assert.Equal(t, 1, on.calls.last(t).Resumes)
			})
		}
	}
}
