package sdks

import (
	"context"
	"errors"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

// Anthropic is a client of anthropic-sdk-go as the stack wants it.
func Anthropic(client *http.Client, baseURL string, opts ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithAPIKey(key),
		option.WithBaseURL(baseURL),
		option.WithHTTPClient(client),
		option.WithMaxRetries(0), // the stack's business
	}, opts...)...)
}

// MessageParams is a messages call for a model.
func MessageParams(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model:     anthropic.Model(model),
		MaxTokens: 100,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
	}
}

func askMessages(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	c := Anthropic(hc, baseURL)
	if stream {
		return ReadMessages(ctx, c)
	}
	return Message(ctx, c, Model)
}

// Message is the text of one messages call.
func Message(ctx context.Context, c anthropic.Client, model string) (string, error) {
	answer, err := c.Messages.New(ctx, MessageParams(model))
	if err != nil || answer == nil {
		return "", err
	}
	var said adapter.Transcript
	for _, block := range answer.Content {
		said.Text(block.Text)
		said.Call(block.Name, string(block.Input))
	}
	return said.String(), nil
}

// ReadMessages reads a messages stream to its end.
func ReadMessages(ctx context.Context, c anthropic.Client) (string, error) {
	s := c.Messages.NewStreaming(ctx, MessageParams(Model))
	defer func() { _ = s.Close() }() // read to its end, or broken
	var said adapter.Transcript
	for s.Next() {
		event := s.Current()
		said.Call(event.ContentBlock.Name, event.Delta.PartialJSON)
		said.Text(event.Delta.Text)
	}
	return said.String(), s.Err()
}

func anthropicStatus(err error) int {
	var e *anthropic.Error
	if errors.As(err, &e) && e.StatusCode >= http.StatusBadRequest { // 200 for one inside a stream
		return e.StatusCode
	}
	return 0
}
