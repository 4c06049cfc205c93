package upstreamtest

import "fmt"

// words are the names that the formats have for one status.
type words struct {
	status               int
	typ, code, anth, goo string
	message              string
}

// wordsOf is the vocabulary for a status. Its message holds no word that
// anybody could take for a kind of failure: "upstream" and the "error" of a type
// would be one.
func wordsOf(status int) words {
	w := words{status: status, message: fmt.Sprintf("scripted status %d", status)}
	switch {
	case status == 401:
		w.typ, w.code, w.anth, w.goo = "authentication_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED"
	case status == 403:
		w.typ, w.code, w.anth, w.goo = "permission_error", "permission_denied", "permission_error", "PERMISSION_DENIED"
	case status == 404:
		w.typ, w.code, w.anth, w.goo = "not_found_error", "model_not_found", "not_found_error", "NOT_FOUND"
	case status == 408, status == 504:
		w.typ, w.code, w.anth, w.goo = "timeout_error", "timeout", "timeout_error", "DEADLINE_EXCEEDED"
	case status == 413:
		w.typ, w.code, w.anth, w.goo = "invalid_request_error", "request_too_large", "request_too_large", "INVALID_ARGUMENT"
	case status == 429:
		w.typ, w.code, w.anth, w.goo = "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"
	case status == 503, status == 529:
		w.typ, w.code, w.anth, w.goo = "service_unavailable_error", "server_is_overloaded", "overloaded_error", "UNAVAILABLE"
	case status >= 500:
		w.typ, w.code, w.anth, w.goo = "server_error", "server_error", "api_error", "INTERNAL"
	default:
		w.typ, w.code, w.anth, w.goo = "invalid_request_error", "invalid_request", "invalid_request_error", "INVALID_ARGUMENT"
	}
	return w
}
