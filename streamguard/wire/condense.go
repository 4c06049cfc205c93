package wire

// A condenser makes of a JSON document that is too large to hold, and comes in
// pieces cut anywhere, one that says the same and is small: long texts are cut,
// and what lies deep, or is one of very many, is left out once there is much.
// The format reads that as it reads any event. It is a reader and no judge: it
// follows quotes and brackets only.
type condenser struct {
	out   []byte
	due   []byte // the brackets that close what is open in out
	depth int    // how many brackets are open in the document
	mode  condenserMode
	isKey bool  // the string is a key
	key   bool  // a key waits for its value
	keep  bool  // what is under way goes into out
	mark  int   // where the member whose key is read begins in out
	room  int   // up to where the text under way may fill out
	ended bool  // the document's one value is over
	size  int64 // of the document
}

type condenserMode uint8

const (
	betweenTokens condenserMode = iota
	inString
	inEscape
	inScalar
)

// A value is kept while out is shorter than this, by how many brackets it lies
// in: what decides about an event lies in three at most (the finish_reason of a
// choice). The elements of arrays that are no objects count as deep.
var condenserRoom = [...]int{64 << 10, 64 << 10, 56 << 10, 48 << 10, 16 << 10}

// A text is cut to maxToken bytes, and to maxKey behind roomyTexts.
const (
	maxToken   = 4 << 10
	maxKey     = 64 // longer keys are nobody's
	roomyTexts = 16 << 10
)

func (c *condenser) feed(p []byte) {
	c.size += int64(len(p))
	for i := 0; i < len(p) && !c.ended; {
		switch c.mode {
		case inString:
			j := quoteOrEscape(p, i)
			c.take(p[i:j])
			if i = j; j == len(p) {
				return
			}
			if p[j] == '"' {
				c.endString()
			} else {
				c.escape()
			}
			i++
		case inEscape:
			c.escaped(p[i : i+1])
			i++
		case inScalar:
			j := i
			for j < len(p) && !endsScalar(p[j]) {
				j++
			}
			c.take(p[i:j])
			if i = j; j < len(p) {
				c.endValue()
			}
		default:
			c.structure(p[i])
			i++
		}
	}
}

func endsScalar(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ',', ':', '}', ']', '{', '[', '"':
		return true
	}
	return false
}

// close ends the document and returns what is left of it.
func (c *condenser) close() []byte {
	if c.mode == inScalar {
		c.endValue()
	}
	return c.out
}

func (c *condenser) structure(b byte) {
	switch b {
	case ' ', '\t', '\n', '\r', ':', ',':
	case '"':
		c.mode = inString
		if c.inObject() && !c.key {
			c.beginKey()
			return
		}
		c.begin(b)
	case '{', '[':
		c.begin(b)
		if c.keep {
			c.due = append(c.due, b+2) // the bracket that closes it
		}
		c.depth++
		c.key = false
	case '}', ']':
		c.shut()
	default:
		if c.depth == 0 && b >= 0x80 { // of a byte order mark
			return
		}
		c.mode = inScalar
		c.begin(b)
	}
}

// kept reports whether the object or array at hand is in out.
func (c *condenser) kept() bool { return len(c.due) == c.depth }

// inObject reports whether keys are due. Within what is left out nothing is
// told apart.
func (c *condenser) inObject() bool {
	return c.depth > 0 && c.kept() && c.due[c.depth-1] == '}'
}

func (c *condenser) beginKey() {
	c.mark, c.isKey, c.keep = len(c.out), true, true
	c.separate()
	c.out = append(c.out, '"')
	c.room = len(c.out) + maxKey
}

// separate writes the comma behind what was before.
func (c *condenser) separate() {
	if n := len(c.out); n > 0 && c.out[n-1] != '{' && c.out[n-1] != '[' {
		c.out = append(c.out, ',')
	}
}

// begin decides whether the value that begins with b is kept.
func (c *condenser) begin(b byte) {
	deep := min(c.depth, len(condenserRoom)-1)
	if b != '{' && c.depth > 0 && !c.inObject() {
		deep = len(condenserRoom) - 1
	}
	c.keep = c.kept() && len(c.out) < condenserRoom[deep]
	switch {
	case !c.keep:
		if c.key {
			c.out = c.out[:c.mark]
		}
		return
	case !c.key:
		c.separate()
	}
	c.out = append(c.out, b)
	c.room = len(c.out) + maxToken
	if len(c.out) > roomyTexts {
		c.room = len(c.out) + maxKey
	}
}

// take copies bytes of a text or scalar as far as there is room.
func (c *condenser) take(p []byte) {
	if c.keep {
		c.out = append(c.out, p[:max(0, min(len(p), c.room-len(c.out)))]...)
	}
}

// escape takes a backslash, and with it all that it escapes, or neither.
func (c *condenser) escape() {
	c.mode = inEscape
	if len(c.out) >= c.room {
		c.room = 0
		return
	}
	c.take([]byte{'\\'})
	c.room = max(c.room, len(c.out)+1)
}

func (c *condenser) escaped(p []byte) {
	c.mode = inString
	if p[0] == 'u' && c.room > 0 {
		c.room = max(c.room, len(c.out)+len("u0000"))
	}
	c.take(p)
}

func (c *condenser) endString() {
	if c.keep {
		c.out = append(c.out, '"')
	}
	if !c.isKey {
		c.endValue()
		return
	}
	c.mode, c.isKey, c.key = betweenTokens, false, true
	c.out = append(c.out, ':')
}

// endValue ends a text or scalar.
func (c *condenser) endValue() {
	c.mode, c.key = betweenTokens, false
	c.ended = c.depth == 0
}

func (c *condenser) shut() {
	if c.depth == 0 {
		return
	}
	if c.kept() {
		c.out = append(c.out, c.due[c.depth-1])
		c.due = c.due[:c.depth-1]
	}
	c.depth--
	c.key = false
	c.ended = c.depth == 0
}
