package wire

import (
	"encoding/json"
	"net/http"
)

// ErrorBody renders an error in the shape that clients of the format read.
// An empty typ is chosen by status; an empty code is left out or null.
func (f *Format) ErrorBody(status int, typ, code, message string) []byte {
	if typ == "" {
		typ = errorType(status)
	}
	if f.errorBody != nil {
		return f.errorBody(status, typ, code, message)
	}
	return append(append([]byte(`{"error":`), chatError(typ, code, message)...), '}')
}

// ErrorHeader returns what the format's clients need in an answer's header,
// beside the body of [Format.ErrorBody], to know the kind of the error; nil is
// nothing.
func (f *Format) ErrorHeader(status int, typ, code string) http.Header {
	if f.errorName == nil {
		return nil
	}
	name, value := f.errorName(status, typ, code)
	return http.Header{name: {value}}
}

// chatError renders OpenAI's error object.
func chatError(typ, code, message string) []byte {
	b := append([]byte(`{"message":`), quote(message)...)
	b = append(append(b, `,"type":`...), quote(typ)...)
	b = append(b, `,"param":null,"code":`...)
	if code == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, quote(code)...)
	}
	return append(b, '}')
}

// errorType returns OpenAI's name for a class of errors.
func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status < 500:
		return "invalid_request_error"
	}
	return "server_error"
}

// quote returns s as a JSON string on one line.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // cannot happen for a string
		return []byte(`""`)
	}
	return b
}
