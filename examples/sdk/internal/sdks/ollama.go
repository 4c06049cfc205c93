package sdks

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ollama/ollama/api"
)

func askOllama(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return "", err
	}
	req := &api.ChatRequest{Model: Model, Stream: &stream, Messages: []api.Message{{Role: "user", Content: prompt}}}
	var text strings.Builder
	err = api.NewClient(u, hc).Chat(ctx, req, func(r api.ChatResponse) error {
		text.WriteString(r.Message.Content)
		return nil
	})
	return text.String(), err
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
