package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	bifrost "github.com/maximhq/bifrost/core"
	"github.com/maximhq/bifrost/core/schemas"
)

// bifrostAccount is what Bifrost asks for keys and addresses. The backup is a
// provider of another name over the same API.
type bifrostAccount struct{ site *site }

const bifrostBackup = schemas.Groq

func (bifrostAccount) GetConfiguredProviders() ([]schemas.ModelProvider, error) {
	return []schemas.ModelProvider{schemas.OpenAI, bifrostBackup}, nil
}

func (bifrostAccount) GetKeysForProvider(_ context.Context, p schemas.ModelProvider) ([]schemas.Key, error) {
	key := primaryKey
	if p == bifrostBackup {
		key = backupKey
	}
	return []schemas.Key{{ID: key, Name: key, Value: *schemas.NewEnvVar(key), Weight: 1}}, nil
}

func (a bifrostAccount) GetConfigForProvider(p schemas.ModelProvider) (*schemas.ProviderConfig, error) {
	url := a.site.primary.URL
	if p == bifrostBackup {
		url = a.site.backup.URL
	}
	return &schemas.ProviderConfig{NetworkConfig: schemas.NetworkConfig{
		BaseURL: url, DefaultRequestTimeoutInSeconds: int(perRequest.Seconds()),
		MaxRetries: retries, RetryBackoffInitial: time.Second, RetryBackoffMax: 30 * time.Second,
	}}, nil
}

func openBifrost(s *site, _ http.RoundTripper) (ask, error) {
	client, err := bifrost.Init(context.Background(), schemas.BifrostConfig{
		Account: bifrostAccount{s}, Logger: bifrost.NewDefaultLogger(schemas.LogLevelError),
	})
	if err != nil {
		return nil, err
	}
	hello := "hello"
	return func(ctx context.Context) (r result) {
		bctx, cancel := schemas.NewBifrostContextWithCancel(ctx)
		defer cancel()
		chunks, failure := client.ChatCompletionStreamRequest(bctx, &schemas.BifrostChatRequest{
			Provider: schemas.OpenAI, Model: primaryModel,
			Input:     []schemas.ChatMessage{{Role: schemas.ChatMessageRoleUser, Content: &schemas.ChatMessageContent{ContentStr: &hello}}},
			Fallbacks: []schemas.Fallback{{Provider: bifrostBackup, Model: backupModel}},
		})
		if failure != nil {
			return bifrostFailure(r, failure)
		}
		r.status = http.StatusOK
		for c := range chunks {
			switch {
			case c.BifrostError != nil && r.err == nil:
				r = bifrostFailure(r, c.BifrostError)
			case c.BifrostChatResponse != nil:
				r.addBifrost(c.BifrostChatResponse)
			}
		}
		if r.err == nil && ctx.Err() != nil {
			r.err = ctx.Err()
		}
		return r
	}, nil
}

func (r *result) addBifrost(c *schemas.BifrostChatResponse) {
	for _, choice := range c.Choices {
		if s := choice.ChatStreamResponseChoice; s != nil && s.Delta != nil && s.Delta.Content != nil {
			r.text += *s.Delta.Content
		}
	}
	if c.Model != "" {
		r.model = c.Model
	}
	if c.Usage != nil {
		r.in, r.out = c.Usage.PromptTokens, c.Usage.CompletionTokens
	}
}

func bifrostFailure(r result, e *schemas.BifrostError) result {
	r.err, r.status = errors.New("bifrost reports an error"), 0
	if e.StatusCode != nil {
		r.status = *e.StatusCode
	}
	return r
}
