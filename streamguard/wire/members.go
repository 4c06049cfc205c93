package wire

import "strings"

// A sign is a member at the top of an object that says, alone or with others,
// whose object it is: by what kind of value it has, as the first byte of that (t
// and f are a boolean), or by a word. A word with a star behind it is how that
// begins; that it is an error has nobody's word.
type sign struct {
	name  string
	kinds string
	words []string
}

// signs are members that an object of a format has all at once.
type signs []sign

// judgedBy returns the format that judges the object b, a whole answer or the
// data of an event, where f is expected: f if b carries members of it, else
// another known format whose members it carries, or nil if it carries none: a
// path says which format is expected, not which one comes (contract 0). An error
// by itself has no format. It does not allocate.
func (f *Format) judgedBy(b []byte) *Format {
	var o outline
	if !o.read(b) {
		return nil
	}
	var other *Format
	for _, g := range formats {
		switch {
		case g != f && other != nil || !o.carries(g):
		case g == f:
			return f
		default:
			other = g
		}
	}
	return other
}

// An outline is what stands at the top of an object.
type outline struct {
	known   uint64 // a bit for each name, see nameBit
	n       int
	members [maxOutline]struct{ name, value []byte }
}

// maxOutline is how many members of an object are looked at.
const maxOutline = 64

// read reports whether b is a valid object.
func (o *outline) read(b []byte) bool {
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		name := p.name
		if value := p.raw(); o.n < maxOutline && len(value) > 0 {
			o.members[o.n].name, o.members[o.n].value = name, value
			o.n++
			o.known |= nameBit(name)
		}
	}
	return p.end()
}

func (o *outline) carries(f *Format) bool {
	for _, all := range f.carries {
		n := 0
		for n < len(all) && o.shows(&all[n]) {
			n++
		}
		if n == len(all) {
			return true
		}
	}
	return false
}

func (o *outline) shows(s *sign) bool {
	if o.known&nameBit([]byte(s.name)) == 0 {
		return false
	}
	for i := range o.members[:o.n] {
		if m := &o.members[i]; string(m.name) == s.name {
			return strings.IndexByte(s.kinds, m.value[0]) >= 0 || s.says(text(m.value))
		}
	}
	return false
}

func (s *sign) says(word []byte) bool {
	for _, w := range s.words {
		start, begins := strings.CutSuffix(w, "*")
		if string(word) == w || begins && len(word) > 0 && string(word) != "error" && strings.HasPrefix(string(word), start) {
			return true
		}
	}
	return false
}
