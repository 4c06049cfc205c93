package streamguard_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	sg "github.com/surefoot-go/surefoot/streamguard"
)

// every returns parts, each of which comes so long after the one before.
func every(d time.Duration, n int, data string) []part {
	var ps []part
	for range n {
		ps = append(ps, part{wait: d, data: data})
	}
	return ps
}

// atPace is a policy with a least rate of bytes a second over 20 s.
func atPace(rate int) sg.Policy { return sg.Policy{MinRate: rate} }

func TestSlowStreams(t *testing.T) {
	ends := whole(F("stop"), DONE)
	ping := ": " + strings.Repeat("still here ", 20) + "\n\n"
	for name, c := range map[string]struct {
		rate  int
		parts []part
		after time.Duration // 0: it is whole
	}{
		"a byte a second":                 {8, every(time.Second, 60, C("x")), 21 * time.Second},
		"a byte in seven seconds":         {8, every(7*time.Second, 60, C("x")), 28 * time.Second},
		"framing is no content":           {50, every(time.Second, 60, C("x")), 21 * time.Second},
		"nor are comments":                {8, interleave(every(500*time.Millisecond, 60, ping), every(500*time.Millisecond, 60, C("x"))), 21 * time.Second},
		"every event as the one before":   {8, every(time.Second, 60, C("y")), 21 * time.Second},
		"fast at first":                   {8, append(every(10*time.Millisecond, 50, C("twenty bytes of text")), every(time.Second, 100, C("x"))...), 42 * time.Second},
		"as fast as it must be":           {8, append(every(time.Second, 60, C("12345678")), ends...), 0},
		"off":                             {0, append(every(time.Second, 60, C("x")), ends...), 0},
		"first content late":              {8, append(every(90*time.Second, 1, C("x")), ends...), 0},
		"a pause of a window":             {8, append(append(every(time.Second, 3, C("12345678")), every(5*time.Minute, 1, C("x"))...), ends...), 0},
		"a short pause":                   {8, append(append(every(100*time.Millisecond, 30, C("12345678")), append(every(15*time.Second, 1, C("x")), every(100*time.Millisecond, 200, C("12345678"))...)...), ends...), 0},
		"silence is for the idle timeout": {8, append(every(19*time.Minute, 4, C("x")), ends...), 0},
		"pings in a pause":                {8, append(append(every(time.Second, 2, C("x")), every(time.Second, 120, ping)...), append(every(time.Second, 1, C("x")), ends...)...), 0},
		"slow, and over at once":          {8, append(every(time.Second, 19, C("x")), ends...), 0},
		"reasoning is content":            {8, append(every(time.Second, 60, data(`{"choices":[{"index":0,"delta":{"reasoning_content":"thinking"}}]}`)), ends...), 0},
		"arguments are content":           {8, append(every(time.Second, 60, data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":12}"}}]}}]}`)), ends...), 0},
		"an event too large to hold":      {8, append(every(time.Second, 25, C(strings.Repeat("x", 70<<10))), ends...), 0},
	} {
		for _, hold := range []string{sg.HoldFirstEvent, sg.HoldComplete} {
			t.Run(name+"/"+hold, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := atPace(c.rate)
					p.HoldUntil, p.HoldLimit = hold, 64<<20
					start := time.Now()
					r := stack(sse(slices.Clone(c.parts)...), p)
					resp, _, err := r.readAll(t, streamCall(t, chatPath))
					if c.after == 0 {
						require.NoError(t, err)
						require.Equal(t, http.StatusOK, resp.StatusCode)
						return
					}
					var timeout *ending.TimeoutError
					require.ErrorAs(t, err, &timeout)
					assert.Equal(t, "min_rate", timeout.What)
					assert.Equal(t, c.after, time.Since(start).Round(time.Second))
					var inc *sg.IncompleteError
					if hold == sg.HoldComplete { // the attempt fails, as by any time limit
						require.NotErrorAs(t, err, &inc)
						return
					}
					require.ErrorAs(t, err, &inc)
					assert.Equal(t, sg.ReasonMinRate, inc.Reason)
					assert.Equal(t, http.StatusGatewayTimeout, inc.Status)
					assert.True(t, inc.Timeout())
				})
			})
		}
	}
}

// interleave takes from a and b in turn.
func interleave(a, b []part) []part {
	var ps []part
	for i := range a {
		ps = append(ps, a[i], b[i])
	}
	return ps
}

// A reader who takes his time makes no stream slow.
func TestASlowReaderIsNoSlowStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stack(sse(append(every(0, 200, C("x")), whole(F("stop"), DONE)...)...), atPace(8))
		resp, err := r.guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		p := make([]byte, 100)
		for err == nil {
			time.Sleep(time.Second)
			_, err = resp.Body.Read(p)
		}
		require.NoError(t, resp.Body.Close())
		require.EqualError(t, err, "EOF")
		assert.True(t, r.end(t).Complete)
	})
}

// The recorded streams, at twenty events a second, are never too slow for two
// bytes a second, however short the window.
func TestRecordedStreamsAreNotSlow(t *testing.T) {
	paths := map[string]string{
		"chat": chatPath, "messages": messagesPath, "responses": responsesPath, "cohere": coherePath, "gemini": geminiPath,
	}
	for format, path := range paths {
		files, err := filepath.Glob("wire/testdata/" + format + "/*.sse")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			body, err := os.ReadFile(file)
			require.NoError(t, err)
			t.Run(fmt.Sprint(format, "/", filepath.Base(file)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var ps []part
					for _, ev := range strings.SplitAfter(string(body), "\n\n") {
						ps = append(ps, part{wait: 50 * time.Millisecond, data: ev})
					}
					p := atPace(2)
					p.RateWindow = 200 * time.Millisecond
					_, _, err := stack(sse(ps...), p).readAll(t, streamCall(t, path))
					var timeout *ending.TimeoutError
					require.NotErrorAs(t, err, &timeout)
				})
			})
		}
	}
}
