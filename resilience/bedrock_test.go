package resilience_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

// What the test provider sends for Bedrock is what the stack reads there, on
// every path: whole answers, exceptions, cuts.
func TestBedrockOfTheTestProvider(t *testing.T) {
	ok := upstreamtest.OK("a", "b")
	tests := []struct {
		name   string
		step   upstreamtest.Step
		stream bool
		status int
		reason string // of the error from Read; "": the answer is whole
	}{
		{"whole answer", ok, false, 200, ""},
		{"whole stream", ok, true, 200, ""},
		{"tool call", upstreamtest.ToolCall("f", `{"a":1}`), true, 200, ""},
		{"keep-alives", ok.At(1, upstreamtest.Pings(time.Second, 3)), true, 200, ""},
		{"byte by byte", ok.WriteSize(1), true, 200, ""},
		{"status", upstreamtest.Status(429), false, 429, ""},
		{"hidden exception", upstreamtest.Hidden(upstreamtest.HiddenCoral, 429), false, 429, ""},
		{"hidden exception instead of a stream", upstreamtest.Hidden(upstreamtest.HiddenCoral, 429), true, 429, ""},
		{"exception first", ok.FailAfter(0, 429), true, 429, ""},
		{"error first", ok.FailAfter(0, 403), true, 403, ""},
		{"exception later", ok.CutAfterText(1).At(-1, upstreamtest.ErrorEvent(503)), true, 200, streamguard.ReasonInBandError},
		{"cut between two frames", ok.CutAfterText(1), true, 200, streamguard.ReasonClosed},
		{"cut inside a frame", ok.CutAfterText(1).InsideLine(), true, 200, streamguard.ReasonClosed},
		{"half a tool call", upstreamtest.ToolCall("f", `{"a":1}`).CutAfterText(1), true, 200, streamguard.ReasonClosed},
		{"malformed event", ok.CutAfterText(1).At(-1, upstreamtest.Malformed()), true, 200, streamguard.ReasonMalformed},
	}
	methods := map[bool][]string{
		false: {"converse", "invoke"},
		true:  {"converse-stream", "invoke-with-response-stream"},
	}
	for _, tt := range tests {
		for _, method := range methods[tt.stream] {
			for _, model := range []string{"amazon.nova-pro-v1:0", "anthropic.claude-sonnet-4-v1:0"} {
				t.Run(tt.name+", "+method+", "+model, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						up := upstreamtest.NewInMemory("")
						defer up.Close()
						up.Default(tt.step)
						p := resilience.DefaultPolicy()
						p.Retry.MaxRetries = 0
						stack, err := resilience.Builder{Base: up.RoundTripper()}.Build("bedrock", p)
						require.NoError(t, err)
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.URL+"/model/"+model+"/"+method, strings.NewReader(`{}`))
						require.NoError(t, err)
						resp, err := stack.RoundTrip(req)
						require.NoError(t, err)
						_, err = io.ReadAll(resp.Body)
						require.NoError(t, resp.Body.Close())
						assert.Equal(t, tt.status, resp.StatusCode)
						if tt.reason == "" {
							assert.NoError(t, err)
							return
						}
						inc, ok := errors.AsType[*streamguard.IncompleteError](err)
						require.True(t, ok, "%v", err)
						assert.Equal(t, tt.reason, inc.Reason)
					})
				})
			}
		}
	}
}
