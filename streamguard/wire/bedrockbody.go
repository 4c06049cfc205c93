package wire

import (
	"bytes"
	"net/http"
	"strings"
)

// bedrockJudge looks for an error envelope and judges nothing else: what an
// answer looks like is the model's business.
func bedrockJudge(f *Format, a Answer, b []byte) Verdict {
	if b[0] == '[' {
		if !valid(b) {
			return f.malformed(a)
		}
		v := f.listed(a, b)
		return Verdict{Failure: v, Usable: v == nil}
	}
	var stop []byte
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		if string(p.name) == "stopReason" {
			stop = text(p.raw())
			continue
		}
	}
	if p.end() && failedFinish(stop) {
		return Verdict{Failure: f.told(&problem{nested: string(stop), words: a.Words}, nil)}
	}
	if v, done := f.unfit(a, &p, false, true); done {
		return v
	}
	return Verdict{Usable: true}
}

// exceptionName takes the namespace off the name of an AWS exception, and what
// some services write behind it: com.amazon.coral.service#ThrottlingException,
// ThrottlingException:http://…
func exceptionName(v []byte) []byte {
	v = v[bytes.LastIndexByte(v, '#')+1:]
	v, _, _ = bytes.Cut(v, []byte(":"))
	return v
}

// isException reports whether a name that a body gives itself is an error's: a
// model's own answer may have a __type, too.
func isException(name string) bool {
	for _, end := range [...]string{"Exception", "Error", "Failure", "Fault"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return builtIn(normal(name)).status != 0
}

// bedrockError renders what AWS clients read. They look for the error's name in
// a header first, see exceptionHeader, and then in __type.
func bedrockError(status int, typ, code, message string) []byte {
	name := exceptionOf(status, typ, code)
	b := append([]byte(`{"__type":`), quote(name)...)
	b = append(append(b, `,"message":`...), quote(message)...)
	if code != "" && !strings.EqualFold(code, name) { // a member "code" would be taken for the name
		b = append(append(b, `,"reason":`...), quote(code)...)
	}
	return append(b, '}')
}

// exceptionHeader is where AWS clients look for the name of an error.
func exceptionHeader(status int, typ, code string) (header, value string) {
	return "X-Amzn-Errortype", exceptionOf(status, typ, code)
}

// exceptionOf returns the name of an exception as an answer with a status spells
// it: a stream's throttlingException is a ThrottlingException there.
func exceptionOf(status int, typ, code string) string {
	for _, name := range [...]string{code, typ} {
		if strings.HasSuffix(name, "Exception") {
			return strings.ToUpper(name[:1]) + name[1:]
		}
	}
	return bedrockName(status)
}

// bedrockName returns the name of the exception for a status.
func bedrockName(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "AccessDeniedException"
	case http.StatusNotFound:
		return "ResourceNotFoundException"
	case http.StatusTooManyRequests:
		return "ThrottlingException"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "ModelTimeoutException"
	case http.StatusFailedDependency:
		return "ModelErrorException"
	case http.StatusInternalServerError:
		return "InternalServerException"
	}
	if status < 500 {
		return "ValidationException"
	}
	return "ServiceUnavailableException"
}
