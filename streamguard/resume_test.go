package streamguard_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
)

// Wherever a stream is cut, the caller has every byte of it once, in both
// formats and with every line end. A cut in what follows the event that ends the
// answer takes nothing from it (contract 6).
func TestAStreamCutAnywhereIsWhole(t *testing.T) {
	t.Parallel()
	for name, keep := range keepers {
		for eolName, eol := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
			for endName, end := range map[string]error{"FIN": io.EOF, "reset": errReset} {
				for _, hold := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
					if hold != "" && eol != "\r\n" || end != io.EOF && eol != "\n" {
						continue
					}
					t.Run(strings.Join([]string{name, eolName, endName, hold}, " "), func(t *testing.T) {
						t.Parallel()
						whole := keep(eol).whole()
						first := len(keep(eol).events[0])
						for cut := first; cut < len(whole); cut++ {
							k := keep(eol)
							k.cuts, k.end = []int{cut}, end
							p := resumeOn
							p.HoldUntil = hold
							got, err := k.read(t, p, cut%7 == 0)
							require.NoError(t, err, "cut at %d", cut)
							if got != whole {
								require.Equal(t, whole[:cut], got, "cut at %d", cut)
								require.GreaterOrEqual(t, cut, len(whole)-1, "cut at %d", cut)
							}
							require.LessOrEqual(t, len(k.asks), 2)
						}
					})
				}
			}
		}
	}
}

// The request for the rest goes to the same place with the same credentials, and
// has nothing of the body that there is no more.
func TestWhatTheRestIsAskedWith(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"responses":    "https://api.example.com/v1/responses/resp_1?api-version=preview&stream=true&starting_after=3",
		"interactions": "https://api.example.com/v1beta/interactions/v1_x?alt=sse&key=k&stream=true&last_event_id=evt%2F3%2B%3D",
	} {
		k := keepers[name]("\n")
		k.cuts, k.end = []int{len(strings.Join(k.events[:4], "")) + 9}, errReset
		_, err := k.read(t, resumeOn, false)
		require.NoError(t, err, name)
		require.Len(t, k.asks, 2, name)
		ask := k.asks[1]
		assert.Equal(t, http.MethodGet, ask.Method, name)
		assert.Equal(t, want, ask.URL.String(), name)
		assert.Nil(t, ask.Body, name)
		assert.Zero(t, ask.ContentLength, name)
		assert.Equal(t, http.Header{"Authorization": {"Bearer x"}, "Accept": {"text/event-stream"}, "X-Own": {"y"}}, ask.Header, name)
	}
}

// What the stream was to include is asked for again: the rest would lack it.
func TestTheRestIncludesWhatTheStreamDid(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`,"include":["message.output_text.logprobs","a b"]`:               "&include%5B%5D=message.output_text.logprobs&include%5B%5D=a+b",
		`,"stream_options":{"include_obfuscation":false},"include":["x"]`: "&include%5B%5D=x&include_obfuscation=false",
		`,"stream_options":{"include_obfuscation":true},"include":null`:   "",
		`,"include":["` + strings.Repeat("x", 2000) + `"]`:                "",
	} {
		k := responsesKeeper("\n")
		k.background = strings.TrimSuffix(k.background, "}") + body + "}"
		k.cuts, k.end = []int{len(strings.Join(k.events[:5], ""))}, errReset
		_, err := k.read(t, resumeOn, false)
		require.NoError(t, err, body)
		assert.Equal(t, "api-version=preview&stream=true&starting_after=4"+want, k.asks[1].URL.RawQuery, body)
	}
}

// Each answer may break off again, as long as each brings something new.
func TestASecondAndAThirdCut(t *testing.T) {
	t.Parallel()
	for name, keep := range keepers {
		size := len(keep("\n").events[3])
		for a := range size {
			k := keep("\r\n")
			n := len(k.events[0]) + len(k.events[1]) + len(k.events[2])
			k.cuts, k.end = []int{n + a, size + 20 + a, size + 30, size + 40}, errReset
			got, err := k.read(t, resumeOn, false)
			require.NoError(t, err, "%s %d", name, a)
			require.Equal(t, k.whole(), got, "%s %d", name, a)
			require.Greater(t, len(k.asks), 3)
		}
	}
}

// An answer that is not the rest ends the stream as if it had not been asked for.
func TestWhatIsNotTheRest(t *testing.T) {
	t.Parallel()
	for format, keep := range keepers {
		for name, c := range map[string]struct {
			change func(k *keeper)
			asks   int
		}{
			"a gap": {func(k *keeper) {
				if k.from = -1; format == "interactions" {
					k.rest = k.events[0] // its names have no order: what shows is an answer that begins anew
				}
			}, 2},
			"an older event":         {func(k *keeper) { k.from = 1 }, 2},
			"much older":             {func(k *keeper) { k.from = 2 }, 2},
			"404":                    {func(k *keeper) { k.status, k.rest = 404, `{"error":{"message":"gone"}}` }, 2},
			"400":                    {func(k *keeper) { k.status, k.rest = 400, `{"error":{"message":"no"}}` }, 2},
			"JSON":                   {func(k *keeper) { k.label, k.rest = "application/json", `{"id":"resp_1","status":"completed"}` }, 2},
			"nothing":                {func(k *keeper) { k.rest = ": ok\n\n" }, 2},
			"an error of its own":    {func(k *keeper) { k.rest = "event: error\ndata: {\"error\":{\"code\":\"expired\"}}\n\n" }, 2},
			"an event without place": {func(k *keeper) { k.rest = "data: {\"type\":\"response.x\",\"event_type\":\"content.x\"}\n\n" }, 2},
			"cut before an event":    {func(k *keeper) { k.cuts = append(k.cuts, 20) }, 2},
			"encoded":                {func(k *keeper) { k.rest = "\x1f\x8b\x08\x00" }, 2},
		} {
			k := keep("\n")
			whole := strings.Join(k.events[:5], "")
			k.cuts, k.end = []int{len(whole) + 9}, io.EOF
			c.change(k)
			got, err := k.read(t, resumeOn, false)
			var inc *sg.IncompleteError
			require.ErrorAs(t, err, &inc, "%s: %s", format, name)
			assert.Equal(t, sg.ReasonClosed, inc.Reason, name)
			require.NotNil(t, inc.Resume, name)
			assert.Contains(t, []sg.Resume{{ID: "resp_1", Sequence: 4}, {ID: "v1_x", EventID: "evt/4+="}}, *inc.Resume)
			require.True(t, strings.HasPrefix(got, whole), "%s: %s", format, name)
			assert.Equal(t, 1, strings.Count(got[len(whole):], "data: "), "%s: %s: %q", format, name, got[len(whole):])
			assert.Len(t, k.asks, c.asks, name)
		}
	}
}

// What says again that the answer lives, and comments, stay away from the caller.
func TestARepeatedLifeSignIsDropped(t *testing.T) {
	t.Parallel()
	for name, keep := range keepers {
		for _, lead := range []string{
			": keep-alive\n\n",
			"\xef\xbb\xbf",
			"data: ping\n\n",
			"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n",
			keep("\n").events[0] + keep("\n").events[1],
			strings.Replace(keep("\n").events[1], `"sequence_number":1,`, "", 1),
			strings.Replace(keep("\n").events[1], `"sequence_number":1`, `"sequence_number":5`, 1),
			strings.Replace(keep("\n").events[0], `"object"`, `"instructions":"`+strings.Repeat("x", 200<<10)+`","object"`, 1),
		} {
			k := keep("\n")
			k.cuts, k.end, k.lead = []int{len(strings.Join(k.events[:5], "")) + 9}, io.EOF, lead
			got, err := k.read(t, resumeOn, false)
			require.NoError(t, err, "%s: %.80q", name, lead)
			assert.Equal(t, k.whole(), got, "%s: %.80q", name, lead)
		}
	}
}

// An event that is too large to hold goes by in pieces: cut in it, the stream
// goes on where the same bytes come again, and there alone. A large event that
// comes first has to say early which one it is.
func TestALargeEventAtTheCut(t *testing.T) {
	t.Parallel()
	large := func(numberFirst bool) *keeper {
		k := responsesKeeper("\r\n")
		image := `,"partial_image_b64":"` + strings.Repeat("A0+/", 50<<10) + `"`
		data := `{"type":"response.image_generation_call.partial_image"` + image + `,"sequence_number":4}`
		if numberFirst {
			data = `{"type":"response.image_generation_call.partial_image","sequence_number":4` + image + `}`
		}
		k.events[4] = "event: response.image_generation_call.partial_image\r\ndata: " + data + "\r\n\r\n"
		return k
	}
	before := len(strings.Join(large(true).events[:4], ""))
	size := len(large(true).events[4])
	for _, numberFirst := range []bool{true, false} {
		for _, hold := range []string{"", sg.HoldComplete} {
			for _, at := range []int{70<<10 + 1, 100 << 10, size - 60, size - 4, size - 3, size - 2, size - 1} {
				for _, again := range [][]int{nil, {80 << 10}, {150 << 10, 190 << 10}, {size}} {
					k := large(numberFirst)
					k.cuts, k.end = append([]int{before + at}, again...), errReset
					p := resumeOn
					p.HoldUntil = hold
					got, err := k.read(t, p, false)
					if len(again) > 0 && again[0] <= at && at < size-1 { // nothing new in it
						var inc *sg.IncompleteError
						require.ErrorAs(t, err, &inc, "%v %q %d", numberFirst, hold, at)
						continue
					}
					require.NoError(t, err, "%v %q %d %d", numberFirst, hold, at, again)
					require.True(t, k.whole() == got, "%v %q %d %d", numberFirst, hold, at, again)
				}
			}
		}
	}

	k := large(true)
	k.cuts, k.end = []int{before + 100<<10}, errReset
	k.rest = strings.Replace(strings.Join(k.events[4:], ""), "A0+/", "B0+/", 1)
	got, err := k.read(t, resumeOn, false)
	require.ErrorIs(t, err, sg.ErrIncomplete)
	assert.NotContains(t, got, "B0+/")

	for numberFirst, whole := range map[bool]bool{true: true, false: false} {
		k := large(numberFirst)
		k.cuts, k.end = []int{before + 100}, errReset
		got, err := k.read(t, resumeOn, false)
		assert.Equal(t, whole, err == nil, "%v %v", numberFirst, err)
		assert.Equal(t, whole, got == k.whole(), "%v", numberFirst)
	}
}

// The same few bytes of a large event, again and again, are nothing new.
func TestALargeEventThatNeverGrows(t *testing.T) {
	t.Parallel()
	k := responsesKeeper("\n")
	k.events[4] = `data: {"type":"response.x","sequence_number":4,"partial_image_b64":"` + strings.Repeat("A", 200<<10) + "\"}\n\n"
	before := len(strings.Join(k.events[:4], ""))
	k.end = errReset
	for i := range 9 {
		k.cuts = append(k.cuts, 70<<10+i)
	}
	k.cuts[0] += before - 3
	_, err := k.read(t, resumeOn, false)
	require.ErrorIs(t, err, sg.ErrIncomplete)
	assert.Len(t, k.asks, 4)
}

// Off, and for a stream that nobody keeps, nothing is asked for; the error says
// where the stream broke off for those that are kept.
func TestWhereTheStreamBrokeOffIsSaidAnyway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep   *keeper
		change func(*keeper)
		policy sg.Policy
		want   *sg.Resume
	}{
		"off":               {responsesKeeper("\n"), nil, sg.Policy{}, &sg.Resume{ID: "resp_1", Sequence: 4}},
		"off, interactions": {interactionsKeeper("\n"), nil, sg.Policy{Resume: sg.ResumeOff}, &sg.Resume{ID: "v1_x", EventID: "evt/4+="}},
		"off, held back":    {responsesKeeper("\n"), nil, sg.Policy{HoldUntil: sg.HoldComplete}, &sg.Resume{ID: "resp_1", Sequence: 4}},
		"no background": {responsesKeeper("\n"), func(k *keeper) {
			k.background = `{"model":"m","stream":true,"background":false}`
		}, resumeOn, nil},
		"no numbers": {responsesKeeper("\n"), func(k *keeper) {
			for i, e := range k.events {
				k.events[i] = strings.Replace(e, `"sequence_number"`, `"n"`, 1)
			}
		}, resumeOn, nil},
		"the last event has no name": {interactionsKeeper("\n"), func(k *keeper) {
			k.events[4] = strings.Replace(k.events[4], `"event_id"`, `"n"`, 1)
		}, resumeOn, nil},
		"a name that is a path": {responsesKeeper("\n"), func(k *keeper) {
			k.events[0] = strings.Replace(k.events[0], "resp_1", "../resp_1", 1)
			k.events[1] = strings.Replace(k.events[1], "resp_1", "..", 1)
		}, resumeOn, nil},
		"a malformed event": {responsesKeeper("\n"), func(k *keeper) {
			k.events[5] = strings.Replace(k.events[5], "那", `"那`, 1)
			k.cuts = nil
		}, resumeOn, &sg.Resume{ID: "resp_1", Sequence: 4}},
		"a failure of its own": {responsesKeeper("\n"), func(k *keeper) {
			k.events[4] = "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"sequence_number\":4}\n\n"
		}, resumeOn, nil},
	} {
		k := c.keep
		k.cuts, k.end = []int{len(strings.Join(k.events[:5], "")) + 9}, io.EOF
		if c.change != nil {
			c.change(k)
		}
		if k.cuts != nil {
			k.cuts[0] = len(strings.Join(k.events[:5], "")) + 9
		}
		_, err := k.read(t, c.policy, false)
		var inc *sg.IncompleteError
		require.ErrorAs(t, err, &inc, name)
		assert.Equal(t, c.want, inc.Resume, name)
		assert.Len(t, k.asks, 1, name)
	}
}

// Silence is a break, too: of the idle timeout and of the event timeout.
func TestAStallIsABreak(t *testing.T) {
	t.Parallel()
	for name, keep := range keepers {
		for _, p := range []sg.Policy{{IdleTimeout: time.Minute}, {EventTimeout: time.Minute}, {IdleTimeout: time.Minute, HoldUntil: sg.HoldComplete}} {
			synctest.Test(t, func(t *testing.T) {
				k := keep("\n")
				k.cuts, k.hang = []int{len(strings.Join(k.events[:5], "")) + 9}, true
				p.Resume = sg.ResumeOn
				start := time.Now()
				got, err := k.read(t, p, false)
				require.NoError(t, err, name)
				assert.Equal(t, k.whole(), got, name)
				assert.Equal(t, time.Minute, time.Since(start), name)
			})
		}
	}
}

// A reconnect that falls silent before the next event is given up: after
// first_event_timeout or event_timeout, else after the idle timeout.
func TestAReconnectThatSaysNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy sg.Policy
		sent   int
		want   time.Duration
	}{
		"first event":         {sg.Policy{FirstEventTimeout: 5 * time.Second}, 0, 5 * time.Second},
		"first event, half":   {sg.Policy{FirstEventTimeout: 5 * time.Second, IdleTimeout: time.Minute}, 20, 5 * time.Second},
		"event":               {sg.Policy{EventTimeout: 5 * time.Second, FirstEventTimeout: time.Minute}, 0, 5 * time.Second},
		"idle":                {sg.Policy{IdleTimeout: time.Minute}, 0, time.Minute},
		"idle, behind a byte": {sg.Policy{IdleTimeout: time.Minute}, 20, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := responsesKeeper("\n")
			whole := strings.Join(k.events[:5], "")
			k.cuts, k.hang = []int{len(whole) + 9, c.sent}, true
			rt := roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := k.RoundTrip(r)
				if r.Method == http.MethodPost {
					k.open[0].parts[1] = part{err: errReset}
				}
				return resp, err
			})
			c.policy.Resume = sg.ResumeOn
			r := stack(rt, c.policy)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x"+k.post, strings.NewReader(k.background))
			require.NoError(t, err)
			resp, err := r.guard.RoundTrip(req)
			require.NoError(t, err, name)
			start := time.Now()
			b, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, errReset, name)
			assert.Equal(t, c.want, time.Since(start), name)
			assert.True(t, bytes.HasPrefix(b, []byte(whole)), name)
			require.NoError(t, resp.Body.Close())
			assert.True(t, k.open[1].isClosed(), name)
		})
	}
}

// A vendor that takes no notice of where the stream broke off, and sends the same
// again and again, is told from one that goes on.
func TestTheSameAgainAndAgain(t *testing.T) {
	t.Parallel()
	for name, keep := range keepers {
		for n := 1; n <= 40; n++ {
			k := keep("\n")
			before := strings.Join(k.events[:5], "")
			k.cuts, k.end = []int{len(before) + 9}, io.EOF
			for i := range n {
				k.rest += fmt.Sprintf("data: {\"type\":\"response.x\",\"event_type\":\"content.x\",\"sequence_number\":%d,\"event_id\":\"new%d\"}\n\n", 5+i, i)
			}
			got, err := k.read(t, resumeOn, false)
			require.ErrorIs(t, err, sg.ErrIncomplete, "%s %d", name, n)
			require.True(t, strings.HasPrefix(got, before+k.rest), "%s %d", name, n)
			require.Equal(t, 1, strings.Count(got, `"new0"`), "%s %d", name, n)
			require.Len(t, k.asks, 3, "%s %d", name, n)
		}
	}
}

// An answer whose first event is too large to hold, for what it was told to do,
// says what it is called, too. Cut in that event, it has not said it yet.
func TestALargeFirstEvent(t *testing.T) {
	t.Parallel()
	for _, hold := range []string{"", sg.HoldFirstContent, sg.HoldComplete} {
		for n, asks := range map[int]int{0: 1, 1: 2, 4: 2} {
			k := responsesKeeper("\n")
			k.events[0] = strings.Replace(k.events[0], `"object"`, `"instructions":"`+strings.Repeat("那", 100<<10)+`","object"`, 1)
			k.cuts, k.end = []int{len(strings.Join(k.events[:n], "")) + 9}, io.EOF
			if n == 0 {
				k.cuts[0] = 90 << 10
			}
			p := resumeOn
			p.HoldUntil = hold
			got, err := k.read(t, p, false)
			assert.Len(t, k.asks, asks, "%q %d", hold, n)
			if asks == 1 {
				if hold == sg.HoldComplete { // no event came: a 502
					assert.Contains(t, got, "empty stream")
					continue
				}
				require.Error(t, err, "%q %d", hold, n)
				continue
			}
			require.NoError(t, err, "%q %d", hold, n)
			assert.True(t, got == k.whole(), "%q %d", hold, n)
		}
	}
}

// A transport that panics while the rest is looked for panics through Read, and
// what had been begun is ended.
func TestAPanicInAReconnect(t *testing.T) {
	t.Parallel()
	k := responsesKeeper("\n")
	k.cuts, k.end = []int{len(strings.Join(k.events[:5], ""))}, io.EOF
	var asked context.Context
	rt := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			asked = r.Context()
			panic("base")
		}
		return k.RoundTrip(r)
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x"+k.post, strings.NewReader(k.background))
	require.NoError(t, err)
	resp, err := stack(rt, resumeOn).guard.RoundTrip(req)
	require.NoError(t, err)
	require.PanicsWithValue(t, "base", func() { _, _ = io.ReadAll(resp.Body) })
	require.Error(t, asked.Err())
	require.NoError(t, resp.Body.Close())
}
