package wire

import (
	"bytes"
	"unicode/utf8"
)

// A node is a place in a JSON document that a reader of fields cares for; 0 is
// any other place.
type node uint8

const root node = 1

// An edge leads from an object to its member name, or from an array to its
// elements.
type edge struct {
	from node
	name string
	to   node
}

// elements is the name of the edge to an array's elements.
const elements = "[]"

// What a fieldSink is told of: a string or a scalar with its text, or an object
// or array that ended, with or without anything in it.
const (
	kindString = '"'
	kindScalar = '0' // number, true, false, null
	kindFilled = '{' // an object or array with something in it
	kindEmpty  = '}'
)

type fieldSink interface {
	field(n node, kind byte, v []byte)
}

const (
	trackDepth = 8 // nodes lie at most this deep
)

// fields finds the members named by edges in a JSON document that comes in
// pieces, cut anywhere, in constant memory. It is a reader and no judge: it
// follows quotes and brackets only, so on a document that is not valid it
// reports what it took for fields up to then.
type fields struct {
	edges []edge
	sink  fieldSink

	tok   []byte   // key or value as far as read, decoded
	buf   [64]byte // where tok begins
	depth int      // how many brackets are open
	stack [trackDepth + 1]struct {
		node   node
		array  bool
		filled bool
	}
	member node // the value behind the last key
	mode   fieldMode
	atKey  bool // the next string in this object is a key
	isKey  bool // the current string is
	keep   bool // tok is wanted
	hex    uint8
	char   rune // of a \u escape
	high   rune // a high surrogate that waits for its low one
	ended  bool // the document's one value is over
}

type fieldMode uint8

const (
	fieldBetween fieldMode = iota
	fieldText
	fieldEscape
	fieldHex
	fieldScalar
)

func (f *fields) feed(p []byte) {
	for i := 0; i < len(p); {
		switch f.mode {
		case fieldText:
			i = f.text(p, i)
		case fieldEscape:
			f.escape(p[i])
			i++
		case fieldHex:
			f.hexDigit(p[i])
			i++
		case fieldScalar:
			i = f.scalar(p, i)
		default:
			if f.ended {
				return
			}
			f.structure(p[i])
			i++
		}
	}
}

// close ends a scalar that the end of the input ends.
func (f *fields) close() {
	if f.mode == fieldScalar {
		f.endScalar()
	}
}

func (f *fields) structure(c byte) {
	switch c {
	case ' ', '\t', '\n', '\r', ':':
	case ',':
		f.atKey = true
	case '"':
		f.isKey = f.atKey && f.inObject()
		f.keep = f.isKey && f.stack[f.depth].node != 0
		f.mode = fieldText
		f.begin()
	case '{', '[':
		f.open(c == '[')
	case '}', ']':
		f.shut()
	default:
		if f.depth == 0 && c >= 0x80 { // of a byte order mark
			return
		}
		f.isKey = false
		f.mode = fieldScalar
		f.begin()
		f.add(c)
	}
}

// begin starts a string or scalar.
func (f *fields) begin() {
	if f.tok == nil {
		f.tok = f.buf[:0]
	}
	f.tok = f.tok[:0]
	if f.depth <= trackDepth {
		f.stack[f.depth].filled = true
	}
	if !f.isKey {
		f.keep = f.value() != 0
	}
}

func (f *fields) inObject() bool {
	return f.depth > 0 && f.depth <= trackDepth && !f.stack[f.depth].array
}

// value returns the node of the value that begins now.
func (f *fields) value() node {
	switch {
	case f.depth == 0:
		return root
	case f.depth > trackDepth:
		return 0
	case f.stack[f.depth].array:
		return f.element(f.stack[f.depth].node)
	}
	return f.member
}

// element returns the node of the elements of the array from.
func (f *fields) element(from node) node {
	if from != 0 {
		for i := range f.edges {
			if e := &f.edges[i]; e.from == from && e.name == elements {
				return e.to
			}
		}
	}
	return 0
}

func (f *fields) open(array bool) {
	n := f.value()
	if f.depth <= trackDepth {
		f.stack[f.depth].filled = true
	}
	f.depth++
	if f.depth <= trackDepth {
		f.stack[f.depth].node, f.stack[f.depth].array, f.stack[f.depth].filled = n, array, false
	}
	f.member = 0
	f.atKey = true
}

func (f *fields) shut() {
	if f.depth == 0 {
		return
	}
	if f.depth <= trackDepth {
		if top := &f.stack[f.depth]; top.node != 0 {
			kind := byte(kindEmpty)
			if top.filled {
				kind = kindFilled
			}
			f.sink.field(top.node, kind, nil)
		}
	}
	f.depth--
	f.member = 0
	f.atKey = false
	f.ended = f.depth == 0
}

// quoteOrEscape returns the index of the first quote or backslash from i on,
// len(b) if there is none. It looks at a window at a time, since the quote that
// ends a long text may be far behind its next escape.
func quoteOrEscape(b []byte, i int) int {
	const window = 256
	for ; i < len(b); i += window {
		w := b[i:min(i+window, len(b))]
		q := bytes.IndexByte(w, '"')
		if q >= 0 {
			w = w[:q]
		}
		if e := bytes.IndexByte(w, '\\'); e >= 0 {
			return i + e
		}
		if q >= 0 {
			return i + q
		}
	}
	return len(b)
}

// text goes on inside a string.
func (f *fields) text(p []byte, i int) int {
	j := quoteOrEscape(p, i)
	if f.keep && j > i {
		f.add(p[i:j]...)
	}
	if j == len(p) {
		return j
	}
	if p[j] == '"' {
		f.endString()
	} else {
		f.mode = fieldEscape
	}
	return j + 1
}

func (f *fields) endString() {
	f.surrogate()
	f.mode = fieldBetween
	if f.isKey {
		f.atKey = false
		f.member = 0
		if f.keep && len(f.tok) <= maxKey {
			f.member = f.child(f.tok)
		}
		return
	}
	if f.keep {
		f.sink.field(f.value(), kindString, f.tok)
	}
	f.ended = f.depth == 0
}

// child returns the node of the current object's member name.
func (f *fields) child(name []byte) node {
	if string(name) == elements { // a key that is spelled like it
		return 0
	}
	from := f.stack[f.depth].node
	for i := range f.edges {
		if e := &f.edges[i]; e.from == from && e.name == string(name) {
			return e.to
		}
	}
	return 0
}

func (f *fields) escape(c byte) {
	f.mode = fieldText
	switch c {
	case 'u':
		f.mode, f.hex, f.char = fieldHex, 0, 0
		return
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	}
	f.add(c)
}

func (f *fields) hexDigit(c byte) {
	v := unhex(c)
	if v < 0 {
		v = 0
	}
	f.char = f.char<<4 | v
	if f.hex++; f.hex < 4 {
		return
	}
	f.mode = fieldText
	switch c := f.char; {
	case c >= 0xDC00 && c <= 0xDFFF && f.high != 0:
		c = (f.high-0xD800)<<10 | (c - 0xDC00) + 0x10000
		f.high = 0
		f.addRune(c)
	case c >= 0xD800 && c <= 0xDBFF:
		f.surrogate()
		f.high = c
	default:
		f.addRune(c) // a lone low surrogate becomes U+FFFD, as in encoding/json
	}
}

// surrogate writes what a high surrogate without its partner stands for.
func (f *fields) surrogate() {
	if f.high != 0 {
		f.high = 0
		f.addRune(utf8.RuneError)
	}
}

func (f *fields) addRune(r rune) {
	var buf [utf8.UTFMax]byte
	f.add(buf[:utf8.EncodeRune(buf[:], r)]...)
}

func (f *fields) add(p ...byte) {
	f.surrogate()
	if f.keep {
		f.tok = append(f.tok, p[:min(len(p), max(0, maxToken-len(f.tok)))]...)
	}
}

func (f *fields) scalar(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch p[i] {
		case ' ', '\t', '\n', '\r', ',', ':', '}', ']', '{', '[', '"':
			f.endScalar()
			return i
		}
		f.add(p[i])
	}
	return i
}

func (f *fields) endScalar() {
	f.mode = fieldBetween
	if f.keep {
		f.sink.field(f.value(), kindScalar, f.tok)
	}
	f.ended = f.depth == 0
}
