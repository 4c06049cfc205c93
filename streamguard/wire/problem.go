package wire

import "strings"

// A problem is what a JSON document says of an error, gathered from every
// place where one of the known shapes puts it. The first value of each kind
// counts.
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

// A slot is what a value says of an error. Those of the document itself say
// something only beside no content.
type slot uint8

const (
	_            slot = iota
	anError           // that there is one: a text, which is its message, or an object
	anObject          // that there is one, if it is an object
	aDetail           // the same, where a good answer may have it too
	someErrors        // the same, if it is an object or array
	aCode             // of an error; a word or a number
	aKind             // its type
	aStatus           // its status; a word or a number
	aMessage          // text for people
	aWord             // a further word for a status
	aWish             // a wait
	aReset            // a reset that counts if nothing is at aRemaining
	aRemaining        //
	aQuota            // the name of a quota
	topCode           // of the document
	topType           //
	topState          //
	topObject         //
	topMessage        //
	topNumber         // a business code
	topBase           // a business code beside an answer, 0 is success
	topHeader         //
	topSuccess        // true, or false
	topID             //
	anException       // the name of an AWS exception, or of a model's own type
	itsException      // the name of an AWS exception
)

// An errorPath names places, with white space between them, see place.at, and
// what is there; or, where as is set, that they are the same as that place.
type errorPath struct {
	says  slot
	paths string
	as    string
}

func (e errorPath) place() {
	for path := range strings.FieldsSeq(e.paths) {
		if e.as == "" {
			errorPlaces.at(path).says = e.says
		}
	}
}

func (e errorPath) link() {
	for path := range strings.FieldsSeq(e.paths) {
		if i := strings.LastIndexByte(path, '.'); e.as != "" {
			errorPlaces.at(path[:max(i, 0)]).add(path[i+1:], "", errorPlaces.at(e.as))
		}
	}
}

// sharedErrors are where the errors of most vendors and gateways are. A format
// adds its own, see Format.errors.
var sharedErrors = []errorPath{
	{says: anError, paths: "error"},
	{says: aCode, paths: "error.code"},
	{says: aKind, paths: "error.type"},
	{says: aStatus, paths: "error.status error.status_code error.statusCode"},
	{says: aMessage, paths: "error.message"},
	{says: aWish, paths: "error.retry_after error.resets_in_seconds error.resets_at retry_after resets_in_seconds resets_at"},
	{paths: "error.error detail.error", as: "error"}, // wrapped once more
	{says: topCode, paths: "code"},
	{says: topType, paths: "type error_type"},
	{says: topState, paths: "status status_code statusCode"},
	{says: topMessage, paths: "message msg err"},
	{says: topObject, paths: "object"},
	{says: topSuccess, paths: "success"},
	{says: topID, paths: "id"},
	// FastAPI, Cloudflare.
	{says: aDetail, paths: "detail"},
	{says: someErrors, paths: "errors"},
	{says: aCode, paths: "detail.code errors[].code"},
	{says: aKind, paths: "detail.type"},
	{says: aMessage, paths: "detail.message detail[].msg errors[].message"},
	{says: aWish, paths: "detail.retry_after"},
}

// inspect gathers what b says; it may be cut off. Quotes and brackets are
// followed and nothing else is checked.
func inspect(b []byte) *problem {
	p, i := &problem{}, 0
	for i < len(b) && (isSpace(b[i]) || b[i] >= 0x80) { // a byte order mark
		i++
	}
	p.read(b, i, &errorPlaces, placeDepth)
	return p
}

// read takes the value that begins at b[i] and returns the index behind it, -1
// if it does not end.
func (p *problem) read(b []byte, i int, at *place, depth int) (end int) {
	switch {
	case i >= len(b):
		return -1
	case b[i] == '{' && at.members != nil && depth > 0:
		end = p.readInside(b, i+1, at, depth-1, '}')
	case b[i] == '[' && at.elements != nil && depth > 0:
		end = p.readInside(b, i+1, at, depth-1, ']')
	default:
		end = looseValue(b, i)
	}
	switch {
	case end <= i || at.says == 0:
	case b[i] == '{', b[i] == '[':
		p.composite(at.says, filled(b[i:end]))
	case b[i] == '"':
		p.text(at.says, looseText(b[i:end]))
	default:
		p.scalar(at.says, b[i:end])
	}
	return end
}

func (p *problem) readInside(b []byte, i int, at *place, depth int, closing byte) (end int) {
	for {
		if i = skipCommas(b, i); i < len(b) && b[i] == closing {
			return i + 1
		}
		next, from := at.elements, i
		if closing == '}' {
			var name []byte
			if name, from = looseName(b, i); from < 0 {
				return -1
			}
			next = at.member(name)
		}
		if next == nil {
			end = looseValue(b, from)
		} else {
			end = p.read(b, from, next, depth)
		}
		if end <= from {
			return -1
		}
		i = end
	}
}

// looseText returns the contents of a string, as they stand there if an escape
// is wrong.
func looseText(raw []byte) []byte {
	v := raw[1 : len(raw)-1]
	if valid(raw) {
		v = text(raw)
	}
	return v[:min(len(v), maxToken)]
}

func first(dst *string, v []byte) {
	if *dst == "" {
		*dst = string(v)
	}
}

func isNumber(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0]-'0' <= 9) }

// composite takes an object or array, filled if there is something in it.
func (p *problem) composite(says slot, filled bool) {
	switch says {
	case anError, anObject:
		p.hasError = p.hasError || filled
	case aDetail, someErrors:
		p.free = p.free || filled
	}
}

// scalar takes a number or another value that is no text.
func (p *problem) scalar(says slot, v []byte) {
	switch {
	case says == aWish, says == aReset, says == aRemaining:
		p.wishes.field(says, v)
	case says == topSuccess, isNumber(v):
		p.take(says, v)
	}
}

// take takes what is a text or not: a code, or whether all went well.
func (p *problem) take(says slot, v []byte) {
	switch says {
	case aCode:
		first(&p.nested, v)
	case aStatus:
		first(&p.status, v)
	case topCode:
		first(&p.topCode, v)
	case topState:
		first(&p.topState, v)
	case topBase:
		first(&p.base, v)
	case topNumber:
		first(&p.number, v)
	case topHeader:
		first(&p.header, v)
	case topSuccess:
		p.refused, p.succeeded = string(v) == "false", string(v) == "true"
	}
}

func (p *problem) text(says slot, v []byte) {
	switch says {
	case anError, aDetail, topMessage, aMessage:
		p.say(says, v)
	case aKind:
		first(&p.kind, v)
	case aWord:
		if len(p.extra) < 4 {
			p.extra = append(p.extra, string(v))
		}
	case aWish, aReset, aRemaining:
		p.wishes.field(says, v)
	case aQuota:
		p.daily = p.daily || strings.Contains(string(v), "PerDay")
	case topType:
		first(&p.topType, v)
		p.flat = p.flat || string(v) == "error"
	case topObject:
		p.object = string(v)
		p.flat = p.flat || string(v) == "error"
	case topID:
		p.id = len(v) > 0
	case anException, itsException:
		if name := exceptionName(v); says == itsException || isException(string(name)) {
			first(&p.exception, name)
		}
	default:
		p.take(says, v)
	}
}

// say takes text for people.
func (p *problem) say(says slot, v []byte) {
	first(&p.message, v)
	switch {
	case len(v) == 0:
	case says == anError:
		p.hasError = true
	case says == aDetail:
		p.free = true
	case says == topMessage:
		p.bare = true
	}
}
