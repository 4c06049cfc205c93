package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// Bounds of one fetch. OpenRouter's list of hundreds of models takes hundreds
// of kilobytes; nothing real comes near these.
const (
	maxPageBytes = 8 << 20
	maxListBytes = 32 << 20
	maxPages     = 100
	maxModels    = 20_000
	maxRedirects = 5
)

// dialect is how one kind of API lists its models.
type dialect struct {
	base    string              // the type's own base URL; "" where it has none
	resolve func(u *url.URL)    // turns a base URL into the list's URL
	header  func(h http.Header) // headers that the API insists on; may be nil
	cursor  string              // query key of the next page; "" is no paging
	next    string              // member with the next page's cursor
	more    string              // member that says whether there is a next page; "": where there is a cursor
	keys    []string            // members that may hold the list, the first that is there does; a bare list is taken, too
	model   func(entry) Model   // reads an entry; it names no model where ID is not valid
}

// ListerConfig says where a provider lists its models.
type ListerConfig struct {
	// Type is the provider's: openai, vllm, openrouter, groq, mistral, xai,
	// deepseek, azure, anthropic, gemini, ollama or cohere (case ignored).
	Type string
	// BaseURL is what an SDK would take. "" is the type's own, where it has one.
	BaseURL string
	// Header, copied, goes on every request and on redirects within the same
	// origin, never to another host. Nil is none.
	Header http.Header
	// Client makes the requests. Nil is a plain one over
	// [http.DefaultTransport]. The time limit of a fetch is the registry's.
	Client *http.Client
}

// NewLister returns a lister for the API of a provider.
//
// The list is decoded while it arrives. More than 8 MiB a page or 32 MiB in
// all, 100 pages or 20,000 entries, bad ones included, are an error with
// [ReasonTooLarge], and so is a page with more than 1,000 members beside its
// list. All bytes are counted after decompression.
//
// Azure's list is a catalogue of base models, not of a resource's deployments.
func NewLister(c ListerConfig) (Lister, error) {
	kind := strings.ToLower(strings.TrimSpace(c.Type))
	d, ok := dialects[kind]
	if !ok {
		known := slices.Sorted(maps.Keys(dialects))
		return nil, fmt.Errorf("discovery: unknown provider type %q, want one of %s", c.Type, strings.Join(known, ", "))
	}
	baseURL := cmp.Or(c.BaseURL, d.base)
	if baseURL == "" {
		return nil, fmt.Errorf("discovery: provider type %s needs a base URL", kind)
	}
	u, err := url.Parse(baseURL)
	if err != nil {
		// The error of url.Parse repeats the URL, which may hold a password.
		return nil, fmt.Errorf("discovery: base URL of a provider of type %s cannot be parsed", kind)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("discovery: base URL of a provider of type %s must be absolute, http or https", kind)
	}
	u.Fragment = ""
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	d.resolve(u)
	h := c.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Accept") == "" {
		h.Set("Accept", "application/json")
	}
	if d.header != nil {
		d.header(h)
	}
	client := sameOriginClient(c.Client)
	if client.Transport == nil {
		// What replaces it later is for calls: a chain would send these requests,
		// re-written, to a provider of its own.
		client.Transport = http.DefaultTransport
		if layer.Stacked(client.Transport) {
			return nil, errors.New("discovery: http.DefaultTransport is a stack, a chain or a router: NewLister needs a client over a transport below it")
		}
	}
	return &httpLister{client: client, url: u, header: &h, dialect: d}, nil
}

type httpLister struct {
	client  *http.Client
	url     *url.URL
	header  *http.Header // a pointer away: see redact.go
	dialect dialect
}

// origin names the upstream for the cache file, so that a list is not taken
// for that of another upstream which got the same name since.
func (l *httpLister) origin() string {
	return l.url.Scheme + "://" + l.url.Host + l.url.Path
}

// ListModels fetches all pages. Any page that fails fails the whole list.
func (l *httpLister) ListModels(ctx context.Context) ([]Model, error) {
	var all []Model
	left := budget{bytes: maxListBytes, entries: maxModels}
	seen := map[string]bool{}
	cursor := ""
	for range maxPages {
		p, err := l.page(ctx, cursor, &left)
		if err != nil {
			return nil, err
		}
		all = append(all, p.models...)
		if l.dialect.cursor == "" || p.next == "" && !p.more {
			return all, nil
		}
		if p.next == "" || seen[p.next] {
			return nil, &ListError{Reason: ReasonCursor}
		}
		seen[p.next] = true
		cursor = p.next
	}
	return nil, tooLarge("%d pages", maxPages)
}

func (l *httpLister) page(ctx context.Context, cursor string, left *budget) (page, error) {
	u := *l.url
	if cursor != "" {
		q := u.Query()
		q.Set(l.dialect.cursor, cursor)
		u.RawQuery = q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return page{}, &ListError{Reason: ReasonOther}
	}
	req.Header = (*l.header).Clone()
	resp, err := l.client.Do(req)
	if err != nil {
		return page{}, transportError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return page{}, &ListError{Reason: ReasonStatus, Status: resp.StatusCode}
	}
	if resp.ContentLength > maxPageBytes {
		return page{}, tooLarge("%d bytes", maxPageBytes)
	}
	p, err := l.dialect.readPage(resp.Body, left)
	if le, ok := err.(*ListError); ok { //nolint:errorlint // readPage wraps none; another one comes from the body
		le.Status = resp.StatusCode
		return page{}, le
	}
	if err != nil {
		return page{}, transportError(ctx, err)
	}
	return p, nil
}

// sameOriginClient copies c so that a redirect to another origin carries none
// of the request's headers. net/http drops Authorization and Cookie by itself,
// but knows nothing of X-Api-Key and its kin, and lets all of them pass to a
// subdomain or another port.
func sameOriginClient(c *http.Client) *http.Client {
	out := http.Client{}
	if c != nil {
		out = *c
	}
	theirs := out.CheckRedirect
	out.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		first := via[0].URL
		same := sameOrigin(first, req.URL)
		for _, v := range via[1:] {
			same = same && sameOrigin(first, v.URL)
		}
		if !same {
			req.Header = http.Header{"Accept": {"application/json"}}
		}
		req.Header.Del("Referer") // would repeat a key in the query
		if theirs != nil {
			return theirs(req, via)
		}
		return nil
	}
	return &out
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
