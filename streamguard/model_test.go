package streamguard_test

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
)

// The model is a guard that has the whole chat stream in hand and takes its
// time: it splits by strings, parses by encoding/json, and holds nothing back
// for lack of bytes. The real one must agree with it on every stream, however
// it is cut and segmented.
type model struct {
	mode  string
	strip bool

	seen, done, failed, content bool
	reasons                     map[int]bool // by choice index: finished
	status                      int          // of a failure
}

// An outcome is what a caller sees.
type outcome struct {
	status int    // of a response that is no stream
	err    error  // instead of a response
	out    string // of a stream, without an appended event
	broken bool   // an event is appended, Read fails
	failed bool   // reported in-band
}

var errReset = errors.New("reset")

type modelChunk struct {
	Choices []struct {
		Index  int            `json:"index"`
		Delta  map[string]any `json:"delta"`
		Finish *string        `json:"finish_reason"`
	} `json:"choices"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

func (m *model) complete() bool {
	if m.done && m.seen {
		return true
	}
	return m.finished()
}

func (m *model) finished() bool {
	for _, finished := range m.reasons {
		if !finished {
			return false
		}
	}
	return len(m.reasons) > 0
}

// verdict of one event.
const (
	passes = iota
	comment
	malformed
	fails
	lies // it says behind a failure that all is well
)

// event takes in one event without its line ends at the end.
func (m *model) event(ev, eol string) int {
	data, ok := "", false
	for _, line := range strings.Split(ev, eol) {
		if d, is := strings.CutPrefix(line, "data: "); is {
			data, ok = d, true
		}
	}
	switch {
	case !ok:
		return comment
	case m.done:
		return passes
	case data == "[DONE]" && m.failed:
		return lies
	case data == "[DONE]":
		m.done = true
		return passes
	}
	var c modelChunk
	if json.Unmarshal([]byte(data), &c) != nil {
		return malformed
	}
	if c.Error != nil && m.failed {
		return passes
	}
	if c.Error != nil {
		m.failed, m.status = true, c.Error.Code
		return fails
	}
	finished := m.finished()
	for _, choice := range c.Choices {
		m.seen = true
		if text, _ := choice.Delta["content"].(string); text != "" {
			m.content = true
		}
		m.reasons[choice.Index] = m.reasons[choice.Index] || choice.Finish != nil && *choice.Finish != ""
	}
	if m.failed && !finished && m.finished() {
		return lies
	}
	return passes
}

func (m *model) shown() bool {
	switch m.mode {
	case sg.HoldComplete:
		return false
	case sg.HoldFirstContent:
		return m.content || m.seen && m.complete()
	}
	return m.seen
}

// split cuts a stream into events with their blank lines.
func split(data, eol string) (events []string, tail string) {
	for {
		i := strings.Index(data, eol+eol)
		if i < 0 {
			break
		}
		events = append(events, data[:i+2*len(eol)])
		data = data[i+2*len(eol):]
	}
	if eol == "\r\n" && strings.HasSuffix(data, "\r\n\r") { // the LF could still have come
		return append(events, data), ""
	}
	return events, data
}

func (m *model) run(data, eol string, end error) outcome {
	m.reasons = map[int]bool{}
	events, tail := split(data, eol)
	out, held := "", true
	for i, ev := range append(events, tail) {
		if ev == "" {
			continue
		}
		body, whole := strings.TrimRight(ev, "\r\n"), i < len(events)
		before := *m
		kind := m.event(body, eol)
		if !whole && (kind == malformed || kind == comment || !restParses(body, eol)) {
			*m = before
			break // dropped
		}
		switch {
		case kind == malformed && held && (!m.seen || !m.complete()):
			return outcome{status: 502}
		case kind == malformed:
			return outcome{out: out, broken: !m.complete() && !m.failed, failed: m.failed}
		case kind == fails && held:
			return outcome{status: m.status}
		case kind == lies, kind == comment && m.strip:
			continue
		}
		if m.strip {
			ev = withoutComments(ev, eol)
		}
		out += ev
		if held && whole && m.done && !m.seen {
			return outcome{status: 502}
		}
		held = held && !m.shown()
	}
	switch ended := m.failed || m.complete(); {
	case held && !m.seen && end == io.EOF:
		return outcome{status: 502}
	case held && !m.seen:
		return outcome{err: end}
	case held && !ended:
		return outcome{err: sg.ErrIncomplete}
	default:
		return outcome{out: out, broken: !ended, failed: m.failed}
	}
}

func withoutComments(ev, eol string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(ev, eol) {
		if !strings.HasPrefix(line, ":") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func restParses(body, eol string) bool {
	for _, line := range strings.Split(body, eol) {
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			return d == "[DONE]" || json.Valid([]byte(d))
		}
	}
	return false
}

func randomStream(r *rand.Rand) string {
	kinds := []string{
		C("x"), C("y"), C("zz"), role, U, ": ping\n\n", "event: x\nid: 1\n\n", strings.Replace(C("k"), `"index":0`, `"index":1`, 1),
		F("stop"), strings.Replace(F("stop"), `"index":0`, `"index":1`, 1), F(""), DONE, inBand503, "data: {\"choices\":[}\n\n",
		"event: chunk\n: note\n" + C("e"),
	}
	var b strings.Builder
	for range r.IntN(7) {
		k := r.IntN(len(kinds))
		if k >= 11 && r.IntN(2) == 0 { // ends and faults are rarer
			k = r.IntN(5)
		}
		b.WriteString(kinds[k])
	}
	return b.String()
}

// chopped hands out data in random pieces and ends with end.
type chopped struct {
	r    *rand.Rand
	data string
	end  error
}

func (c *chopped) Read(p []byte) (int, error) {
	if c.data == "" {
		return 0, c.end
	}
	n := copy(p, c.data[:1+c.r.IntN(min(len(c.data), 120))])
	if c.data = c.data[n:]; c.data == "" && c.r.IntN(2) == 0 {
		return n, c.end
	}
	return n, nil
}

func (c *chopped) Close() error { return nil }

func TestGuardAgreesWithModel(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 8))
	for i := range 8_000 {
		eol := []string{"\n", "\r\n", "\r"}[r.IntN(3)]
		data := strings.ReplaceAll(randomStream(r), "\n", eol)
		if r.IntN(2) == 0 && data != "" {
			data = data[:r.IntN(len(data))]
		}
		end := []error{io.EOF, errReset}[r.IntN(2)]
		m := &model{mode: []string{sg.HoldFirstEvent, sg.HoldFirstContent, sg.HoldComplete}[r.IntN(3)], strip: r.IntN(3) == 0}
		want := m.run(data, eol, end)

		g := stack(answer("text/event-stream", &chopped{r, data, end}), sg.Policy{HoldUntil: m.mode, StripComments: m.strip})
		resp, err := g.guard.RoundTrip(streamCall(t, chatPath))
		info := []any{"seed %d, round %d: %q, %v, %+v", seed, i, data, end, want}
		if want.err != nil {
			require.ErrorIs(t, err, want.err, info...)
			continue
		}
		require.NoError(t, err, info...)
		got, err := readIn(resp.Body, 1+r.IntN(3000))
		require.NoError(t, resp.Body.Close())
		if want.status != 0 {
			require.Equal(t, want.status, resp.StatusCode, info...)
			continue
		}
		require.Equal(t, 200, resp.StatusCode, info...)
		e := g.end(t)
		require.Equal(t, want.failed, e.Failure != nil, info...)
		require.Equal(t, !want.failed && !want.broken, e.Complete, info...)
		if !want.broken {
			if want.failed {
				failedInBand(t, err, 503, info...)
			} else {
				require.NoError(t, err, info...)
			}
			require.Equal(t, want.out, got, info...)
			continue
		}
		require.ErrorIs(t, err, sg.ErrIncomplete, info...)
		require.True(t, strings.HasPrefix(got, want.out), append(info, got)...)
		added := strings.TrimLeft(got[len(want.out):], "\r\n")
		require.True(t, strings.HasPrefix(added, "data: {\"error\":"), info...)
		if strings.Count(data, eol) > 1 {
			require.True(t, strings.HasSuffix(added, eol+eol), info...)
		}
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(got), "\n")
		require.Empty(t, lines[len(lines)-4], info...) // a blank line, the event, its blank line
	}
}

// readIn reads r to its end with a buffer of the given size.
func readIn(r io.Reader, size int) (string, error) {
	var b strings.Builder
	p := make([]byte, size)
	for {
		n, err := r.Read(p)
		b.Write(p[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
	}
}
