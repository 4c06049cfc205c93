package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Provider is one configured upstream. Its credentials are reached by
// [Provider.Header] alone: printing, logging or encoding a Provider shows
// none. It is a value, safe for concurrent use.
type Provider struct {
	Name    string   // as configured
	Type    string   // "openai", "anthropic", …: which credentials and which model list; never empty
	BaseURL string   // what an SDK would take; never empty
	Models  []string // configured models; nil for none
	// ModelsMode is [discovery.ModeFallback] or [discovery.ModeAllowlist].
	ModelsMode string

	auth auth
	cred *credential
	why  string // why it is not available
}

// credential keeps a key two pointers away: fmt, given a struct that holds a
// Provider in an unexported field, calls no methods and follows one.
type credential struct{ key *string }

// auth says which headers carry a provider's key.
type auth int

const (
	authBearer    auth = iota // Authorization: Bearer …
	authAnthropic             // x-api-key, and the version of the API
	authGoogle                // x-goog-api-key
	authAzure                 // api-key
)

// anthropicVersion is the one version of the Messages API there is.
const anthropicVersion = "2023-06-01"

// A providerType is what is known of a type: its own base URL, "" for none,
// and its credentials.
type providerType struct {
	name, base string
	auth       auth
}

var providerTypes = []providerType{
	{"openai", "https://api.openai.com/v1", authBearer},
	{"anthropic", "https://api.anthropic.com", authAnthropic},
	{"gemini", "https://generativelanguage.googleapis.com", authGoogle},
	{"ollama", "http://localhost:11434/v1", authBearer},
	{"openrouter", "https://openrouter.ai/api/v1", authBearer},
	{"groq", "https://api.groq.com/openai/v1", authBearer},
	{"mistral", "https://api.mistral.ai/v1", authBearer},
	{"deepseek", "https://api.deepseek.com", authBearer},
	{"xai", "https://api.x.ai/v1", authBearer},
	{"cohere", "https://api.cohere.com", authBearer},
	{"azure", "", authAzure},
	{"vllm", "http://localhost:8000/v1", authBearer},
}

func typeOf(name string) (providerType, bool) {
	for _, t := range providerTypes {
		if t.name == strings.ToLower(name) {
			return t, true
		}
	}
	return providerType{}, false
}

func typeNames() []string {
	var all []string
	for _, t := range providerTypes {
		all = append(all, t.name)
	}
	return all
}

// Header returns the headers that carry the provider's credentials, as its
// type wants them, in a map of the caller's own. It is empty where no key is
// configured, but for what the API asks of everyone.
func (p Provider) Header() http.Header {
	h := http.Header{}
	if p.auth == authAnthropic {
		h.Set("Anthropic-Version", anthropicVersion)
	}
	if p.cred == nil {
		return h
	}
	key := *p.cred.key
	switch p.auth {
	case authAnthropic:
		h.Set("X-Api-Key", key)
	case authGoogle:
		h.Set("X-Goog-Api-Key", key)
	case authAzure:
		h.Set("Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
	return h
}

// Available reports whether the provider can be called: not where its api_key
// names an environment variable that is unset. It fits
// failover.Target.Available.
func (p Provider) Available() bool { return p.why == "" }

// Unavailable says why the provider cannot be called, "" where it can.
func (p Provider) Unavailable() string { return p.why }

// String names the provider, its type and its address, without credentials.
func (p Provider) String() string {
	s := fmt.Sprintf("%s (%s) %s", p.Name, p.Type, wire.RedactURL(p.BaseURL))
	if p.why != "" {
		s += " unavailable: " + p.why
	}
	return s
}

// Format prints the provider as [Provider.String] does, whatever the verb.
func (p Provider) Format(f fmt.State, verb rune) { wire.Print(f, verb, p.String()) }

// LogValue is the provider as a group, without credentials.
func (p Provider) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", p.Name), slog.String("type", p.Type),
		slog.String("base_url", wire.RedactURL(p.BaseURL)), slog.Bool("available", p.Available()))
}

// MarshalJSON encodes what [Provider.String] shows and the models.
func (p Provider) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name        string   `json:"name"`
		Type        string   `json:"type"`
		BaseURL     string   `json:"base_url"`
		Models      []string `json:"models,omitempty"`
		ModelsMode  string   `json:"models_mode"`
		Unavailable string   `json:"unavailable,omitempty"`
	}{p.Name, p.Type, wire.RedactURL(p.BaseURL), p.Models, p.ModelsMode, p.why})
}
