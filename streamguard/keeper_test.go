package streamguard_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sg "github.com/surefoot-go/surefoot/streamguard"
)

// A keeper is a vendor that keeps a stream, in memory: a POST begins it, a GET
// reads it again behind an event.
type keeper struct {
	post, background string
	events           []string               // with their blank lines
	after            func(query string) int // the events that came by then

	cuts []int // how many bytes each answer has; beyond the list all of them
	end  error // what cut answers end with; nil is io.EOF
	hang bool  // cut answers stay open and silent

	lead   string // before the events of a GET
	from   int    // how many events a GET sends too many, negative: too few
	status int    // of a GET, if not 200
	label  string // of a GET, if not text/event-stream
	rest   string // all of the body of a GET, if not ""

	mu   sync.Mutex
	asks []*http.Request
	open []*scripted
}

const responseCreated = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","background":true,"output":[]}}`

func responsesKeeper(eol string) *keeper {
	k := &keeper{post: "/v1/responses?api-version=preview", background: `{"model":"m","stream":true,"background":true,"input":"x"}`}
	add := func(name, data string) {
		k.events = append(k.events, strings.ReplaceAll("event: "+name+"\ndata: "+data+"\n\n", "\n", eol))
	}
	add("response.created", responseCreated)
	add("response.in_progress", strings.Replace(strings.Replace(responseCreated, "created", "in_progress", 1), ":0,", ":1,", 1))
	add("response.output_item.added", `{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[]}}`)
	for i := range 4 {
		add("response.output_text.delta", fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","delta":"那%d","obfuscation":"%x"}`, 3+i, i, i*77))
	}
	add("response.completed", `{"type":"response.completed","sequence_number":7,"response":{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message"}],"usage":{"total_tokens":9}}}`)
	k.after = func(query string) int {
		var n int
		if _, err := fmt.Sscanf(query, "api-version=preview&stream=true&starting_after=%d", &n); err != nil {
			return -1
		}
		return n + 1
	}
	return k
}

func interactionsKeeper(eol string) *keeper {
	k := &keeper{post: "/v1beta/interactions?alt=sse&key=k", background: `{"model":"m","stream":true,"input":"x"}`}
	add := func(name, data string) {
		id := fmt.Sprintf("evt/%d+=", len(k.events))
		k.events = append(k.events, strings.ReplaceAll("event: "+name+"\ndata: "+strings.TrimSuffix(data, "}")+`,"event_id":"`+id+"\"}\n\n", "\n", eol))
	}
	add("interaction.created", `{"event_type":"interaction.created","interaction":{"id":"v1_x","object":"interaction","status":"in_progress"}}`)
	add("interaction.status_update", `{"event_type":"interaction.status_update","interaction_id":"v1_x","status":"in_progress"}`)
	add("content.start", `{"event_type":"content.start","index":0,"content":{"type":"text"}}`)
	for i := range 4 {
		add("content.delta", fmt.Sprintf(`{"event_type":"content.delta","index":0,"delta":{"type":"text","text":"那%d"}}`, i))
	}
	add("content.stop", `{"event_type":"content.stop","index":0}`)
	add("interaction.completed", `{"event_type":"interaction.completed","interaction":{"id":"v1_x","status":"completed","usage":{"total_tokens":9}}}`)
	k.after = func(query string) int {
		var n int
		if _, err := fmt.Sscanf(query, "alt=sse&key=k&stream=true&last_event_id=evt%%2F%d", &n); err != nil {
			return -1
		}
		return n + 1
	}
	return k
}

func (k *keeper) whole() string { return strings.Join(k.events, "") }

func (k *keeper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asks = append(k.asks, req)
	if len(k.asks) > 100 {
		return nil, fmt.Errorf("asked for too often")
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Request: req}
	text, cut := k.whole(), -1
	if n := len(k.asks) - 1; n < len(k.cuts) {
		cut = k.cuts[n]
	}
	if req.Method == http.MethodGet {
		if k.status != 0 {
			resp.StatusCode = k.status
		}
		if k.label != "" {
			resp.Header.Set("Content-Type", k.label)
		}
		at := k.after(req.URL.RawQuery)
		if at < 0 {
			return nil, fmt.Errorf("asked for %s", req.URL)
		}
		if text = k.rest; text == "" {
			text = k.lead + strings.Join(k.events[min(max(0, at-k.from), len(k.events)):], "")
		}
	}
	var body *scripted
	switch {
	case cut < 0 || cut >= len(text):
		body = script(part{data: text})
	case k.hang:
		body = script(part{data: text[:cut]}, part{hang: true})
	default:
		body = script(part{data: text[:cut]}, part{err: k.end})
	}
	body.ctx = req.Context()
	k.open = append(k.open, body)
	resp.Body = body
	return resp, nil
}

// read posts the request to a guard over k and reads the answer to its end.
func (k *keeper) read(t *testing.T, p sg.Policy, small bool) (got string, err error) {
	t.Helper()
	r := stack(k, p)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example.com"+k.post, strings.NewReader(k.background))
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"application/json"}, "Idempotency-Key": {"once"}, "X-Own": {"y"}}
	resp, err := r.guard.RoundTrip(req)
	if err != nil {
		return "", err
	}
	var rd io.Reader = resp.Body
	if small {
		rd = iotest.OneByteReader(rd)
	}
	b, err := io.ReadAll(rd)
	require.NoError(t, resp.Body.Close())
	for _, b := range k.open {
		assert.True(t, b.isClosed(), "a body was left open")
	}
	return string(b), err
}

var keepers = map[string]func(string) *keeper{"responses": responsesKeeper, "interactions": interactionsKeeper}

var resumeOn = sg.Policy{Resume: sg.ResumeOn}
