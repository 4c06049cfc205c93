package main_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/faults"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// The official SDKs: name, and one call with so many retries of the SDK's own
// (negative: as many as it makes by default).
type official struct {
	name   string
	call   func(ctx context.Context, hc *http.Client, url string, retries int, stream bool) (string, error)
	status func(error) int
	code   func(error) string
}

func retriesOf(n int) []option.RequestOption {
	if n < 0 {
		n = 2 // the SDK's default
	}
	return []option.RequestOption{option.WithMaxRetries(n)}
}

func officials() []official {
	openaiStatus := func(err error) int {
		var e *openai.Error
		if errors.As(err, &e) {
			return e.StatusCode
		}
		return 0
	}
	openaiCode := func(err error) string {
		var e *openai.Error
		if errors.As(err, &e) {
			return e.Code
		}
		return ""
	}
	return []official{
		{"chat", callChat, openaiStatus, openaiCode},
		{"responses", callResponses, openaiStatus, openaiCode},
		{"messages", callMessages, func(err error) int {
			var e *anthropic.Error
			if errors.As(err, &e) {
				return e.StatusCode
			}
			return 0
		}, func(err error) string {
			var e *anthropic.Error
			if errors.As(err, &e) {
				return e.RawJSON()
			}
			return ""
		}},
	}
}

func callChat(ctx context.Context, hc *http.Client, url string, retries int, stream bool) (string, error) {
	c := sdks.OpenAI(hc, url, retriesOf(retries)...)
	if stream {
		return sdks.ReadChat(ctx, c, sdks.Model)
	}
	return sdks.Chat(ctx, c, sdks.Model)
}

func callResponses(ctx context.Context, hc *http.Client, url string, retries int, stream bool) (string, error) {
	c := sdks.OpenAI(hc, url, retriesOf(retries)...)
	if stream {
		return sdks.ReadResponses(ctx, c)
	}
	return sdks.Response(ctx, c)
}

func callMessages(ctx context.Context, hc *http.Client, url string, retries int, stream bool) (string, error) {
	if retries < 0 {
		retries = 2
	}
	c := sdks.Anthropic(hc, url, anthropicoption.WithMaxRetries(retries))
	if stream {
		return sdks.ReadMessages(ctx, c)
	}
	return sdks.Message(ctx, c, sdks.Model)
}

func each(t *testing.T, test func(t *testing.T, o official)) {
	for _, o := range officials() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
}

var (
	deltas = []string{"Grüße", " und ", "漢字 🙂", " done"}
	said   = strings.Join(deltas, "")
	answer = upstreamtest.OK(deltas...)
)

// What the provider sends, the SDK is handed, byte for byte.
func TestWholeStreamsPassUnchanged(t *testing.T) {
	steps := map[string]upstreamtest.Step{
		"plain":        answer,
		"CRLF":         answer.LineEnds(upstreamtest.CRLF),
		"mixed":        answer.LineEnds(upstreamtest.Mixed),
		"byte by byte": answer.WriteSize(1),
		"keep-alives":  answer.At(0, upstreamtest.Pings(time.Millisecond, 3)).At(2, upstreamtest.Pings(time.Millisecond, 3)),
		"gzip":         answer.Gzip(),
		"length":       answer.Finish("length"),
	}
	each(t, func(t *testing.T, o official) {
		for name, step := range steps {
			t.Run(name, func(t *testing.T) {
				if name == "length" && o.name == "messages" {
					step = answer.Finish("max_tokens")
				}
				if name == "length" && o.name == "responses" {
					step = answer.Finish("completed")
				}
				r := newRig(t, faults.Policy(), resilience.Builder{})
				r.up.Default(step)
				text, err := o.call(t.Context(), r.client, r.up.URL, 0, true)
				require.NoError(t, err)
				assert.Equal(t, said, text)
				want := sent(t, r.up, step)
				got := r.above.String()
				// openai-go stops reading at [DONE]: what follows is white space.
				assert.Empty(t, strings.TrimSpace(strings.TrimPrefix(want, got)), "the end of the stream is missing")
				assert.True(t, strings.HasPrefix(want, got), "the SDK was sent other bytes:\n%q\nwant\n%q", got, want)
				assert.True(t, strings.HasPrefix(r.below.String(), got))
				assert.Equal(t, 1, r.up.Count())
			})
		}
	})
}

// What is not streamed passes as well.
func TestWholeAnswersPassUnchanged(t *testing.T) {
	each(t, func(t *testing.T, o official) {
		r := newRig(t, faults.Policy(), resilience.Builder{})
		r.up.Default(answer)
		text, err := o.call(t.Context(), r.client, r.up.URL, 0, false)
		require.NoError(t, err)
		assert.Equal(t, said, text)
		assert.Equal(t, sent(t, r.up, answer), r.above.String())
	})
}

// Streams that break off give an error in the SDK, after all that was said.
func TestCutStreamsGiveAnError(t *testing.T) {
	cut := answer.CutAfterText(2)
	steps := map[string]upstreamtest.Step{
		"closed at a boundary":   cut,
		"closed inside a line":   cut.InsideLine(),
		"connection lost":        cut.FIN(),
		"lost inside a line":     cut.InsideLine().FIN(),
		"reset":                  cut.At(-1, upstreamtest.Wait(30*time.Millisecond)).Reset(),
		"silent":                 cut.Stall(),
		"silent inside a line":   cut.InsideLine().Stall(),
		"malformed event":        cut.At(-1, upstreamtest.Malformed()),
		"closed, CRLF":           cut.LineEnds(upstreamtest.CRLF),
		"inside a line, mixed":   cut.LineEnds(upstreamtest.Mixed).InsideLine(),
		"error event in between": cut.At(-1, upstreamtest.ErrorEvent(http.StatusServiceUnavailable)),
	}
	each(t, func(t *testing.T, o official) {
		for name, step := range steps {
			t.Run(name, func(t *testing.T) {
				calls := make(chan resilience.Call, 10)
				r := newRig(t, faults.Policy(), resilience.Builder{OnCall: func(_ context.Context, c resilience.Call) { calls <- c }})
				r.up.Default(step)
				text, err := o.call(t.Context(), r.client, r.up.URL, -1, true)
				require.Error(t, err, "%q was taken for an answer", text)
				assert.Equal(t, strings.Join(deltas[:2], ""), text, "all that was said arrives")
				assert.Equal(t, 1, r.up.Count(), "nobody sends it twice")
				assert.Equal(t, resilience.OutcomeStreamError, (<-calls).Outcome)
				if o.name == "messages" {
					var e *anthropic.Error
					require.ErrorAs(t, err, &e)
				} else {
					var e *ssestream.StreamError
					require.ErrorAs(t, err, &e)
				}
			})
		}
	})
}

// A failure that a 200 hides carries its status into the SDK's own error type.
func TestHiddenErrorsCarryTheirStatus(t *testing.T) {
	each(t, func(t *testing.T, o official) {
		for _, shape := range []upstreamtest.Shape{upstreamtest.HiddenCode, upstreamtest.HiddenStringCode, upstreamtest.HiddenWord,
			upstreamtest.HiddenTyped, upstreamtest.HiddenArray, upstreamtest.HiddenEvents} {
			for _, stream := range []bool{false, true} {
				t.Run(string(shape)+map[bool]string{true: " stream"}[stream], func(t *testing.T) {
					r := newRig(t, faults.Policy(), resilience.Builder{})
					r.up.Default(upstreamtest.Hidden(shape, http.StatusTooManyRequests))
					text, err := o.call(t.Context(), r.client, r.up.URL, 0, stream)
					require.Error(t, err)
					assert.Empty(t, text)
					assert.Equal(t, http.StatusTooManyRequests, o.status(err), "%v", err)
				})
			}
		}
		t.Run("no status", func(t *testing.T) {
			for _, step := range []upstreamtest.Step{upstreamtest.HTML(), upstreamtest.Empty(), upstreamtest.Hidden(upstreamtest.HiddenText, 429)} {
				r := newRig(t, faults.Policy(), resilience.Builder{})
				r.up.Default(step)
				_, err := o.call(t.Context(), r.client, r.up.URL, 0, false)
				assert.Equal(t, http.StatusBadGateway, o.status(err), "%v", err)
			}
		})
		t.Run("first event", func(t *testing.T) {
			r := newRig(t, faults.Policy(), resilience.Builder{})
			r.up.Default(answer.FailAfter(0, http.StatusTooManyRequests))
			_, err := o.call(t.Context(), r.client, r.up.URL, 0, true)
			assert.Equal(t, http.StatusTooManyRequests, o.status(err), "%v", err)
		})
	})
}
