package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// question is the request's body, the same for every contender of this format.
var question = fmt.Sprintf(`{"model":%q,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`, primaryModel)

// plain asks with an http.Client and reads the answer with care, but as a
// client does that trusts its transport: it checks the status and every
// chunk's JSON, heeds an error event, and takes [DONE] or the body's end for
// the end, as the official SDK does. servedBy, where there is one, is the
// library's own word on which model answered; it has to agree with the answer.
func plain(client *http.Client, base string, servedBy func(*http.Response) string) ask {
	return func(ctx context.Context) (r result) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(question))
		if err != nil {
			return result{err: err}
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+primaryKey)
		resp, err := client.Do(req)
		if err != nil {
			return result{err: err}
		}
		defer func() { _ = resp.Body.Close() }() // read to its end, or given up
		r.status = resp.StatusCode
		if resp.StatusCode == http.StatusOK {
			r.err = readStream(&r, resp.Body)
		}
		if servedBy != nil && r.answered() && servedBy(resp) != r.model {
			r.model += ", or " + servedBy(resp)
		}
		return r
	}
}

// message is a chunk of an answer, or an error.
type message struct {
	Model   string
	Choices []struct {
		Delta struct{ Content string }
	}
	Usage *struct {
		In  int `json:"prompt_tokens"`
		Out int `json:"completion_tokens"`
	}
	Error json.RawMessage
}

var errToldInBand = errors.New("the answer is an error")

// add takes over what m says.
func (r *result) add(m *message) error {
	if len(m.Error) > 0 && !bytes.Equal(m.Error, []byte("null")) {
		return errToldInBand
	}
	for _, c := range m.Choices {
		r.text += c.Delta.Content
	}
	if m.Model != "" {
		r.model = m.Model
	}
	if m.Usage != nil {
		r.in, r.out = m.Usage.In, m.Usage.Out
	}
	return nil
}

func readStream(r *result, body io.Reader) error {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		if data = strings.TrimSpace(data); data == "[DONE]" {
			return nil
		}
		var m message
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return err
		}
		if err := r.add(&m); err != nil {
			return err
		}
	}
	return lines.Err()
}
