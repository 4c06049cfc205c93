package sdks

import (
	"context"
	"errors"
	"io"
	"net/http"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

func askGoOpenAI(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	cfg := goopenai.DefaultConfig(key)
	cfg.BaseURL = baseURL + "/v1"
	cfg.HTTPClient = hc
	c := goopenai.NewClientWithConfig(cfg)
	req := goopenai.ChatCompletionRequest{
		Model:    Model,
		Stream:   stream,
		Messages: []goopenai.ChatCompletionMessage{{Role: goopenai.ChatMessageRoleUser, Content: prompt}},
	}
	if stream {
		return readGoOpenAI(ctx, c, req)
	}
	answer, err := c.CreateChatCompletion(ctx, req)
	if err != nil || len(answer.Choices) == 0 {
		return "", err
	}
	var said adapter.Transcript
	said.Text(answer.Choices[0].Message.Content)
	goOpenAI(&said, answer.Choices[0].Message.ToolCalls)
	return said.String(), nil
}

func readGoOpenAI(ctx context.Context, c *goopenai.Client, req goopenai.ChatCompletionRequest) (string, error) {
	s, err := c.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }() // read to its end, or broken
	var said adapter.Transcript
	for {
		chunk, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return said.String(), nil
		}
		if err != nil {
			return said.String(), err
		}
		for _, choice := range chunk.Choices {
			said.Text(choice.Delta.Content)
			goOpenAI(&said, choice.Delta.ToolCalls)
		}
	}
}

func goOpenAI(t *adapter.Transcript, tools []goopenai.ToolCall) {
	for _, tool := range tools {
		t.Call(tool.Function.Name, tool.Function.Arguments)
	}
}

func goOpenAIStatus(err error) int {
	var (
		api     *goopenai.APIError
		request *goopenai.RequestError
	)
	switch {
	case errors.As(err, &api):
		return api.HTTPStatusCode
	case errors.As(err, &request):
		return request.HTTPStatusCode
	}
	return 0
}
