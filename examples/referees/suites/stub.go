package main

import (
	"io"
	"net/http"
	"strings"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// newStub stands for the mock servers that the official SDKs' generated tests
// ask for (TEST_API_BASE_URL, CheckTestServer): a real answer where one is
// judged, an empty object everywhere else. Without it those tests end before
// their first request.
func newStub() *upstreamtest.Upstream {
	up := upstreamtest.New()
	up.When(func(r *upstreamtest.Request) bool { return !inference(r.Method, r.Path) },
		upstreamtest.Raw(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}") //nolint:errcheck // the caller left
		}))
	return up
}

func inference(method, path string) bool {
	if method != http.MethodPost {
		return false
	}
	for _, end := range []string{"/completions", "/responses", "/embeddings", "/messages"} {
		if strings.HasSuffix(path, end) && !strings.Contains(path, "/threads/") {
			return true
		}
	}
	return false
}
