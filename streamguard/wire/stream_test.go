package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

const (
	marks  = wire.MarkData | wire.MarkContent
	cHe    = `data: {"choices":[{"index":0,"delta":{"content":"he"},"finish_reason":null}]}` + "\n\n"
	cLlo   = `data: {"choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":null}]}` + "\n\n"
	fStop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	uFrame = `data: {"choices":[],"usage":{"total_tokens":3}}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

// play feeds body to a new stream and returns each event's marks.
func play(t testing.TB, f *wire.Format, body string) (*wire.Stream, []wire.Mark) {
	t.Helper()
	s := f.NewStream(wire.StreamOptions{ContentType: "text/event-stream"})
	var ms []wire.Mark
	b := []byte(body)
	for {
		n := s.Next(b)
		if n == 0 {
			break
		}
		ms = append(ms, s.Event(b[:n]))
		b = b[n:]
	}
	if len(b) > 0 {
		m, whole := s.Rest(b)
		if whole {
			ms = append(ms, m)
		}
	}
	return s, ms
}

func TestChatStreamMarks(t *testing.T) {
	s, ms := play(t, wire.Chat, cHe+cLlo+": ping\n\n"+fStop+uFrame+done)
	require.Equal(t, []wire.Mark{marks, marks, wire.MarkComment, wire.MarkData | wire.MarkEnd, 0, wire.MarkEnd | wire.MarkFinal}, ms)
	assert.True(t, s.Complete())
	assert.Nil(t, s.Failure())
	assert.Equal(t, 4, s.Events())
}
