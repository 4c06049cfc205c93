package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// callersKey is what callers show the gateway.
const callersKey = "key-of-the-caller"

// sdk is an SDK in front of the gateway.
type sdk struct {
	name string
	// say makes a call with so many retries of the SDK's own and hands over each
	// piece of text of the answer.
	say    func(ctx context.Context, url, model string, stream bool, retries int, piece func(string)) error
	status func(error) int // 0 where the SDK has none
	second int             // where the second piece of text stands among the events of a stream
}

// ask is the text of one call.
func (s sdk) ask(ctx context.Context, url, model string, stream bool, retries int) (string, error) {
	var said strings.Builder
	err := s.say(ctx, url, model, stream, retries, func(text string) { said.WriteString(text) })
	return said.String(), err
}

// read sends each piece of a stream's text to heard.
func (s sdk) read(ctx context.Context, url, model string, heard chan<- string) error {
	return s.say(ctx, url, model, true, 0, func(text string) { heard <- text })
}

func each(t *testing.T, test func(*testing.T, sdk)) {
	for _, s := range []sdk{
		{"openai-go", sayOpenAI, openaiStatus, 1},
		{"anthropic-sdk-go", sayAnthropic, anthropicStatus, 3},
	} {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

func sayOpenAI(ctx context.Context, url, model string, stream bool, retries int, piece func(string)) error {
	client := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey(callersKey), option.WithMaxRetries(retries))
	params := openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
	}
	if !stream {
		answer, err := client.Chat.Completions.New(ctx, params)
		if err == nil {
			piece(answer.Choices[0].Message.Content)
		}
		return err
	}
	events := client.Chat.Completions.NewStreaming(ctx, params)
	defer func() { _ = events.Close() }() // read to its end, or broken
	for events.Next() {
		for _, choice := range events.Current().Choices {
			if choice.Delta.Content != "" {
				piece(choice.Delta.Content)
			}
		}
	}
	return events.Err()
}

func openaiStatus(err error) int {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

func sayAnthropic(ctx context.Context, url, model string, stream bool, retries int, piece func(string)) error {
	client := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey(callersKey), anthropicoption.WithMaxRetries(retries))
	params := anthropic.MessageNewParams{
		Model: anthropic.Model(model), MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
	}
	if !stream {
		answer, err := client.Messages.New(ctx, params)
		if err == nil {
			piece(answer.Content[0].Text)
		}
		return err
	}
	events := client.Messages.NewStreaming(ctx, params)
	defer func() { _ = events.Close() }() // read to its end, or broken
	for events.Next() {
		if text := events.Current().Delta.Text; text != "" {
			piece(text)
		}
	}
	return events.Err()
}

func anthropicStatus(err error) int {
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return e.StatusCode
	}
	return 0
}
