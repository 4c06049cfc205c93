package sdks

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/schema"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

func askEino(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	m, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{
		APIKey:     key,
		BaseURL:    baseURL + "/v1",
		Model:      Model,
		HTTPClient: hc,
	})
	if err != nil {
		return "", err
	}
	question := []*schema.Message{schema.UserMessage(prompt)}
	if stream {
		return readEino(ctx, m, question)
	}
	answer, err := m.Generate(ctx, question)
	if err != nil {
		return "", err
	}
	var said adapter.Transcript
	message(&said, answer)
	return said.String(), nil
}

func readEino(ctx context.Context, m *openai.ChatModel, question []*schema.Message) (string, error) {
	s, err := m.Stream(ctx, question)
	if err != nil {
		return "", err
	}
	defer s.Close()
	var said adapter.Transcript
	for {
		chunk, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return said.String(), nil
		}
		if err != nil {
			return said.String(), err
		}
		message(&said, chunk)
	}
}

func message(t *adapter.Transcript, m *schema.Message) {
	t.Text(m.Content)
	for _, tool := range m.ToolCalls {
		t.Call(tool.Function.Name, tool.Function.Arguments)
	}
}

func einoStatus(err error) int {
	var e *openai.APIError
	if errors.As(err, &e) {
		return e.HTTPStatusCode
	}
	return 0
}
