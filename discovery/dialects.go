package discovery

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
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
		decode:  decodeOpenAI,
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
		decode: func(b []byte) (page, error) {
			p, err := decodeOpenAI(b)
			if err != nil {
				return page{}, err
			}
			var paging struct {
				HasMore any `json:"has_more"`
				LastID  any `json:"last_id"`
			}
			if err := json.Unmarshal(b, &paging); err != nil {
				return page{}, &ListError{Reason: ReasonMalformed}
			}
			p.more, _ = paging.HasMore.(bool)
			if p.more {
				p.next, _ = paging.LastID.(string)
			}
			return p, nil
		},
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
		decode: decoder("nextPageToken", func(e entry) Model {
			id := cmp.Or(e.str("name"), e.str("id"))
			return Model{ID: strings.TrimPrefix(id, "models/"), OwnedBy: e.str("owned_by")}
		}, "models", "data"),
	}
}

// ollama takes the server's address or its OpenAI-compatible base.
func ollama() dialect {
	return dialect{
		base:    "http://localhost:11434",
		resolve: func(u *url.URL) { u.Path = trimAny(u.Path, "/v1", "/api") + "/api/tags" },
		decode: decoder("", func(e entry) Model {
			created, _ := time.Parse(time.RFC3339, e.str("modified_at"))
			return Model{ID: cmp.Or(e.str("model"), e.str("name")), Created: created}
		}, "models"),
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
		decode: decoder("next_page_token", func(e entry) Model { return Model{ID: e.str("name")} }, "models"),
	}
}

// decoder decodes a page whose list is under one of the keys, and whose cursor,
// if it has any, is under the key cursor; read takes an entry apart.
func decoder(cursor string, read func(entry) Model, keys ...string) func([]byte) (page, error) {
	return func(b []byte) (page, error) {
		l, err := decodeList(b, keys...)
		if err != nil {
			return page{}, err
		}
		return l.page(cursor, read)
	}
}

// decodeOpenAI reads {"data":[{"id":…}]}; a bare array of entries, as some
// servers answer, is taken too.
var decodeOpenAI = decoder("", func(e entry) Model {
	return Model{ID: e.str("id"), OwnedBy: e.str("owned_by"), Created: e.created()}
}, "data")

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
