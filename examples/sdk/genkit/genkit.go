package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"github.com/firebase/genkit/go/plugins/ollama"
	openai "github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

func askOpenAI(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	plugin := &compat_oai.OpenAICompatible{
		Provider: "demo",
		APIKey:   adapter.Key,
		BaseURL:  baseURL + "/v1",
		Opts:     []option.RequestOption{option.WithHTTPClient(hc), option.WithMaxRetries(0)},
	}
	plugin.Init(ctx)
	return askGenkit(ctx, plugin.DefineModel("demo", adapter.Model, ai.ModelOptions{Supports: &compat_oai.BasicText}), stream)
}

// askOllama calls a plugin that takes no client: it uses
// http.DefaultTransport, see adapter.WithTransport. Of a stream the plugin looks
// neither at the status nor at an error that is told in the body, so that
// whatever is no success has to be an error to it.
func askOllama(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	ctx, cancel := context.WithCancel(adapter.WithTransport(ctx, successOnly{hc.Transport}))
	defer cancel()
	plugin := &ollama.Ollama{ServerAddress: baseURL}
	g := genkit.Init(ctx, genkit.WithPlugins(plugin))
	m := plugin.DefineModel(g, ollama.ModelDefinition{Name: adapter.Model, Type: "chat"}, &ai.ModelOptions{Supports: &compat_oai.BasicText})
	return askGenkit(ctx, m, stream)
}

// successOnly is a transport for clients that do not look at the status: an
// answer of 400 or more is an error.
type successOnly struct{ base http.RoundTripper }

func (t successOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	return nil, errors.Join(fmt.Errorf("status %d", resp.StatusCode), resp.Body.Close())
}

func askGenkit(ctx context.Context, m ai.Model, stream bool) (string, error) {
	var (
		heard adapter.Transcript
		hear  ai.ModelStreamCallback
	)
	if stream {
		hear = func(_ context.Context, chunk *ai.ModelResponseChunk) error {
			parts(&heard, chunk.Content)
			return nil
		}
	}
	answer, err := m.Generate(ctx, &ai.ModelRequest{Messages: []*ai.Message{ai.NewUserTextMessage(adapter.Prompt)}}, hear)
	if err != nil {
		return heard.String(), err
	}
	var said adapter.Transcript
	parts(&said, answer.Message.Content)
	return said.String(), nil
}

func parts(t *adapter.Transcript, parts []*ai.Part) {
	for _, p := range parts {
		if !p.IsToolRequest() {
			t.Text(p.Text)
			continue
		}
		args, ok := p.ToolRequest.Input.(string)
		if !ok {
			args = adapter.JSON(p.ToolRequest.Input)
		}
		t.Call(p.ToolRequest.Name, args)
	}
}

func openAIStatus(err error) int {
	var e *openai.Error
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}
