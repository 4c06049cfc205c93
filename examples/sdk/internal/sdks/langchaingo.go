package sdks

import (
	"context"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

// LangChain is a model of langchaingo. It has no retries of its own.
func LangChain(client *http.Client, baseURL, model string) (*openai.LLM, error) {
	return openai.New(
		openai.WithToken(key),
		openai.WithModel(model),
		openai.WithBaseURL(baseURL+"/v1"),
		openai.WithHTTPClient(client),
	)
}

func askLangChain(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	llm, err := LangChain(hc, baseURL, Model)
	if err != nil {
		return "", err
	}
	var (
		heard strings.Builder
		opts  []llms.CallOption
	)
	if stream {
		opts = append(opts, llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
			heard.Write(chunk)
			return nil
		}))
	}
	answer, err := llm.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, prompt)}, opts...)
	if err != nil {
		return heard.String(), err
	}
	var said adapter.Transcript
	for _, choice := range answer.Choices {
		said.Text(choice.Content)
		for _, tool := range choice.ToolCalls {
			said.Call(tool.FunctionCall.Name, tool.FunctionCall.Arguments)
		}
	}
	return said.String(), nil
}
