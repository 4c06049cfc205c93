package discovery

import (
	"errors"
	"io"
)

// maxEmptyReads is how often in a row a body may read nothing.
const maxEmptyReads = 100

// bounded reads up to a number of bytes and cuts each run of white space to its
// first byte, since the decoder looks at a run again with each piece of it that
// arrives. It remembers why it ended.
type bounded struct {
	r    io.Reader
	left int64
	over bool  // there was more
	err  error // of r, but for io.EOF

	quoted, escaped, blank bool // where in the text the last byte was
}

func (b *bounded) Read(p []byte) (int, error) {
	for empty := 0; empty < maxEmptyReads; {
		n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
		if b.left -= int64(n); b.left < 0 {
			b.over = true
			return 0, io.EOF
		}
		if err != nil && !errors.Is(err, io.EOF) {
			b.err = err
		}
		if kept := b.squeeze(p[:n]); kept > 0 || err != nil {
			return kept, err
		}
		if n == 0 {
			empty++
		}
	}
	b.err = io.ErrNoProgress // the decoder would ask for ever
	return 0, b.err
}

// squeeze drops white space from p in place and returns what is left of it.
func (b *bounded) squeeze(p []byte) int {
	kept := 0
	for _, c := range p {
		was := b.blank
		b.blank = false
		switch {
		case b.escaped:
			b.escaped = false
		case b.quoted:
			b.escaped, b.quoted = c == '\\', c != '"'
		case c == '"':
			b.quoted = true
		default:
			b.blank = isBlank(c)
		}
		if !b.blank || !was {
			p[kept] = c
			kept++
		}
	}
	return kept
}

// isBlank reports white space as JSON has it (RFC 8259 section 2).
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
