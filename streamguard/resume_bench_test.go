package streamguard_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

func responsesStream(events int) []byte {
	var b bytes.Buffer
	b.WriteString("event: response.created\ndata: " + responseCreated + "\n\n")
	for i := range events {
		fmt.Fprintf(&b, "event: response.output_text.delta\n"+`data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_0123456789abcdef","output_index":0,`+
			`"content_index":0,"delta":" token%05d of it","logprobs":[],"obfuscation":"%d"}`+"\n\n", i+1, i, 1234567*i)
	}
	fmt.Fprintf(&b, "event: response.completed\n"+`data: {"type":"response.completed","sequence_number":%d,"response":{"id":"resp_1","status":"completed","output":[{}],"usage":{"total_tokens":3}}}`+"\n\n", events+1)
	return b.Bytes()
}

func interactionsStream(events int) []byte {
	var b bytes.Buffer
	b.WriteString("event: interaction.created\n" + `data: {"event_type":"interaction.created","interaction":{"id":"v1_x","status":"in_progress"},"event_id":"evt_0"}` + "\n\n")
	for i := range events {
		fmt.Fprintf(&b, "event: content.delta\n"+`data: {"event_type":"content.delta","index":0,"delta":{"type":"text","text":" token%05d of it"},"event_id":"evt_0123456789abcdef%d"}`+"\n\n", i, i)
	}
	b.WriteString("event: interaction.completed\n" + `data: {"event_type":"interaction.completed","interaction":{"id":"v1_x","status":"completed","usage":{"total_tokens":3}},"event_id":"evt_z"}` + "\n\n")
	return b.Bytes()
}

// resumeRig is a guard for streams that are kept, or that are not.
func resumeRig(f *wire.Format, data []byte, kept bool, mode string) *sg.Guard {
	var a sg.Call = above{Request: wire.Request{Format: f, Model: "m", Stream: true, Resumable: kept}}
	call := func(*http.Request) sg.Call { return a }
	p := sg.DefaultPolicy()
	p.Resume = mode
	return &sg.Guard{
		Base: &sg.Unmasker{
			Base: &sg.Idle{Base: &fixedBody{"text/event-stream", data, true}, Timeout: 300 * time.Second}, KeepStreams: true, Call: call,
		},
		Policy: p, Call: call,
	}
}

// BenchmarkResume relays streams that are not cut: of a vendor that does not keep
// them, that keeps them, and that would be asked for the rest.
func BenchmarkResume(b *testing.B) {
	for _, c := range []struct {
		f    *wire.Format
		data []byte
	}{{wire.Responses, responsesStream(10_000)}, {wire.Interactions, interactionsStream(10_000)}} {
		for _, m := range []struct {
			name string
			kept bool
			mode string
		}{{"not kept", false, sg.ResumeOff}, {"off", true, sg.ResumeOff}, {"on", true, sg.ResumeOn}} {
			b.Run(c.f.String()+"/"+m.name, func(b *testing.B) {
				g := resumeRig(c.f, c.data, m.kept, m.mode)
				req := request(b, context.Background(), "/v1/responses", "{}")
				p := make([]byte, 32<<10)
				b.SetBytes(int64(len(c.data)))
				b.ReportAllocs()
				for b.Loop() {
					relayAll(b, g, req, p)
				}
			})
		}
	}
}

func relayAll(t testing.TB, g *sg.Guard, req *http.Request, p []byte) {
	resp, err := g.RoundTrip(req)
	require.NoError(t, err)
	for err == nil {
		_, err = resp.Body.Read(p)
	}
	require.Equal(t, io.EOF, err)
	require.NoError(t, resp.Body.Close())
}

// A stream that could be resumed and is not cut costs no allocation more.
func TestResumeAllocatesNothingWithoutACut(t *testing.T) {
	for _, c := range []struct {
		f    *wire.Format
		data []byte
	}{{wire.Responses, responsesStream(1000)}, {wire.Interactions, interactionsStream(1000)}} {
		count := func(kept bool, mode string) float64 {
			g := resumeRig(c.f, c.data, kept, mode)
			req := request(t, context.Background(), "/v1/responses", "{}")
			p := make([]byte, 32<<10)
			return testing.AllocsPerRun(50, func() { relayAll(t, g, req, p) })
		}
		require.LessOrEqual(t, count(true, sg.ResumeOn), count(false, sg.ResumeOff)+0.5, c.f.String())
	}
}
