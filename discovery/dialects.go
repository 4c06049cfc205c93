package discovery

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// azureAPIVersion is the generally available version of Azure's data plane
// that lists models, used when the base URL names none.
const azureAPIVersion = "2024-10-21"

var dialects = map[string]dialect{
	"openai":     openAI("https://api.openai.com/v1"),
	"vllm":       openAI(""),
	"groq":       openAI("https://api.groq.com/openai/v1"),
	"mistral":    openAI("https://api.mistral.ai/v1"),
	"xai":        openAI("https://api.x.ai/v1"),
	"deepseek":   openAI("https://api.deepseek.com"),
	"openrouter": openRouter(),
	"azure":      azure(),
	"anthropic":  anthropic(),
	"gemini":     gemini(),
	"ollama":     ollama(),
	"cohere":     cohere(),
}

func openAI(base string) dialect {
	return dialect{
		base:    base,
		resolve: func(u *url.URL) { u.Path += "/models" },
		keys:    []string{"data"},
		model:   openAIModel,
	}
}

// openRouter lists text models only unless told otherwise.
func openRouter() dialect {
	d := openAI("https://openrouter.ai/api/v1")
	d.resolve = func(u *url.URL) {
		u.Path += "/models"
		setDefault(u, "output_modalities", "all")
	}
	return d
}

// azure takes the resource's address, with or without /openai, an
// /openai/v1 base, or the base of one deployment.
func azure() dialect {
	d := openAI("")
	d.resolve = func(u *url.URL) {
		path, _, _ := strings.Cut(u.Path, "/deployments/")
		switch {
		case strings.HasSuffix(path, "/openai/v1"):
			u.Path = path + "/models"
			return // the v1 API has no dated versions
		case strings.HasSuffix(path, "/openai"):
			u.Path = path + "/models"
		default:
			u.Path = path + "/openai/models"
		}
		setDefault(u, "api-version", azureAPIVersion)
	}
	return d
}

func anthropic() dialect {
	return dialect{
		base: "https://api.anthropic.com",
		resolve: func(u *url.URL) {
			u.Path = strings.TrimSuffix(u.Path, "/v1") + "/v1/models"
			setDefault(u, "limit", "1000")
		},
		header: func(h http.Header) {
			if h.Get("Anthropic-Version") == "" {
				h.Set("Anthropic-Version", "2023-06-01")
			}
		},
		cursor: "after_id",
		more:   "has_more",
		next:   "last_id",
		keys:   []string{"data"},
		model:  openAIModel,
	}
}

// gemini takes the native base, with or without a version, or that of the
// OpenAI-compatible surface, whose list has that style.
func gemini() dialect {
	return dialect{
		base: "https://generativelanguage.googleapis.com",
		resolve: func(u *url.URL) {
			switch {
			case strings.HasSuffix(u.Path, "/v1beta"), strings.HasSuffix(u.Path, "/v1"), strings.HasSuffix(u.Path, "/openai"):
				u.Path += "/models"
			default:
				u.Path += "/v1beta/models"
			}
			if !strings.HasSuffix(u.Path, "/openai/models") {
				setDefault(u, "pageSize", "1000")
			}
		},
		cursor: "pageToken",
		next:   "nextPageToken",
		keys:   []string{"models", "data"},
		model: func(e entry) Model {
			id := cmp.Or(e.Name, e.ID)
			return Model{ID: strings.TrimPrefix(string(id), "models/"), OwnedBy: string(e.OwnedBy)}
		},
	}
}

// ollama takes the server's address or its OpenAI-compatible base.
func ollama() dialect {
	return dialect{
		base:    "http://localhost:11434",
		resolve: func(u *url.URL) { u.Path = trimAny(u.Path, "/v1", "/api") + "/api/tags" },
		keys:    []string{"models"},
		model: func(e entry) Model {
			return Model{ID: string(cmp.Or(e.Model, e.Name)), Created: e.ModifiedAt.Time}
		},
	}
}

func cohere() dialect {
	return dialect{
		base: "https://api.cohere.com",
		resolve: func(u *url.URL) {
			u.Path = trimAny(u.Path, "/compatibility/v1", "/v1", "/v2") + "/v1/models"
			setDefault(u, "page_size", "1000")
		},
		cursor: "page_token",
		next:   "next_page_token",
		keys:   []string{"models"},
		model:  func(e entry) Model { return Model{ID: string(e.Name)} },
	}
}

func openAIModel(e entry) Model {
	created := e.CreatedAt.Time
	if created.IsZero() {
		created = e.Created.Time
	}
	return Model{ID: string(e.ID), OwnedBy: string(e.OwnedBy), Created: created}
}

func setDefault(u *url.URL, key, value string) {
	q := u.Query()
	if q.Get(key) == "" {
		q.Set(key, value)
		u.RawQuery = q.Encode()
	}
}

func trimAny(path string, suffixes ...string) string {
	for _, s := range suffixes {
		if t, ok := strings.CutSuffix(path, s); ok {
			return t
		}
	}
	return path
}
