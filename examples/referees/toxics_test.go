package referees_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

// toxic puts toxiproxy before a server and returns the URL of the proxy. The
// toxic is JSON, as its documentation has it.
func toxic(t *testing.T, url, json string) string {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	proxy := toxiproxy.NewProxy(api, t.Name(), "127.0.0.1:0", strings.TrimPrefix(url, "http://"))
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(json))
	require.NoError(t, err)
	return "http://" + proxy.Listen
}

// stride is the distance between two cuts, in bytes: with headers and chunk
// sizes in between it falls on every kind of place.
const stride = 89

// A connection that toxiproxy closes after so many bytes leaves an honest error
// behind, unless the terminal event had arrived. Within its last line either
// will do, since some of it may be all that its reader needs.
func TestAStreamClosedAtAnyByteIsAnErrorOrWhole(t *testing.T) {
	url := aimock(t)
	var honest, behind, within int
	for _, f := range formats() {
		for _, a := range f.answers() {
			t.Run(fmt.Sprintf("%s/%s", f.name, a), func(t *testing.T) {
				whole := wholeStream(t, f, a, url)
				for limit := 1; limit < len(whole)+headerBytes; limit += stride {
					base := &tape{}
					through := toxic(t, url, fmt.Sprintf(`{"name":"cut","type":"limit_data","attributes":{"bytes":%d}}`, limit))
					status, body, err := f.post(t, t.Context(), stackOver(t, "toxiproxy", base), through, prompt(a, 0), true)
					isError := err != nil || status >= 500
					switch _, after, seen := strings.Cut(base.read.String(), f.terminal); {
					case !seen:
						require.True(t, isError, "after %d bytes: status %d, no error, %q", limit, status, body)
						honest++
					case !strings.Contains(after, f.after()):
						require.True(t, isError || said(whole) == said(body), "after %d bytes: %q", limit, body)
						within++
					default:
						require.NoError(t, err, "after %d bytes: %q", limit, body)
						require.Equal(t, said(whole), said(body), "after %d bytes", limit)
						behind++
					}
				}
			})
		}
	}
	t.Logf("%d cuts: %d honest errors, %d within the terminal event, %d behind it", honest+within+behind, honest, within, behind)
}

// headerBytes is about what a response's headers and chunk sizes take.
const headerBytes = 600

// after is what stands behind the terminal mark once its event is whole.
func (f format) after() string {
	if f.name == "bedrock converse" {
		return "metadata"
	}
	return "\n"
}

// An answer that arrives in crumbs is the same answer.
func TestASlicedAnswerIsWhole(t *testing.T) {
	url := aimock(t)
	through := toxic(t, url, `{"name":"crumbs","type":"slicer","attributes":{"average_size":7,"size_variation":5,"delay":0}}`)
	for _, f := range formats() {
		for _, a := range f.answers() {
			for _, stream := range []bool{true, false} {
				_, want, err := f.post(t, t.Context(), http.DefaultTransport, url, prompt(a, 0), stream)
				require.NoError(t, err)
				status, body, err := f.post(t, t.Context(), stack(t, "toxiproxy"), through, prompt(a, 0), stream)
				require.NoError(t, err, "%s, %s, stream %t", f.name, a, stream)
				require.Equal(t, http.StatusOK, status)
				require.Equal(t, said(want), said(body), "%s, %s, stream %t", f.name, a, stream)
			}
		}
	}
}

// Connections that die before an answer has begun are the backup's to make good.
func TestDyingConnectionsAreCoveredByTheBackup(t *testing.T) {
	url := aimock(t)
	direct := func(req *http.Request) error { // past the proxy
		req.URL.Host = strings.TrimPrefix(url, "http://")
		req.Host = req.URL.Host
		return nil
	}
	var calls, whole int
	for name, json := range map[string]string{
		"reset":                  `{"name":"r","type":"reset_peer","attributes":{"timeout":0}}`,
		"closed without data":    `{"name":"t","type":"timeout","attributes":{"timeout":1}}`,
		"cut in the headers":     `{"name":"l","type":"limit_data","attributes":{"bytes":40}}`,
		"cut in the first event": `{"name":"l","type":"limit_data","attributes":{"bytes":260}}`,
	} {
		t.Run(name, func(t *testing.T) {
			through := toxic(t, url, json)
			for _, f := range formats() {
				for _, a := range f.answers() {
					for _, stream := range []bool{true, false} {
						c, err := failover.NewChain(failover.DefaultPolicy(),
							failover.Target{Name: "primary", Provider: "primary", Transport: stack(t, "primary")},
							failover.Target{Name: "backup", Provider: "backup", Transport: stack(t, "backup"), Rewrite: direct})
						require.NoError(t, err)
						calls++
						if isWhole(t, f, a, stream, c, through, url) {
							whole++
						}
					}
				}
			}
		})
	}
	t.Logf("%d of %d calls whole", whole, calls)
	assert.Equal(t, calls, whole)
}
