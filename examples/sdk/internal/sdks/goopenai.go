package sdks

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"
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
	return answer.Choices[0].Message.Content, nil
}

func readGoOpenAI(ctx context.Context, c *goopenai.Client, req goopenai.ChatCompletionRequest) (string, error) {
	s, err := c.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }() // read to its end, or broken
	var text strings.Builder
	for {
		chunk, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
		}
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
