package main

// suite is one client's tests.
type suite struct {
	name string
	// module and version are looked up in the module cache; the standard
	// library has none.
	module, version string
	// packages are the directories of the tests that come near an HTTP client,
	// relative to the module or to GOROOT/src.
	packages []string
	long     bool // left out of a short run
	// once runs it without the stack's retries: its tests count requests and
	// connections, and their servers wait for ever on one more.
	once bool
	args []string // for the test binaries
}

// all are the suites, the quickest first.
func all() []suite {
	return []suite{
		{name: "go-openai", module: "github.com/sashabaranov/go-openai", version: "v1.43.0", packages: []string{".", "internal", "internal/test"}},
		{name: "ollama/api", module: "github.com/ollama/ollama", version: "v0.17.4", packages: []string{"api"}},
		{name: "genai", module: "google.golang.org/genai", version: "v1.77.0", packages: []string{"."}, args: []string{"-mode=unit"}},
		{name: "anthropic-sdk-go", long: true, module: "github.com/anthropics/anthropic-sdk-go", version: "v1.84.0", packages: []string{
			".", "aws", "bedrock", "foundry", "googlecloud", "vertex", "internal/auth", "internal/requestconfig", "internal/stainlessheader",
			"lib/betafallback", "lib/environments", "mcp", "option", "packages/jsonl", "toolrunner", "tools/agenttoolset",
		}},
		{name: "openai-go", long: true, module: "github.com/openai/openai-go/v3", version: "v3.98.0", packages: []string{
			".", "auth", "azure", "bedrock", "conversations", "internal/integrationtest", "internal/requestconfig", "internal/websockettest",
			"lib", "live", "option", "packages/ssestream", "packages/websocket", "realtime", "responses", "webhooks",
		}},
		{name: "httputil", packages: []string{"net/http/httputil"}},
		{name: "net/http", once: true, packages: []string{"net/http"}},
	}
}

func (s suite) standard() bool { return s.module == "" }
