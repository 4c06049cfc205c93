package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// maxDepth is how deep values may nest, the limit of encoding/json.
const maxDepth = 10000

// valid reports whether b is one JSON value with nothing but white space
// around it. It agrees with [json.Valid].
func valid(b []byte) bool {
	i := skipValue(b, skipSpace(b, 0), 0)
	return i >= 0 && skipSpace(b, i) == len(b)
}

// skipSpace returns the index of the first byte from i on that is no JSON white
// space.
func skipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// skipValue returns the index after the value that begins at b[i], -1 if there
// is no valid one.
func skipValue(b []byte, i, depth int) int {
	if uint(i) >= uint(len(b)) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case '{':
		return skipObject(b, i+1, depth+1)
	case '[':
		return skipArray(b, i+1, depth+1)
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	}
	return skipNumber(b, i)
}

func skipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// skipObject is called with the index after the opening brace.
func skipObject(b []byte, i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	i = skipSpace(b, i)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		if i = skipString(b, i+1); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = skipValue(b, skipSpace(b, i+1), depth); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}

// skipArray is called with the index after the opening bracket.
func skipArray(b []byte, i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	i = skipSpace(b, i)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = skipValue(b, i, depth); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

// skipNumber follows the grammar of RFC 8259 §6.
func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return -1
	case b[i] == '0':
		i++
	default:
		if i = skipDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

func skipDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// skipString returns the index after the closing quote of the string whose
// contents begin at b[i], -1 if it does not end or holds a control character
// or a bad escape.
func skipString(b []byte, i int) int {
	i = stringStop(b, i)
	if i < len(b) && b[i] == '"' {
		return i + 1
	}
	return skipEscaped(b, i)
}

// skipEscaped goes on with skipString at a byte that stringStop stopped at.
func skipEscaped(b []byte, i int) int {
	for i < len(b) && b[i] == '\\' {
		if i = skipEscape(b, i+1); i < 0 {
			return -1
		}
		i = stringStop(b, i)
	}
	if i < len(b) && b[i] == '"' {
		return i + 1
	}
	return -1
}

func skipEscape(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if len(b)-i < 5 {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if unhex(c) < 0 {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func unhex(c byte) rune {
	switch {
	case c-'0' <= 9:
		return rune(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stringStop returns the index of the first quote, backslash or control
// character from i on, len(b) if there is none. It looks at eight bytes at a
// time: the usual has-zero-byte trick can report bytes above a true hit
// wrongly, never below, so the lowest hit is exact.
func stringStop(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		q, s := w^(ones*'"'), w^(ones*'\\')
		hit := ((q-ones)&^q | (s-ones)&^s | (w-ones*0x20)&^w) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// A parser walks one JSON value in a single pass and validates all of it on
// the way, without allocating. Each value must be consumed exactly once: by
// skip or one of the methods built on it, or by object or array and a loop
// over member or element that runs to its end. After the first fault every
// method reports false; end tells whether all was well.
type parser struct {
	b     []byte
	name  []byte // the member's key, decoded
	i     int    // at the next value, white space skipped
	depth int
	fresh bool // directly behind an opening bracket
	bad   bool
}

// parse returns a parser at the beginning of b.
func parse(b []byte) parser { return parser{b: b, i: skipSpace(b, 0)} }

// kind returns the first byte of the next value, 0 at the end.
func (p *parser) kind() byte {
	if p.bad || p.i >= len(p.b) {
		return 0
	}
	return p.b[p.i]
}

func (p *parser) fail() bool {
	p.bad = true
	return false
}

// object enters the object that comes next.
func (p *parser) object() bool { return p.enter('{') }

// array enters the array that comes next.
func (p *parser) array() bool { return p.enter('[') }

func (p *parser) enter(open byte) bool {
	if p.kind() != open || p.depth >= maxDepth {
		return p.fail()
	}
	p.i++
	p.depth++
	p.fresh = true
	return true
}

// next goes to the next key or element; false at the closing bracket.
func (p *parser) next(closing byte) bool {
	if p.bad {
		return false
	}
	i := skipSpace(p.b, p.i)
	if i >= len(p.b) {
		return p.fail()
	}
	if p.b[i] == closing {
		p.i = i + 1
		p.depth--
		p.fresh = false
		return false
	}
	if !p.fresh {
		if p.b[i] != ',' {
			return p.fail()
		}
		i = skipSpace(p.b, i+1)
	}
	p.fresh = false
	p.i = i
	return i < len(p.b) || p.fail()
}

// element goes to the next element of the array that was entered.
func (p *parser) element() bool { return p.next(']') }

// member goes to the value of the next member of the object that was entered
// and sets name.
func (p *parser) member() bool {
	if !p.next('}') {
		return false
	}
	b, i := p.b, p.i
	if b[i] != '"' {
		return p.fail()
	}
	j := stringStop(b, i+1)
	if j < len(b) && b[j] == '"' {
		p.name = b[i+1 : j]
		j++
	} else {
		if j = skipEscaped(b, j); j < 0 {
			return p.fail()
		}
		p.name = []byte(unquote(b[i:j]))
	}
	if j = skipSpace(b, j); j >= len(b) || b[j] != ':' {
		return p.fail()
	}
	p.i = skipSpace(b, j+1)
	return true
}

// skip consumes the next value.
func (p *parser) skip() bool {
	if p.bad {
		return false
	}
	i := skipValue(p.b, p.i, p.depth)
	if i < 0 {
		return p.fail()
	}
	p.i = i
	return true
}

// raw consumes the next value and returns its bytes, nil if it is not valid.
func (p *parser) raw() []byte {
	start := p.i
	if !p.skip() {
		return nil
	}
	return p.b[start:p.i]
}

// filled consumes the next value and reports whether it is something: a string,
// array or object that is not empty.
func (p *parser) filled() bool { return filled(p.raw()) }

// end reports whether the one value was valid and nothing but white space
// follows it.
func (p *parser) end() bool {
	return !p.bad && skipSpace(p.b, p.i) == len(p.b)
}

// filled reports whether the valid JSON value raw is a string, array or object
// with something in it.
func filled(raw []byte) bool {
	if len(raw) < 3 {
		return false
	}
	switch raw[0] {
	case '"':
		return true
	case '{', '[':
		return skipSpace(raw, 1) < len(raw)-1
	}
	return false
}

// unquote returns the text of the valid JSON string raw, "" for other values.
func unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
