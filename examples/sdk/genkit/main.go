// Genkit is the table of ../matrix for the plugins of genkit, which cannot be in
// one module with anthropic-sdk-go: they want different releases of
// github.com/invopop/jsonschema.
//
//	go run .                          print the table
//	go run . -w ../../../README.md    write it between the file's markers
//	go run . -check ../../../README.md  fail if the file's table is another
package main

import (
	"net/http"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/matrix"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func main() { matrix.Main("genkit-matrix", all()) }

func all() []adapter.SDK {
	return []adapter.SDK{
		{Name: "genkit compat_oai", Hidden: upstreamtest.HiddenCode, HiddenStatus: http.StatusTooManyRequests, Ask: askOpenAI, Status: openAIStatus},
		{Name: "genkit ollama", Hidden: upstreamtest.HiddenText, HiddenStatus: http.StatusBadGateway, Ask: askOllama},
	}
}
