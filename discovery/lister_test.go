package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/discovery"
)

// fetch lists through a client in memory that answers each URL from pages.
func fetch(t *testing.T, kind, base string, pages map[string]string) ([]discovery.Model, []string, error) {
	t.Helper()
	var asked []string
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		u := req.URL.String()
		asked = append(asked, u)
		body, ok := pages[u]
		if !ok {
			return answer(req, 404, "application/json", `{"error":{"message":"no such page"}}`), nil
		}
		return answer(req, 200, "application/json", body), nil
	})}
	l, err := discovery.NewLister(discovery.ListerConfig{Type: kind, Client: client, BaseURL: base, Header: http.Header{"Authorization": {"Bearer s3cret"}}})
	require.NoError(t, err)
	ms, err := l.ListModels(t.Context())
	return ms, asked, err
}

func ids(ms []discovery.Model) []string {
	out := []string{}
	for _, m := range ms {
		out = append(out, m.ID)
	}
	return out
}

func TestListerDialects(t *testing.T) {
	const data = `{"object":"list","data":[{"id":"a","object":"model","created":1700000000,"owned_by":"o"},{"id":"b"}]}`
	for _, tc := range []struct{ kind, base, url, body string }{
		{"openai", "", "https://api.openai.com/v1/models", data},
		{"OpenAI", "http://h/v1/", "http://h/v1/models", data},
		{"vllm", "http://h:8000/v1", "http://h:8000/v1/models", `{"object":"list","data":[{"id":"a","max_model_len":4096,"root":"/m","permission":[{}]},{"id":"b"}]}`},
		{"openrouter", "", "https://openrouter.ai/api/v1/models?output_modalities=all", data},
		{"groq", "", "https://api.groq.com/openai/v1/models", data},
		{"mistral", "", "https://api.mistral.ai/v1/models", data},
		{"xai", "", "https://api.x.ai/v1/models", data},
		{"deepseek", "", "https://api.deepseek.com/models", data},
		{"azure", "https://r.openai.azure.com", "https://r.openai.azure.com/openai/models?api-version=2024-10-21", data},
		{"azure", "https://r.openai.azure.com/openai?api-version=2025-01-01", "https://r.openai.azure.com/openai/models?api-version=2025-01-01", data},
		{"azure", "https://r.openai.azure.com/openai/deployments/d", "https://r.openai.azure.com/openai/models?api-version=2024-10-21", data},
		{"azure", "https://r.openai.azure.com/openai/v1", "https://r.openai.azure.com/openai/v1/models", data},
		{"anthropic", "", "https://api.anthropic.com/v1/models?limit=1000", `{"data":[{"type":"model","id":"a","created_at":"2025-02-19T00:00:00Z"},{"id":"b"}],"has_more":false,"last_id":"b"}`},
		{"anthropic", "http://h/v1", "http://h/v1/models?limit=1000", data},
		{"gemini", "", "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000", `{"models":[{"name":"models/a"},{"name":"models/b"}]}`},
		{"gemini", "http://h/v1beta", "http://h/v1beta/models?pageSize=1000", `{"models":[{"name":"models/a"},{"name":"models/b"}],"nextPageToken":""}`},
		{"gemini", "http://h/v1beta/openai/", "http://h/v1beta/openai/models", `{"data":[{"id":"models/a"},{"id":"models/b"}]}`},
		{"ollama", "", "http://localhost:11434/api/tags", `{"models":[{"name":"a","model":"a","modified_at":"2025-01-01T00:00:00.5+02:00"},{"name":"b"}]}`},
		{"ollama", "http://h:1/v1", "http://h:1/api/tags", `{"models":[{"name":"a"},{"name":"b"}]}`},
		{"cohere", "", "https://api.cohere.com/v1/models?page_size=1000", `{"models":[{"name":"a","endpoints":["chat"]},{"name":"b"}],"next_page_token":""}`},
		{"cohere", "https://api.cohere.ai/compatibility/v1", "https://api.cohere.ai/v1/models?page_size=1000", `{"models":[{"name":"a"},{"name":"b"}]}`},
		{"openai", "http://h", "http://h/models", `[{"id":"a"},{"id":"b"}]`},
	} {
		t.Run(tc.kind+" "+tc.base, func(t *testing.T) {
			ms, asked, err := fetch(t, tc.kind, tc.base, map[string]string{tc.url: tc.body})
			require.NoError(t, err, "asked for %v", asked)
			assert.Equal(t, []string{"a", "b"}, ids(ms))
			assert.Equal(t, []string{tc.url}, asked)
		})
	}
}

func TestListerFields(t *testing.T) {
	ms, _, err := fetch(t, "openai", "http://h", map[string]string{"http://h/models": `{"data":[{"id":"a","created":1700000000,"owned_by":"o"}]}`})
	require.NoError(t, err)
	assert.Equal(t, []discovery.Model{{ID: "a", OwnedBy: "o", Created: time.Unix(1700000000, 0).UTC()}}, ms)
}

func TestListerRefusesWhatItCannotAsk(t *testing.T) {
	for kind, base := range map[string]string{"nope": "http://h", "": "http://h", "vllm": "", "azure": "", "openai": "ftp://h", "groq": "h/v1", "xai": "http://u:pa ss@h%zz"} {
		_, err := discovery.NewLister(discovery.ListerConfig{Type: kind, BaseURL: base})
		require.Error(t, err, kind)
		assert.NotContains(t, err.Error(), "pa ss")
	}
	_, err := discovery.NewLister(discovery.ListerConfig{Type: "nope"})
	assert.ErrorContains(t, err, "anthropic, azure, cohere")
}

// The default transport is replaced by a chain for clients that take none.
func TestListerGoesByWhatTheDefaultTransportWas(t *testing.T) {
	given := http.DefaultTransport
	defer func() { http.DefaultTransport = given }()
	http.DefaultTransport = roundTripper(func(req *http.Request) (*http.Response, error) {
		return answer(req, 200, "application/json", `{"data":[{"id":"m"}]}`), nil
	})
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai"})
	require.NoError(t, err)
	http.DefaultTransport = chained{roundTripper(func(*http.Request) (*http.Response, error) { return nil, errDown })}
	ms, err := l.ListModels(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"m"}, ids(ms))
	for _, c := range []*http.Client{nil, {}} {
		_, err = discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: c})
		require.ErrorContains(t, err, "http.DefaultTransport is a stack")
	}
	_, err = discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: &http.Client{Transport: given}})
	require.NoError(t, err)
}

// chained makes clients, as stacks, chains and routers do.
type chained struct{ http.RoundTripper }

func (c chained) Client() *http.Client { return &http.Client{Transport: c} }

func TestListerPaging(t *testing.T) {
	for _, tc := range []struct {
		name, kind string
		pages      map[string]string
	}{
		{"anthropic", "anthropic", map[string]string{
			"http://h/v1/models?limit=1000":                `{"data":[{"id":"a"}],"has_more":true,"first_id":"a","last_id":"a&x"}`,
			"http://h/v1/models?after_id=a%26x&limit=1000": `{"data":[{"id":"b"}],"has_more":false,"last_id":"b"}`,
		}},
		{"gemini", "gemini", map[string]string{
			"http://h/v1beta/models?pageSize=1000":              `{"models":[{"name":"models/a"}],"nextPageToken":"t1"}`,
			"http://h/v1beta/models?pageSize=1000&pageToken=t1": `{"models":[{"name":"models/b"}]}`,
		}},
		{"cohere", "cohere", map[string]string{
			"http://h/v1/models?page_size=1000":               `{"models":[{"name":"a"}],"next_page_token":"t1"}`,
			"http://h/v1/models?page_size=1000&page_token=t1": `{"models":[{"name":"b"}],"next_page_token":null}`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ms, _, err := fetch(t, tc.kind, "http://h", tc.pages)
			require.NoError(t, err)
			assert.Equal(t, []string{"a", "b"}, ids(ms))
		})
	}
}

func TestListerFaults(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, tc := range []struct{ name, kind, body, reason string }{
		{"error in 200", "openai", `{"error":{"code":500,"message":"secret text"}}`, discovery.ReasonHidden},
		{"error beside a list", "openai", `{"error":"boom","data":[{"id":"a"}]}`, discovery.ReasonHidden},
		{"html", "openai", "\ufeff \n<!doctype html><p>secret text", discovery.ReasonHTML},
		{"null", "openai", `{"data":null}`, discovery.ReasonNoList},
		{"no list", "openai", `{"ok":true}`, discovery.ReasonNoList},
		{"json null", "openai", `null`, discovery.ReasonNoList},
		{"nothing", "openai", ``, discovery.ReasonNoList},
		{"cut off", "openai", `{"data":[{"id":"a"}`, discovery.ReasonMalformed},
		{"two values", "openai", `{"data":[{"id":"a"}]} {"data":[]}`, discovery.ReasonMalformed},
		{"a string", "openai", `"secret text"`, discovery.ReasonMalformed},
		{"no array", "openai", `{"data":{"id":"a"}}`, discovery.ReasonMalformed},
		{"bad entries only", "openai", `{"data":[{},null,{"id":7},{"id":""},{"id":"` + long + `"},{"id":"a\nb"}]}`, discovery.ReasonMalformed},
		{"anthropic repeats", "anthropic", `{"data":[{"id":"a"}],"has_more":true,"last_id":"a"}`, discovery.ReasonCursor},
		{"anthropic without cursor", "anthropic", `{"data":[{"id":"a"}],"has_more":true,"last_id":null}`, discovery.ReasonCursor},
		{"gemini repeats", "gemini", `{"models":[{"name":"a"}],"nextPageToken":"t"}`, discovery.ReasonCursor},
		{"cohere repeats", "cohere", `{"models":[{"name":"a"}],"next_page_token":"t"}`, discovery.ReasonCursor},
		{"too large", "openai", `{"data":[{"id":"a"}]}` + strings.Repeat(" ", 16<<20), discovery.ReasonTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				return answer(req, 200, "application/json", tc.body), nil
			})}
			l, err := discovery.NewLister(discovery.ListerConfig{Type: tc.kind, Client: client, BaseURL: "http://h"})
			require.NoError(t, err)
			ms, err := l.ListModels(t.Context())
			var le *discovery.ListError
			require.ErrorAs(t, err, &le)
			assert.Equal(t, tc.reason, le.Reason)
			assert.Nil(t, ms)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestListerSkipsBadEntries(t *testing.T) {
	ms, _, err := fetch(t, "openai", "http://h", map[string]string{
		"http://h/models": `{"error":null,"data":[{"id":"a","created":"soon","owned_by":{}},{"id":7},null,"x",[],{"id":"b","created":1e99},{"nm":1}]}`,
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, ids(ms))
}

func TestListerBoundsPages(t *testing.T) {
	n := 0
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		n++
		return answer(req, 200, "application/json", fmt.Sprintf(`{"models":[{"name":"m%d"}],"nextPageToken":"t%d"}`, n, n)), nil
	})}
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "gemini", Client: client, BaseURL: "http://h"})
	require.NoError(t, err)
	_, err = l.ListModels(t.Context())
	var le *discovery.ListError
	require.ErrorAs(t, err, &le)
	assert.Equal(t, discovery.ReasonTooLarge, le.Reason)
	assert.Equal(t, 100, n)
}

func TestListerFailingPageFailsTheList(t *testing.T) {
	ms, asked, err := fetch(t, "gemini", "http://h", map[string]string{
		"http://h/v1beta/models?pageSize=1000": `{"models":[{"name":"models/a"}],"nextPageToken":"t1"}`,
	})
	require.Error(t, err)
	assert.Nil(t, ms)
	assert.Len(t, asked, 2)
}

func TestListerHidesURLAndStatusText(t *testing.T) {
	client := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("boom") })}
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "gemini", Client: client, BaseURL: "http://h?key=s3cret"})
	require.NoError(t, err)
	_, err = l.ListModels(t.Context())
	require.EqualError(t, err, "list models: connection failed")
}

func TestListerHeaders(t *testing.T) {
	var got []http.Header
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		got = append(got, req.Header.Clone())
		next := ""
		if len(got) == 1 {
			next = `,"has_more":true,"last_id":"a"`
		}
		return answer(req, 200, "application/json", `{"data":[{"id":"a"}]`+next+`}`), nil
	})}
	h := http.Header{"X-Api-Key": {"k"}}
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "anthropic", Client: client, BaseURL: "http://h", Header: h})
	require.NoError(t, err)
	h.Set("X-Api-Key", "changed later")
	_, err = l.ListModels(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 2)
	for _, g := range got {
		assert.Equal(t, "k", g.Get("X-Api-Key"))
		assert.Equal(t, "2023-06-01", g.Get("Anthropic-Version"))
		assert.Equal(t, "application/json", g.Get("Accept"))
	}
	assert.Empty(t, h.Get("Accept"), "the caller's header is not written to")
}

// A redirect to another host, port or scheme carries no credential of any
// name, nor does one that comes back from there; within the origin they stay.
func TestListerRedirects(t *testing.T) {
	for _, tc := range []struct {
		name string
		hops []string
		keep bool
	}{
		{"same origin", []string{"http://a.test/x"}, true},
		{"other host", []string{"http://b.test/x"}, false},
		{"subdomain", []string{"http://sub.a.test/x"}, false},
		{"other port", []string{"http://a.test:8080/x"}, false},
		{"other scheme", []string{"https://a.test/x"}, false},
		{"there and back", []string{"http://b.test/x", "http://a.test/y"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, last := 0, http.Header(nil)
			client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				last = req.Header
				if step < len(tc.hops) {
					resp := answer(req, http.StatusTemporaryRedirect, "", "")
					resp.Header.Set("Location", tc.hops[step])
					step++
					return resp, nil
				}
				return answer(req, 200, "application/json", `{"data":[{"id":"a"}]}`), nil
			})}
			h := http.Header{"Authorization": {"s"}, "X-Api-Key": {"s"}, "Api-Key": {"s"}, "X-Goog-Api-Key": {"s"}, "Cookie": {"s"}, "X-Custom": {"s"}}
			l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: client, BaseURL: "http://a.test?key=s3cret", Header: h})
			require.NoError(t, err)
			_, err = l.ListModels(t.Context())
			require.NoError(t, err)
			assert.Empty(t, last.Get("Referer"))
			for k := range h {
				assert.Equal(t, tc.keep, last.Get(k) != "", k)
			}
		})
	}
}

func TestListerTimeoutAndCut(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/cut") {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"data":[{"id":"a"}`)
			return
		}
		<-req.Context().Done()
	}))
	defer srv.Close()
	l, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: srv.Client(), BaseURL: srv.URL + "/cut"})
	require.NoError(t, err)
	_, err = l.ListModels(t.Context())
	var le *discovery.ListError
	require.ErrorAs(t, err, &le)
	assert.Equal(t, discovery.ReasonTransport, le.Reason)

	l, err = discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: srv.Client(), BaseURL: srv.URL})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = l.ListModels(ctx)
	require.ErrorAs(t, err, &le)
	assert.Equal(t, discovery.ReasonTimeout, le.Reason)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
