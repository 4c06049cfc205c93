package wire

// A parser walks one JSON value in a single pass and validates all of it on
// the way, without allocating. A value is consumed by skip or one of the methods
// built on it, or by object or array and a loop over member or element that runs
// to its end; a member or element that is not consumed is skipped. After the
// first fault every method reports false; end tells whether all was well.
type parser struct {
	b     []byte
	name  []byte // the member's key, decoded
	i     int    // at the next value, white space skipped
	due   int    // where the member or element begins that is to be consumed
	depth int
	fresh bool // directly behind an opening bracket
	bad   bool
	texts int // bytes of the texts that content has consumed
}

// parse returns a parser at the beginning of b.
func parse(b []byte) parser { return parser{b: b, i: skipSpace(b, 0), due: -1} }

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

// intoObject enters the object that comes next. Any other value is consumed:
// there is nothing to go into.
func (p *parser) intoObject() bool { return p.into('{') }

// intoArray does for an array what intoObject does for an object.
func (p *parser) intoArray() bool { return p.into('[') }

func (p *parser) into(open byte) bool {
	if p.kind() != open {
		p.skip()
		return false
	}
	return p.enter(open)
}

// next goes to the next key or element; false at the closing bracket.
func (p *parser) next(closing byte) bool {
	if p.bad {
		return false
	}
	i := p.i
	if i == p.due {
		if i = skipValue(p.b, i, p.depth); i < 0 {
			return p.fail()
		}
	}
	if i = skipSpace(p.b, i); i >= len(p.b) {
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
func (p *parser) element() bool {
	if !p.next(']') {
		return false
	}
	p.due = p.i
	return true
}

// objectElement is element for the objects alone: it consumes what else there is.
func (p *parser) objectElement() bool {
	for p.element() {
		if p.kind() == '{' {
			return true
		}
	}
	return false
}

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
	j = skipSpace(b, j+1)
	p.i, p.due = j, j
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

// content consumes the next value and reports whether it is something; text is
// where the contents of a string are, none for an array or object.
func (p *parser) content() (text span, ok bool) {
	isText, start := p.kind() == '"', p.i
	if !p.filled() {
		return span{}, false
	}
	if isText {
		text = span{start + 1, p.i - 1}
		p.texts += text.to - text.from
	}
	return text, true
}

// said consumes the next value and reports whether it says something: a string
// that is not empty, in it at any depth, but for the names of types and roles.
// text is where the contents of the last such string are.
func (p *parser) said() (text span, ok bool) {
	switch p.kind() {
	case '{':
		for in := p.object(); in && p.member(); {
			if string(p.name) == "type" || string(p.name) == "role" {
				continue
			}
			if t, says := p.said(); says {
				text, ok = t, true
			}
		}
	case '[':
		for in := p.array(); in && p.element(); {
			if t, says := p.said(); says {
				text, ok = t, true
			}
		}
	default:
		return p.content()
	}
	return text, ok && !p.bad
}

// end reports whether the one value was valid and nothing but white space
// follows it.
func (p *parser) end() bool {
	return !p.bad && skipSpace(p.b, p.i) == len(p.b)
}
