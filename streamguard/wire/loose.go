package wire

import "bytes"

// This file reads JSON that may be cut off or not quite valid: quotes and
// brackets are followed and nothing else is checked.

// looseName returns the name, decoded, of the member that begins at b[i], and
// where its value begins; -1 where there is none. Quotes and brackets are
// followed and nothing else is checked.
func looseName(b []byte, i int) (name []byte, value int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	end := quoteOrEscape(b, i+1)
	switch {
	case end >= len(b):
		return nil, -1
	case b[end] == '"':
		name = b[i+1 : end]
		end++
	default:
		if end = looseString(b, end); end < 0 {
			return nil, -1
		}
		name = []byte(unquote(b[i:end]))
	}
	if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
		return nil, -1
	}
	return name, skipSpace(b, i+1)
}

// looseValue returns the index behind the value that begins at b[i], -1 if it
// does not end. A scalar ends with b, too.
func looseValue(b []byte, i int) int {
	depth, start := 0, i
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = looseString(b, i+1); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a scalar, or nothing
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	if depth > 0 || i == start {
		return -1
	}
	return len(b) // a scalar
}

// looseString returns the index behind the closing quote of the string whose
// contents begin at b[i], -1 if there is none.
func looseString(b []byte, i int) int {
	for {
		switch i = quoteOrEscape(b, i); {
		case i >= len(b):
			return -1
		case b[i] == '"':
			return i + 1
		}
		i += 2
	}
}

// skipCommas skips what stands between members.
func skipCommas(b []byte, i int) int {
	for i = skipSpace(b, i); i < len(b) && b[i] == ','; {
		i = skipSpace(b, i+1)
	}
	return i
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
