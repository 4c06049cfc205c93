package config_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/surefoot-go/surefoot/failover/config"
)

// FuzzParse: nothing panics, every fault has a place, what loads is valid and
// can be routed.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("config.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example, "", "")
	f.Add([]byte(worked), "RETRY_MAX_RETRIES", "x")
	f.Add([]byte(twoProviders), "VIRTUAL_MODELS", `[{"source":"a","targets":[{"model":"openai/x"},{"model":"b"}]},{"source":"b","target":"a"}]`)
	f.Add([]byte("a: &a [*a]\n? {}\n: ${X:-${Y}}\n<<: [*a]\n"), "Y", "[")
	f.Add([]byte("resilience: {<<: {retry: {max_retries: '${N}'}}}\n--- \n"), "N", "1\n2")
	f.Add([]byte("providers: {a: {type: vllm, base_url: 'http://[::1', api_key: !!binary aGk=}}"), "A_MODELS", ",")
	upstream := func(config.Provider) (http.RoundTripper, error) { return http.DefaultTransport, nil }
	f.Fuzz(func(t *testing.T, data []byte, name, value string) {
		c, err := config.Parse(data, func(asked string) (string, bool) { return value, asked == name })
		if err != nil {
			var all config.Errors
			if !errors.As(err, &all) || len(all) == 0 || c != nil {
				t.Fatalf("an error without faults: %v", err)
			}
			for _, e := range all {
				if e.Line < 1 && e.Variable == "" {
					t.Fatalf("a fault without a place: %v", e)
				}
				if e.Line > 1+strings.Count(string(data)+value, "\n")+strings.Count(string(data)+value, "\r")+strings.Count(string(data)+value, "\u0085")+strings.Count(string(data)+value, "\u2028")+strings.Count(string(data)+value, "\u2029") {
					t.Fatalf("a line beyond the end: %v", e)
				}
			}
			return
		}
		for _, p := range append(c.Providers(), config.Provider{}) {
			if err := c.Policy(p.Name).Validate(); err != nil {
				t.Fatalf("loaded, but not valid: %v", err)
			}
			p.Header()
			_ = c.Effective(p.Name).String()
		}
		if _, err := c.Router(upstream); err != nil {
			t.Fatalf("loaded, but cannot be routed: %v", err)
		}
	})
}
