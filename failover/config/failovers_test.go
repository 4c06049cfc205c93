package config_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover/config"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// The registry of an assembly knows the failovers of its virtual models and the
// places of its stacks, and both stand on the page.
func TestTheAssemblyShowsFailoversAndPlaces(t *testing.T) {
	a, b := upstreamtest.New(), upstreamtest.New()
	defer a.Close()
	defer b.Close()
	cfg := parse(t, `
resilience: {retry: {max_retries: 0}, limits: {max_concurrent: 4}}
providers:
  a: {type: openai, base_url: "`+a.URL+`/v1", api_key: k}
  b: {type: openai, base_url: "`+b.URL+`/v1", api_key: k}
virtual_models:
  - {source: smart, targets: [{model: a/one}, {model: b/two}]}
`, nil)
	app, err := config.Assemble(cfg, config.Options{})
	require.NoError(t, err)
	defer app.Close()
	call := func() {
		resp, err := app.Router().Client().Post("http://sdk.test/v1/chat/completions", "application/json", strings.NewReader(`{"model":"smart","messages":[]}`))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	call()
	assert.Empty(t, app.Registry().Failovers())
	a.Default(upstreamtest.Status(http.StatusServiceUnavailable))
	call()
	call()
	all := app.Registry().Failovers()
	require.Len(t, all, 1)
	assert.Equal(t, []any{"a/one", "b/two", "503", 2}, []any{all[0].From, all[0].To, all[0].Reason, all[0].Times})
	b.Default(upstreamtest.Status(http.StatusInternalServerError))
	call()
	assert.Equal(t, "", app.Registry().Failovers()[0].To, "nobody answered")
	s := app.Registry().Status()[0]
	require.NotNil(t, s.Places)
	assert.Equal(t, 4, s.Places.Most)
}
