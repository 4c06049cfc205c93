package sdks

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/genai"
)

func askGemini(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	c, err := genai.NewClient(ctx, &genai.ClientConfig{
		APIKey:      key,
		Backend:     genai.BackendGeminiAPI,
		HTTPClient:  hc,
		HTTPOptions: genai.HTTPOptions{BaseURL: baseURL},
	})
	if err != nil {
		return "", err
	}
	if !stream {
		answer, err := c.Models.GenerateContent(ctx, Model, genai.Text(prompt), nil)
		if err != nil || answer == nil {
			return "", err
		}
		return answer.Text(), nil
	}
	var text strings.Builder
	for chunk, err := range c.Models.GenerateContentStream(ctx, Model, genai.Text(prompt), nil) {
		if err != nil {
			return text.String(), err
		}
		text.WriteString(chunk.Text())
	}
	return text.String(), nil
}

func genaiStatus(err error) int {
	var e genai.APIError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
