package sdks

import (
	"context"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
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
	var said adapter.Transcript
	said.Text(answer.Choices[0].Message.Content)
	for _, tool := range answer.Choices[0].Message.ToolCalls {
		said.Call(tool.Function.Name, tool.Function.Arguments)
	}
	return said.String(), nil
}

// ReadChat reads a chat stream to its end.
func ReadChat(ctx context.Context, c openai.Client, model string) (string, error) {
	s := c.Chat.Completions.NewStreaming(ctx, ChatParams(model))
	defer func() { _ = s.Close() }() // read to its end, or broken
	var said adapter.Transcript
	for s.Next() {
		for _, choice := range s.Current().Choices {
			said.Text(choice.Delta.Content)
			for _, tool := range choice.Delta.ToolCalls {
				said.Call(tool.Function.Name, tool.Function.Arguments)
			}
		}
	}
	return said.String(), s.Err()
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
	var said adapter.Transcript
	said.Text(answer.OutputText())
	for _, item := range answer.Output {
		if item.Type == "function_call" {
			said.Call(item.Name, item.Arguments.OfString)
		}
	}
	if answer.Status == responses.ResponseStatusFailed {
		return said.String(), unfinished("failed")
	}
	return said.String(), nil
}

// ReadResponses reads a stream of the Responses API to its end.
func ReadResponses(ctx context.Context, c openai.Client) (string, error) {
	s := c.Responses.NewStreaming(ctx, responseParams())
	defer func() { _ = s.Close() }() // read to its end, or broken
	var (
		said   adapter.Transcript
		failed error
	)
	for s.Next() {
		switch event := s.Current(); event.Type {
		case "response.output_text.delta":
			said.Text(event.Delta)
		case "response.output_item.added":
			said.Call(event.Item.Name, "")
		case "response.function_call_arguments.delta":
			said.Call("", event.Delta)
		case "response.failed", "response.incomplete", "error": // no error to the SDK
			failed = unfinished(event.Type)
		}
	}
	return said.String(), errors.Join(s.Err(), failed)
}

func openaiStatus(err error) int {
	var e *openai.Error
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}
