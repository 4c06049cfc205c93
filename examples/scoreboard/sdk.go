package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"
	"google.golang.org/genai"
)

// statusOf is what result.status is for an SDK: 200 without an error, else what
// its own error says, which is 0 for none.
func statusOf(err error, of int) int {
	if err == nil {
		return http.StatusOK
	}
	return of
}

func openOpenAI(s *site, base http.RoundTripper) (ask, error) {
	client := openai.NewClient(
		option.WithBaseURL(s.primary.URL+"/v1"), option.WithAPIKey(primaryKey),
		option.WithHTTPClient(&http.Client{Transport: base}),
		option.WithMaxRetries(retries), option.WithRequestTimeout(perRequest),
	)
	return func(ctx context.Context) (r result) {
		stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
			Model:         primaryModel,
			Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
			StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		})
		defer func() { _ = stream.Close() }() // read to its end, or given up
		var acc openai.ChatCompletionAccumulator
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				return result{err: errors.New("a chunk of another answer")}
			}
		}
		r.err = stream.Err()
		if e, ok := errors.AsType[*openai.Error](r.err); ok {
			r.status = e.StatusCode
		}
		r.status = statusOf(r.err, r.status)
		r.model, r.in, r.out = acc.Model, int(acc.Usage.PromptTokens), int(acc.Usage.CompletionTokens)
		for _, c := range acc.Choices {
			r.text += c.Message.Content
		}
		return r
	}, nil
}

func openAnthropic(s *site, base http.RoundTripper) (ask, error) {
	client := anthropic.NewClient(
		anthropicoption.WithBaseURL(s.primary.URL), anthropicoption.WithAPIKey(primaryKey),
		anthropicoption.WithHTTPClient(&http.Client{Transport: base}),
		anthropicoption.WithMaxRetries(retries), anthropicoption.WithRequestTimeout(perRequest),
	)
	return func(ctx context.Context) (r result) {
		stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{
			Model: primaryModel, MaxTokens: 100,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
		})
		defer func() { _ = stream.Close() }() // read to its end, or given up
		var acc anthropic.Message
		for stream.Next() {
			if err := acc.Accumulate(stream.Current()); err != nil {
				return result{err: err}
			}
		}
		r.err = stream.Err()
		if e, ok := errors.AsType[*anthropic.Error](r.err); ok {
			r.status = e.StatusCode
		}
		r.status = statusOf(r.err, r.status)
		r.model, r.in, r.out = string(acc.Model), int(acc.Usage.InputTokens), int(acc.Usage.OutputTokens)
		for _, c := range acc.Content {
			r.text += c.Text
		}
		return r
	}, nil
}

func openGoOpenAI(s *site, base http.RoundTripper) (ask, error) {
	cfg := goopenai.DefaultConfig(primaryKey)
	cfg.BaseURL = s.primary.URL + "/v1"
	cfg.HTTPClient = &http.Client{Transport: base, Timeout: perRequest}
	client := goopenai.NewClientWithConfig(cfg)
	return func(ctx context.Context) (r result) {
		stream, err := client.CreateChatCompletionStream(ctx, goopenai.ChatCompletionRequest{
			Model: primaryModel, Stream: true, StreamOptions: &goopenai.StreamOptions{IncludeUsage: true},
			Messages: []goopenai.ChatCompletionMessage{{Role: goopenai.ChatMessageRoleUser, Content: "hello"}},
		})
		if err != nil {
			if e, ok := errors.AsType[*goopenai.APIError](err); ok {
				r.status = e.HTTPStatusCode
			}
			return result{err: err, status: r.status}
		}
		defer func() { _ = stream.Close() }() // read to its end, or given up
		for r.err == nil {
			var chunk goopenai.ChatCompletionStreamResponse
			if chunk, r.err = stream.Recv(); r.err != nil {
				break
			}
			r.model = chunk.Model
			for _, c := range chunk.Choices {
				r.text += c.Delta.Content
			}
			if chunk.Usage != nil {
				r.in, r.out = chunk.Usage.PromptTokens, chunk.Usage.CompletionTokens
			}
		}
		if errors.Is(r.err, io.EOF) { // its sign of an end
			r.err = nil
		}
		r.status = statusOf(r.err, 0)
		return r
	}, nil
}

func openGenAI(s *site, base http.RoundTripper) (ask, error) {
	attempts, limit := int32(1+retries), perRequest
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: primaryKey, Backend: genai.BackendGeminiAPI,
		HTTPClient: &http.Client{Transport: base},
		HTTPOptions: genai.HTTPOptions{
			BaseURL: s.primary.URL, Timeout: &limit, RetryOptions: &genai.HTTPRetryOptions{Attempts: &attempts},
		},
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (r result) {
		for chunk, err := range client.Models.GenerateContentStream(ctx, primaryModel, genai.Text("hello"), nil) {
			if err != nil {
				r.err = err
				break
			}
			r.text += chunk.Text()
			r.model = chunk.ModelVersion
			if u := chunk.UsageMetadata; u != nil {
				r.in, r.out = int(u.PromptTokenCount), int(u.CandidatesTokenCount)
			}
		}
		if e, ok := errors.AsType[genai.APIError](r.err); ok {
			r.status = e.Code
		}
		r.status = statusOf(r.err, r.status)
		return r
	}, nil
}
