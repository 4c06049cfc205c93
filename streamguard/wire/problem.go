package wire

import (
	"strings"
)

// A problem is what a JSON document says of an error, gathered from every
// place where one of the known shapes puts it, and the marks that a large
// event carries. The first value of each kind counts.
type problem struct {
	nested   string // error.code …, a number or a word
	kind     string
	status   string
	topCode  string
	topType  string
	topState string
	object   string
	base     string // base_resp.status_code
	number   string // error_code
	header   string
	extra    []string // further words for a status

	message  string
	hasError bool // a non-empty error, wherever it stands
	flat     bool // {"object":"error"} or {"type":"error"}
	refused  bool // "success": false
	// succeeded and bare tell a body that is a message and nothing else.
	succeeded bool        // "success": true
	bare      bool        // a top-level message
	id        bool        // a top-level id
	free      bool        // detail, errors
	daily     bool        // a quota of a day is used up
	unnamed   bool        // a finish that names a failure is all that there is
	exception string      // AWS's name of the error
	words     *Vocabulary // nil: the built-in words
	wishes    wishes
}

// inspect gathers what b says; it may be cut off.
func inspect(b []byte) *problem {
	p := &problem{}
	f := fields{edges: problemEdges, sink: p}
	f.feed(b)
	f.close()
	return p
}

func first(dst *string, v []byte) {
	if *dst == "" {
		*dst = string(v)
	}
}

// firstCode takes a code that is text or a number.
func firstCode(dst *string, kind byte, v []byte) {
	if kind == kindString || kind == kindScalar && isNumber(v) {
		first(dst, v)
	}
}

func isNumber(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0]-'0' <= 9) }

// field implements fieldSink.
func (p *problem) field(n node, kind byte, v []byte) {
	if kind == kindFilled || kind == kindEmpty {
		p.composite(n, kind == kindFilled)
		return
	}
	text := kind == kindString
	switch n {
	case nErrorCode, nResponseErrorCode, nTencentCode:
		firstCode(&p.nested, kind, v)
	case nErrorStatus:
		if text || isNumber(v) {
			first(&p.status, v)
		}
	case nCode:
		firstCode(&p.topCode, kind, v)
	case nStatus:
		firstCode(&p.topState, kind, v)
	case nBaseCode:
		firstCode(&p.base, kind, v)
	case nErrorNumber:
		firstCode(&p.number, kind, v)
	case nHeaderCode:
		firstCode(&p.header, kind, v)
	case nWish, nMetaReset, nMetaRemaining:
		p.wishes.field(n, v)
	case nSuccess:
		p.refused = string(v) == "false"
		p.succeeded = string(v) == "true"
	default:
		if text {
			p.textField(n, v)
		}
	}
}

func (p *problem) textField(n node, v []byte) {
	switch n {
	case nError, nChoiceError:
		p.hasError = p.hasError || len(v) > 0
		first(&p.message, v)
	case nFree:
		p.free = p.free || len(v) > 0
		first(&p.message, v)
	case nMessage:
		p.bare = p.bare || len(v) > 0
		first(&p.message, v)
	case nErrorMessage, nBaseMessage, nTencentMessage, nHeaderMessage, nResponseErrorMessage:
		first(&p.message, v)
	case nErrorType, nResponseErrorType:
		first(&p.kind, v)
	case nException, nCoralException:
		if name := exceptionName(v); n == nCoralException || isException(string(name)) {
			first(&p.exception, name)
		}
	case nType:
		first(&p.topType, v)
		p.flat = p.flat || string(v) == "error"
	case nID:
		p.id = len(v) > 0
	case nObject:
		p.object = string(v)
		p.flat = p.flat || string(v) == "error"
	case nErrorKind, nErrorMetaKind, nErrorMetaCode:
		if len(p.extra) < 4 {
			p.extra = append(p.extra, string(v))
		}
	case nQuotaID:
		p.daily = p.daily || strings.Contains(string(v), "PerDay")
	case nDeltaError:
		first(&p.message, v)
	}
}

// composite is told of the end of each object and array.
func (p *problem) composite(n node, filled bool) {
	switch n {
	case nError, nResponseError, nTencentError, nChoiceError:
		p.hasError = p.hasError || filled
	case nFree, nErrors:
		p.free = p.free || filled
	}
}
