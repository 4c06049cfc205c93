package main

// suite is one client's tests.
type suite struct {
	name string
	// module and version are looked up in the module cache, and have the hash
	// that a go.sum would hold; the standard library has none.
	module, version, sum string
	// packages are the directories of the tests that come near an HTTP client,
	// relative to the module or to GOROOT/src.
	packages []string
	long     bool // left out of a short run
	// once runs it without the stack's retries: its tests count requests and
	// connections, and their servers wait for ever on one more.
	once bool
	args []string // for the test binaries
	// skip are tests that run the go command in their GOROOT, which is none
	// that it can build from here: minutes for no client.
	skip []string
}

// all are the suites, the quickest first.
func all() []suite {
	return []suite{
		{name: "go-openai", module: "github.com/sashabaranov/go-openai", version: "v1.43.0",
			sum: "h1:HNRpO8TAQ01ssO7aPXO/68QRlcCCYQQ5GfHbFceRZcY=", packages: []string{".", "internal", "internal/test"}},
		{name: "ollama/api", module: "github.com/ollama/ollama", version: "v0.17.4",
			sum: "h1:X3KNm9x4BlHqk/AXMGtC7pBAFd46nmJmy8yDaBZLo9s=", packages: []string{"api"}},
		{name: "genai", module: "google.golang.org/genai", version: "v1.77.0",
			sum: "h1:/tWupb5vo4FRuktsgas4+Bfk5HhTGsfLoz2DS450aQA=", packages: []string{"."}, args: []string{"-mode=unit"}},
		{name: "anthropic-sdk-go", long: true, module: "github.com/anthropics/anthropic-sdk-go", version: "v1.84.0",
			sum: "h1:mnAhggc5H5A98JYmhQELT+j4J89PYBFKnnSvUTNwNd8=", packages: []string{
				".", "aws", "bedrock", "foundry", "googlecloud", "vertex", "internal/auth", "internal/requestconfig", "internal/stainlessheader",
				"lib/betafallback", "lib/environments", "mcp", "option", "packages/jsonl", "toolrunner", "tools/agenttoolset",
			}},
		{name: "openai-go", long: true, module: "github.com/openai/openai-go/v3", version: "v3.98.0",
			sum: "h1:HHmNpTQykkgARTvPobfQqSItV57os4AJ+fB4megoH6E=", packages: []string{
				".", "auth", "azure", "bedrock", "conversations", "internal/integrationtest", "internal/requestconfig", "internal/websockettest",
				"lib", "live", "option", "packages/ssestream", "packages/websocket", "realtime", "responses", "webhooks",
			}},
		{name: "httputil", packages: []string{"net/http/httputil"}},
		{name: "net/http", once: true, packages: []string{"net/http"}, skip: []string{"TestCmdGoNoHTTPServer", "TestOmitHTTP2Vet"}},
	}
}

func (s suite) standard() bool { return s.module == "" }
