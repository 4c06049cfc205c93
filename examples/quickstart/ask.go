package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/resilience"
)

// result is what a service has in hand after a call.
type result struct {
	status int    // of the response, or what stands for err
	text   string // what the model is taken to have said
	err    error
	took   time.Duration
}

// answered tells whether the service takes this for an answer.
func (r result) answered() bool { return r.err == nil && r.status == http.StatusOK }

func (r result) String() string {
	switch {
	case r.answered():
		return fmt.Sprintf("an answer: %q", r.text)
	case r.err != nil && r.text != "":
		return fmt.Sprintf("%q, then an error (%d)", r.text, r.status)
	case r.err != nil:
		return fmt.Sprintf("an error (%d)", r.status)
	}
	return fmt.Sprintf("status %d", r.status)
}

// ask makes one call and reads the answer as most hand-written clients do.
func ask(ctx context.Context, client *http.Client, url, model string, stream bool) (r result) {
	start := time.Now()
	defer func() { r.took = time.Since(start) }()
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"}]}`, model, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return result{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return result{status: resilience.StatusOf(err), err: err}
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	r.status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		return r
	}
	if stream {
		r.text, r.err = readStream(resp.Body)
	} else {
		r.text, r.err = readWhole(resp.Body)
	}
	if r.err != nil {
		r.status = resilience.StatusOf(r.err)
	}
	return r
}

type chunk struct {
	Choices []struct {
		Delta   struct{ Content string }
		Message struct{ Content string }
	}
}

func readWhole(body io.Reader) (string, error) {
	b, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	var c chunk
	_ = json.Unmarshal(b, &c) // a client that trusts a 200 finds an empty message
	if len(c.Choices) == 0 {
		return "", nil
	}
	return c.Choices[0].Message.Content, nil
}

// readStream joins the deltas until the stream ends, whatever ends it.
func readStream(body io.Reader) (string, error) {
	var text strings.Builder
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var c chunk
		if !ok || json.Unmarshal([]byte(data), &c) != nil || len(c.Choices) == 0 {
			continue
		}
		text.WriteString(c.Choices[0].Delta.Content)
	}
	return text.String(), lines.Err()
}
