package sdks

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/genai"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
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
	var said adapter.Transcript
	if !stream {
		answer, err := c.Models.GenerateContent(ctx, Model, genai.Text(prompt), nil)
		if err != nil || answer == nil {
			return "", err
		}
		gemini(&said, answer)
		return said.String(), nil
	}
	for chunk, err := range c.Models.GenerateContentStream(ctx, Model, genai.Text(prompt), nil) {
		if err != nil {
			return said.String(), err
		}
		gemini(&said, chunk)
	}
	return said.String(), nil
}

func gemini(t *adapter.Transcript, r *genai.GenerateContentResponse) {
	for _, candidate := range r.Candidates {
		for _, part := range candidate.Content.Parts {
			t.Text(part.Text)
			if call := part.FunctionCall; call != nil {
				t.Call(call.Name, adapter.JSON(call.Args))
			}
		}
	}
}

func genaiStatus(err error) int {
	var e genai.APIError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
