package streamguard_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
)

// inPieces is a body that comes in pieces of random lengths.
type inPieces struct {
	rest []byte
	rnd  *rand.Rand
}

func (p *inPieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := min(len(b), len(p.rest), 1+p.rnd.IntN(40<<10))
	copy(b, p.rest[:n])
	p.rest = p.rest[n:]
	return n, nil
}

func (p *inPieces) Close() error { return nil }

// An event larger than what is held flows by with its bytes unchanged, however
// it is cut and read.
func TestEventsOfAnySizeFlowUnchanged(t *testing.T) {
	for seed := range uint64(160) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		var want strings.Builder
		for range 1 + rnd.IntN(4) {
			want.WriteString(C("a"))
		}
		for range 1 + rnd.IntN(2) {
			text := make([]byte, []int{60 << 10, 64 << 10, 70 << 10, 200 << 10}[rnd.IntN(4)])
			for i := range text {
				text[i] = byte('a' + rnd.IntN(26))
			}
			if rnd.IntN(2) == 0 { // one that means nothing
				want.WriteString(`data: {"type":"x","b64":"` + string(text) + "\"}\n\n")
			} else {
				want.WriteString(C(string(text)))
			}
			want.WriteString(C("b"))
		}
		want.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
		body := &inPieces{[]byte(want.String()), rnd}
		base := answer("text/event-stream", body)
		policy := sg.DefaultPolicy()
		policy.HoldUntil = []string{sg.HoldFirstEvent, sg.HoldFirstContent, sg.HoldComplete}[rnd.IntN(3)]
		policy.StripComments = rnd.IntN(2) == 0
		resp, err := stack(base, policy).guard.RoundTrip(streamCall(t, chatPath))
		require.NoError(t, err)
		var got bytes.Buffer
		buf := make([]byte, 1+rnd.IntN(70<<10))
		_, err = io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{resp.Body}, buf)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if got.String() != want.String() {
			i := 0
			for i < got.Len() && got.Bytes()[i] == want.String()[i] {
				i++
			}
			require.Fail(t, "changed", "seed %d, buffer %d: %d bytes of %d, from %d on", seed, len(buf), got.Len(), want.Len(), i)
		}
	}
}
