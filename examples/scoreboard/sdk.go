package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// sdk asks with openai-go and reads the answer by its accumulator.
func sdk(client openai.Client) ask {
	return func(ctx context.Context, f *fault) (r result) {
		params := openai.ChatCompletionNewParams{
			Model:    primaryModel,
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		}
		var done *openai.ChatCompletion
		if f.stream {
			done, r.err = sdkStream(ctx, client, params)
		} else {
			done, r.err = client.Chat.Completions.New(ctx, params)
		}
		r.status = http.StatusOK
		if e := (*openai.Error)(nil); errors.As(r.err, &e) {
			r.status, r.code = e.StatusCode, e.Code
		} else if r.err != nil {
			r.status = 0
		}
		if done != nil {
			r.model, r.in, r.out = done.Model, int(done.Usage.PromptTokens), int(done.Usage.CompletionTokens)
			for _, c := range done.Choices {
				r.text += c.Message.Content
			}
		}
		return r
	}
}

func sdkStream(ctx context.Context, client openai.Client, params openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }() // read to its end, or given up
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return &acc.ChatCompletion, errors.New("a chunk of another answer")
		}
	}
	return &acc.ChatCompletion, stream.Err()
}

func newSDK(s *site) (ask, func()) {
	base := s.base()
	client := openai.NewClient(
		option.WithBaseURL(s.primary.URL+"/v1"),
		option.WithAPIKey(primaryKey),
		option.WithHTTPClient(&http.Client{Transport: base}),
	)
	return sdk(client), base.CloseIdleConnections
}
