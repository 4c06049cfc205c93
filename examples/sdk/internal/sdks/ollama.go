package sdks

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/ollama/ollama/api"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

func askOllama(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return "", err
	}
	req := &api.ChatRequest{Model: Model, Stream: &stream, Messages: []api.Message{{Role: "user", Content: prompt}}}
	var said adapter.Transcript
	err = api.NewClient(u, hc).Chat(ctx, req, func(r api.ChatResponse) error {
		said.Text(r.Message.Content)
		for _, tool := range r.Message.ToolCalls {
			said.Call(tool.Function.Name, tool.Function.Arguments.String())
		}
		return nil
	})
	return said.String(), err
}

func ollamaStatus(err error) int {
	var (
		status api.StatusError
		auth   api.AuthorizationError
	)
	switch {
	case errors.As(err, &status):
		return status.StatusCode
	case errors.As(err, &auth):
		return auth.StatusCode
	}
	return 0
}
