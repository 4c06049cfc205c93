package wire

// Valid is the validator.
var Valid = valid

// Walk reports whether b is valid, as a parser that goes into every object and
// array sees it.
func Walk(b []byte) bool {
	p := parse(b)
	p.walk()
	return p.end()
}

func (p *parser) walk() {
	switch p.kind() {
	case '{':
		for ok := p.object(); ok && p.member(); {
			p.walk()
		}
	case '[':
		for ok := p.array(); ok && p.element(); {
			p.walk()
		}
	default:
		p.skip()
	}
}

// Forget has the next event parsed, whatever it looks like.
func (s *Stream) Forget() { s.template.forget() }

// Carries reports whether b carries members of f.
func Carries(b []byte, f *Format) bool { return f.judgedBy(b) == f }

// Stray reports whether the stream is not of the format that was expected.
func (s *Stream) Stray() bool { return s.strange || s.by != s.f }

// CountingFormat is a format that adds up how many bytes it is shown to tell a
// shape.
func CountingFormat(n *int) *Format {
	return &Format{shape: func(head []byte, contentType string, stream bool) Shape {
		*n += len(head)
		return ollamaShape(head, contentType, stream)
	}}
}

// FollowsAlike reports whether the reader of bindings takes the value that b
// begins with for as long as the reader that looks at nothing, or gives up.
func FollowsAlike(b []byte) bool {
	for _, p := range boundPlaces.members {
		if _, end := p.at.read(b, 0); end > 0 && end != looseValue(b, 0) {
			return false
		}
	}
	return true
}

// Condense returns what is kept of a document too large to hold that comes in
// pieces of step bytes, and whether it ended.
func Condense(b []byte, step int) (doc []byte, ended bool) {
	var c condenser
	for len(b) > 0 {
		n := min(step, len(b))
		c.feed(b[:n])
		b = b[n:]
	}
	doc = c.close()
	return doc, c.ended
}

// WidestBound returns how many members a place that binds has at most, and how
// many are told apart.
func WidestBound() (has, room int) {
	var widest func(p *place) int
	widest = func(p *place) int {
		if p == nil {
			return 0
		}
		n := max(len(p.members), widest(p.elements))
		for _, m := range p.members {
			n = max(n, widest(m.at))
		}
		return n
	}
	return widest(&boundPlaces), maxBound
}

// ManyBindings reports whether the formats have more bits than there are.
func ManyBindings() bool {
	for _, f := range formats {
		if len(f.bound) > 0 && f.binds == 0 {
			return true
		}
	}
	return false
}

// WithoutEachBinding calls f with each binding of a place in turn left out, and
// the names of the members that lead to it.
func WithoutEachBinding(f func(path string)) { withoutEach(&boundPlaces, "", f, make(map[*place]bool)) }

func withoutEach(p *place, path string, f func(string), seen map[*place]bool) {
	if p == nil || seen[p] {
		return
	}
	seen[p] = true
	if binds := p.binds; binds != 0 {
		p.binds = 0
		f(path)
		p.binds = binds
	}
	withoutEach(p.elements, path+"[]", f, seen)
	for _, m := range p.members {
		withoutEach(m.at, path+"."+m.name, f, seen)
	}
}
