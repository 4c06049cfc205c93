package failover_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

// world makes targets of one failing upstream each, so that a trail shows the
// whole way of a call.
type world map[string]*upstream

func (w world) target(name string) failover.Target {
	provider, model, _ := strings.Cut(name, "/")
	if model == "" {
		return failover.Target{Model: provider} // a name alone
	}
	if w[name] == nil {
		w[name] = failing(503)
	}
	return failover.Target{Name: name, Provider: provider, Model: model, Transport: w[name]}
}

func (w world) chains(t *testing.T, spec map[string]string) map[string]*failover.Chain {
	out := make(map[string]*failover.Chain)
	for name, list := range spec {
		var targets []failover.Target
		for n := range strings.FieldsSeq(list) {
			targets = append(targets, w.target(n))
		}
		out[name] = chain(t, failover.Policy{}, targets...)
	}
	return out
}

func TestRouterWays(t *testing.T) {
	for name, tc := range map[string]struct {
		chains map[string]string
		model  string
		want   string // "" is next
	}{
		"a virtual model":          {map[string]string{"fast": "p/m q/n"}, "fast", "p/m:503 q/n:503"},
		"another model":            {map[string]string{"fast": "p/m"}, "slow", ""},
		"nested":                   {map[string]string{"fast": "p/m", "best": "q/n fast r/o"}, "best", "q/n:503 p/m:503 r/o:503"},
		"nested twice":             {map[string]string{"a": "b p/1", "b": "c p/2", "c": "p/3"}, "a", "p/3:503 p/2:503 p/1:503"},
		"nested, shared target":    {map[string]string{"fast": "p/m q/n", "best": "q/n fast"}, "best", "q/n:503 p/m:503 q/n:-already_tried"},
		"all of a nested one":      {map[string]string{"fast": "p/m", "best": "p/m fast q/n"}, "best", "p/m:503 fast:-already_tried q/n:503"},
		"diamond":                  {map[string]string{"a": "b c", "b": "d p/1", "c": "d p/2", "d": "p/3"}, "a", "p/3:503 p/1:503 d:-already_tried p/2:503"},
		"mutual backups":           {map[string]string{"m": "p/m q/n", "n": "q/n p/m"}, "m", "p/m:503 q/n:503"},
		"mutual, the other":        {map[string]string{"m": "p/m q/n r/o", "n": "q/n p/m r/x"}, "m", "p/m:503 q/n:503 r/o:503"},
		"a backed-up model's":      {map[string]string{"m": "p/m q/n", "fast": "p/m"}, "fast", "p/m:503 q/n:503"},
		"backed up both ways":      {map[string]string{"m": "p/m q/n", "n": "q/n p/m", "fast": "r/x p/m"}, "fast", "r/x:503 p/m:503 q/n:503"},
		"one-way backup of backup": {map[string]string{"m": "p/m q/n", "n": "q/n r/o"}, "m", "p/m:503 q/n:503 r/o:503"},
		"provider/model":           {map[string]string{"fast": "p/m", "m": "q/n"}, "p/m", ""},
		"overlay by full name":     {map[string]string{"p/m": "q/n p/m"}, "p/m", "q/n:503 p/m:503"},
		"overlay by model":         {map[string]string{"m": "q/n p/m r/o"}, "p/m", "p/m:503 q/n:503 r/o:503"},
		"full name, not listed":    {map[string]string{"p/m": "p/x q/n"}, "p/m", ""},
		"mutual, by full names":    {map[string]string{"p/m": "p/m q/n r/o", "q/n": "q/n p/m r/x"}, "p/m", "p/m:503 q/n:503 r/o:503"},
		"mutual, names of a kind":  {map[string]string{"m": "p/m q/n r/o", "q/n": "q/n p/m r/x"}, "m", "p/m:503 q/n:503 r/o:503"},
		"and of the other":         {map[string]string{"m": "p/m q/n r/o", "q/n": "q/n p/m r/x"}, "q/n", "q/n:503 p/m:503 r/x:503"},
		"a third names a mutual":   {map[string]string{"m": "p/m q/n r/o", "n": "q/n p/m r/x", "o": "r/y q/n"}, "o", "r/y:503 q/n:503 p/m:503 r/x:503"},
		"one model, two providers": {map[string]string{"m": "p/m q/m"}, "q/m", "q/m:503 p/m:503"},
		"a chain names the second": {map[string]string{"m": "p/m q/m", "fast": "r/x q/m"}, "fast", "r/x:503 q/m:503 p/m:503"},
		"a backup's backups twice": {map[string]string{"m": "p/m q/n", "a": "b p/m", "b": "r/x p/m"}, "a", "r/x:503 p/m:503 q/n:503 p/m:-already_tried"},
		"a model with a slash":     {map[string]string{"org/m": "q/n p/org/m"}, "p/org/m", "p/org/m:503 q/n:503"},
		"the full name's chain":    {map[string]string{"m": "q/n p/m", "p/m": "p/m r/o"}, "p/m", "p/m:503 r/o:503"},
		"the short name's chain":   {map[string]string{"m": "q/n p/m", "p/m": "r/o q/n"}, "p/m", "p/m:503 q/n:503"},
		"listed, of another name":  {map[string]string{"fast": "p/m q/n", "n": "q/n r/o"}, "p/m", ""},
		"a slash, no provider":     {map[string]string{"team/fast": "p/m"}, "team/fast", "p/m:503"},
		"no provider's model":      {map[string]string{"fast": "p/m"}, "team/fast", ""},
	} {
		t.Run(name, func(t *testing.T) {
			next := healthy()
			r, err := failover.NewRouter(world{}.chains(t, tc.chains), next)
			require.NoError(t, err)
			got := ask(t, r, tc.model)
			if tc.want == "" {
				require.Equal(t, 1, next.count())
				assert.Equal(t, chatBody(tc.model), next.requests()[0].body)
				assert.Nil(t, failover.AttemptsOf(got.Response))
				return
			}
			assert.Zero(t, next.count())
			assert.Equal(t, tc.want, trail(failover.AttemptsOf(got.Response)))
		})
	}
}

func TestRouterRefusesCycles(t *testing.T) {
	for name, tc := range map[string]struct {
		chains map[string]string
		want   string
	}{
		"itself": {map[string]string{"a": "a p/m"}, "a→a"},
		"two":    {map[string]string{"a": "p/m b", "b": "a"}, "a→b→a"},
		"three":  {map[string]string{"x": "a", "a": "b", "b": "c p/m", "c": "a"}, "a→b→c→a"},
		"real":   {map[string]string{"l": "p/l p/m", "m": "p/m p/n", "n": "p/n p/l"}, "l→m→n→l"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := failover.NewRouter(world{}.chains(t, tc.chains), nil)
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := failover.NewRouter(map[string]*failover.Chain{"a": nil}, nil)
	require.Error(t, err)
	_, err = failover.NewRouter(map[string]*failover.Chain{"": nil}, nil)
	require.Error(t, err)
}

// A nested name must not carry the credentials of the entry that names it.
func TestRouterNestedKeepsCredentialsApart(t *testing.T) {
	inner := healthy()
	r, err := failover.NewRouter(map[string]*failover.Chain{
		"inner": chain(t, failover.Policy{}, failover.Target{Name: "p/m", Provider: "p", Model: "m", Transport: inner}),
		"outer": chain(t, failover.Policy{}, failover.Target{Name: "inner", Model: "inner",
			Header: http.Header{"Authorization": {"F"}, "X-Custom": {"F"}}, Transport: failing(500)}),
	}, nil)
	require.NoError(t, err)
	ask(t, r, "outer")
	require.Equal(t, 1, inner.count())
	assert.NotContains(t, inner.requests()[0].everything(), "F\r")
}

func TestRouterWithoutNext(t *testing.T) {
	r, err := failover.NewRouter(nil, nil)
	require.NoError(t, err)
	got := ask(t, r, "gpt")
	assert.Equal(t, 404, got.StatusCode)
	assert.Contains(t, got.body, `"code":"model_not_found"`)
	assert.EqualValues(t, len(got.body), got.ContentLength)
	messages, err := do(t, r, post(t, "https://a.example/v1/messages", chatBody("x")))
	require.NoError(t, err)
	assert.Contains(t, messages.body, `"type":"error"`)
}

func TestRouterReadsTheModel(t *testing.T) {
	form := "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\nmodel\r\n--B\r\n" +
		"Content-Disposition: form-data; name=\"model\"\r\n\r\nfast\r\n--B--\r\n"
	for name, tc := range map[string]struct{ url, contentType, body, want string }{
		"multipart": {"https://a.example/v1/audio/transcriptions", "multipart/form-data; boundary=B", form, strings.Replace(form, "fast", "m-long", 1)},
		"unknown":   {"https://a.example/v1/images/generations", "application/json", `{"model":"fast"}`, `{"model":"m-long"}`},
		"path":      {"https://a.example/v1beta/models/fast:generateContent", "application/json", `{}`, `{}`},
	} {
		for _, getBody := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				u := healthy()
				r, err := failover.NewRouter(map[string]*failover.Chain{
					"fast": chain(t, failover.Policy{}, failover.Target{Name: "x", Provider: "p", Model: "m-long", Transport: u}),
				}, nil)
				require.NoError(t, err)
				req := post(t, tc.url, tc.body)
				req.Header.Set("Content-Type", tc.contentType)
				if !getBody {
					req.GetBody = nil
					req.ContentLength = -1
					req.Body = io.NopCloser(strings.NewReader(tc.body))
				}
				_, err = do(t, r, req)
				require.NoError(t, err)
				require.Equal(t, 1, u.count())
				assert.Equal(t, tc.want, u.requests()[0].body)
				assert.EqualValues(t, len(tc.want), u.requests()[0].length)
			})
		}
	}
}

func TestRouterLeavesOtherRequestsAlone(t *testing.T) {
	next := newUpstream(reply{status: 200, body: "{}"})
	r, err := failover.NewRouter(world{}.chains(t, map[string]string{"fast": "p/m"}), next)
	require.NoError(t, err)
	big := `{"input":"` + strings.Repeat("x", 5<<20) + `","model":"other"}`
	req := post(t, chatURL, big)
	req.GetBody, req.ContentLength = nil, -1
	req.Body = io.NopCloser(strings.NewReader(big))
	_, err = do(t, r, req)
	require.NoError(t, err)
	require.Equal(t, 1, next.count())
	assert.Equal(t, len(big), len(next.requests()[0].body))

	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/v1/models", nil)
	require.NoError(t, err)
	_, err = do(t, r, get)
	require.NoError(t, err)
	assert.Equal(t, 2, next.count())
}
