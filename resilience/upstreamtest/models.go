package upstreamtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ModelList answers a request for a model list with these models, in the shape
// and the pages that the request asks for: Ollama (/api/tags), Anthropic (an
// anthropic-version header; limit and after_id), Gemini (/v1beta…/models or an
// x-goog-api-key header; pageSize and pageToken), Cohere (page_size or
// page_token), else OpenAI, without pages.
func ModelList(ids ...string) Step {
	ids = slices.Clone(ids)
	return Step{content: func(_ *Step, r *Request) content { return modelsContent(ids, r) }}
}

func modelsContent(ids []string, r *Request) content {
	q := r.Query()
	var body string
	switch {
	case strings.Contains(r.Path, "/api/tags"):
		body = fmt.Sprintf(`{"models":[%s]}`, each(ids, `{"name":%[1]s,"model":%[1]s,"modified_at":"`+createdText+`","size":1,"digest":"0","details":{}}`))
	case r.Header.Get("Anthropic-Version") != "":
		start := slices.Index(ids, q.Get("after_id")) + 1
		page, more := paged(ids, start, q.Get("limit"), 20)
		first, last := "null", "null"
		if len(page) > 0 {
			first, last = quote(page[0]), quote(page[len(page)-1])
		}
		body = fmt.Sprintf(`{"data":[%s],"has_more":%t,"first_id":%s,"last_id":%s}`,
			each(page, `{"type":"model","id":%[1]s,"display_name":%[1]s,"created_at":"`+createdText+`"}`), more != 0, first, last)
	case strings.Contains(r.Path, "/v1beta"), r.Header.Get("X-Goog-Api-Key") != "":
		start, _ := strconv.Atoi(q.Get("pageToken")) // no number: from the start
		page, more := paged(ids, start, q.Get("pageSize"), 50)
		body = fmt.Sprintf(`{"models":[%s]%s}`, each(prefixed(page),
			`{"name":%s,"inputTokenLimit":1000,"outputTokenLimit":1000,"supportedGenerationMethods":["generateContent"]}`), token("nextPageToken", more))
	case q.Has("page_size"), q.Has("page_token"):
		start, _ := strconv.Atoi(q.Get("page_token")) // no number: from the start
		page, more := paged(ids, start, q.Get("page_size"), 20)
		body = fmt.Sprintf(`{"models":[%s]%s}`, each(page, `{"name":%s,"endpoints":["chat"]}`), token("next_page_token", more))
	default:
		body = fmt.Sprintf(`{"object":"list","data":[%s]}`, each(ids, fmt.Sprintf(`{"id":%%s,"object":"model","created":%d,"owned_by":"upstreamtest"}`, created)))
	}
	return content{mime: jsonType, events: []event{{data: []byte(body), text: true}}}
}

// paged is one page and where the next one starts; 0 if there is none.
func paged(ids []string, start int, size string, standard int) ([]string, int) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 {
		n = standard
	}
	start = min(max(start, 0), len(ids))
	end := min(start+n, len(ids))
	if end == len(ids) {
		return ids[start:end], 0
	}
	return ids[start:end], end
}

func token(name string, next int) string {
	if next == 0 {
		return ""
	}
	return fmt.Sprintf(`,"%s":"%d"`, name, next)
}

func prefixed(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = "models/" + id
	}
	return out
}

// each formats every id, as a JSON string, and joins the results.
func each(ids []string, layout string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = fmt.Sprintf(layout, quote(id))
	}
	return strings.Join(out, ",")
}
