package breaker

import (
	"net/http"
	"strings"
)

// isStream reports whether an answer's body may go on for long, so that its end
// is worth waiting for.
func isStream(resp *http.Response) bool {
	if resp.StatusCode/100 != 2 || resp.Body == nil || resp.Body == http.NoBody {
		return false
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream":
		return true
	}
	return false
}
