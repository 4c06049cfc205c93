package sdks

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// OpenAI is a client of openai-go as the stack wants it.
func OpenAI(client *http.Client, baseURL string, opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithAPIKey(key),
		option.WithBaseURL(baseURL + "/v1"),
		option.WithHTTPClient(client),
		option.WithMaxRetries(0), // the stack's business
	}, opts...)...)
}

// ChatParams is a chat call for a model.
func ChatParams(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	}
}

func askChat(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	c := OpenAI(hc, baseURL)
	if stream {
		return ReadChat(ctx, c, Model)
	}
	return Chat(ctx, c, Model)
}

// Chat is the text of one chat call.
func Chat(ctx context.Context, c openai.Client, model string) (string, error) {
	answer, err := c.Chat.Completions.New(ctx, ChatParams(model))
	if err != nil || answer == nil || len(answer.Choices) == 0 {
		return "", err
	}
	return answer.Choices[0].Message.Content, nil
}

// ReadChat reads a chat stream to its end.
func ReadChat(ctx context.Context, c openai.Client, model string) (string, error) {
	s := c.Chat.Completions.NewStreaming(ctx, ChatParams(model))
	defer func() { _ = s.Close() }() // read to its end, or broken
	var text strings.Builder
	for s.Next() {
		for _, choice := range s.Current().Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String(), s.Err()
}

func responseParams() responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: Model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)},
	}
}

func askResponses(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	c := OpenAI(hc, baseURL)
	if stream {
		return ReadResponses(ctx, c)
	}
	return Response(ctx, c)
}

// Response is the text of one call of the Responses API.
func Response(ctx context.Context, c openai.Client) (string, error) {
	answer, err := c.Responses.New(ctx, responseParams())
	if err != nil || answer == nil {
		return "", err
	}
	if answer.Status == responses.ResponseStatusFailed {
		return answer.OutputText(), unfinished("failed")
	}
	return answer.OutputText(), nil
}

// ReadResponses reads a stream of the Responses API to its end.
func ReadResponses(ctx context.Context, c openai.Client) (string, error) {
	s := c.Responses.NewStreaming(ctx, responseParams())
	defer func() { _ = s.Close() }() // read to its end, or broken
	var (
		text   strings.Builder
		failed error
	)
	for s.Next() {
		switch event := s.Current(); event.Type {
		case "response.output_text.delta":
			text.WriteString(event.Delta)
		case "response.failed", "response.incomplete", "error": // no error to the SDK
			failed = unfinished(event.Type)
		}
	}
	return text.String(), errors.Join(s.Err(), failed)
}

func openaiStatus(err error) int {
	var e *openai.Error
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}
