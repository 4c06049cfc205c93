package discovery

import (
	"net/url"
	"slices"
	"strings"
)

// catalogs lists a few long-lived models a type, enough to serve from while
// the upstream's own list cannot be had. As of the middle of 2026; the live
// list replaces it at the first answer.
var catalogs = map[string][]string{
	"openai":    {"gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini", "gpt-5", "gpt-5-mini", "text-embedding-3-large", "text-embedding-3-small"},
	"anthropic": {"claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5"},
	"gemini":    {"gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.5-pro", "gemini-embedding-001"},
	"groq":      {"llama-3.1-8b-instant", "llama-3.3-70b-versatile", "openai/gpt-oss-120b", "openai/gpt-oss-20b"},
	"mistral":   {"codestral-latest", "mistral-embed", "mistral-large-latest", "mistral-medium-latest", "mistral-small-latest"},
	"deepseek":  {"deepseek-chat", "deepseek-reasoner"},
	"xai":       {"grok-3", "grok-3-mini", "grok-4"},
	"cohere":    {"command-a-03-2025", "command-r-plus-08-2024", "embed-v4.0", "rerank-v3.5"},
}

// Catalog returns what a provider type is known to offer, for
// [Provider.Catalog], if baseURL is the type's own ("" included); nil for any
// other upstream, since a compatible server offers models of its own, and for
// types without a catalogue.
func Catalog(providerType, baseURL string) []string {
	kind := strings.ToLower(strings.TrimSpace(providerType))
	own := dialects[kind].base
	if own == "" || baseURL != "" && !sameUpstream(own, baseURL) {
		return nil
	}
	return slices.Clone(catalogs[kind])
}

// sameUpstream compares scheme and host: the path of a base URL is written in
// several ways.
func sameUpstream(a, b string) bool {
	ua, err := url.Parse(a)
	if err != nil {
		return false
	}
	ub, err := url.Parse(b)
	return err == nil && sameOrigin(ua, ub)
}
