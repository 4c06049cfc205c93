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
		return skipInside(b, i+1, depth+1, '}')
	case '[':
		return skipInside(b, i+1, depth+1, ']')
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

// skipInside is called with the index after the opening bracket of an object or
// array.
func skipInside(b []byte, i, depth int, closing byte) int {
	if depth > maxDepth {
		return -1
	}
	i = skipSpace(b, i)
	if i < len(b) && b[i] == closing {
		return i + 1
	}
	for {
		if closing == '}' {
			if i = skipKey(b, i); i < 0 {
				return -1
			}
		}
		if i = skipValue(b, i, depth); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case closing:
			return i + 1
		default:
			return -1
		}
	}
}

// skipKey returns the index of the value behind the key that begins at b[i], -1
// if there is no key.
func skipKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = skipString(b, i+1); i < 0 {
		return -1
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	return skipSpace(b, i+1)
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

// text returns the contents of the valid JSON string raw, nil for other values.
// It allocates only if there is an escape.
func text(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		return []byte(unquote(raw))
	}
	return raw[1 : len(raw)-1]
}

// trim takes off the white space around a JSON value.
func trim(b []byte) []byte {
	b = b[skipSpace(b, 0):]
	for n := len(b); n > 0 && skipSpace(b, n-1) == n; n-- {
		b = b[:n-1]
	}
	return b
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
