package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	cohere "github.com/cohere-ai/cohere-go/v2"
	"github.com/cohere-ai/cohere-go/v2/client"
	"github.com/cohere-ai/cohere-go/v2/core"
	v2 "github.com/cohere-ai/cohere-go/v2/v2"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

func askCohere(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	c := client.NewClient(
		client.WithToken(key),
		client.WithBaseURL(baseURL),
		client.WithHTTPClient(hc),
		client.WithMaxAttempts(1), // the stack's business
	).V2
	question := cohere.ChatMessages{{
		Role: "user",
		User: &cohere.UserMessageV2{Content: &cohere.UserMessageV2Content{String: prompt}},
	}}
	if stream {
		return readCohere(ctx, c, &cohere.V2ChatStreamRequest{Model: Model, Messages: question})
	}
	answer, err := c.Chat(ctx, &cohere.V2ChatRequest{Model: Model, Messages: question})
	if err != nil || answer.Message == nil {
		return "", err
	}
	var said adapter.Transcript
	for _, item := range answer.Message.Content {
		if item.Text != nil {
			said.Text(item.Text.Text)
		}
	}
	for _, tool := range answer.Message.ToolCalls {
		said.Call(deref(tool.Function.Name), deref(tool.Function.Arguments))
	}
	return said.String(), nil
}

func readCohere(ctx context.Context, c *v2.Client, req *cohere.V2ChatStreamRequest) (string, error) {
	s, err := c.ChatStream(ctx, req)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }() // read to its end, or broken
	var said adapter.Transcript
	for {
		event, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return said.String(), nil
		}
		if blankLine(err) {
			continue
		}
		if err != nil {
			return said.String(), err
		}
		switch {
		case event.ContentDelta != nil:
			said.Text(deref(event.ContentDelta.Delta.Message.Content.Text))
		case event.ToolCallStart != nil:
			f := event.ToolCallStart.Delta.Message.ToolCalls.Function
			said.Call(deref(f.Name), deref(f.Arguments))
		case event.ToolCallDelta != nil:
			said.Call("", deref(event.ToolCallDelta.Delta.Message.ToolCalls.Function.Arguments))
		}
	}
}

// blankLine reports whether the SDK has taken the blank line behind an event for
// an event, as v2.15.3 does where that is all it has read.
func blankLine(err error) bool {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	return ok && syntax.Offset <= int64(len("\r\n")) && syntax.Error() == "unexpected end of JSON input"
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func cohereStatus(err error) int {
	var e *core.APIError
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}
