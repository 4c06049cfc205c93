package wire

import "bytes"

// A binding is a set of formats in whose requests a value names something that
// only one account of the provider knows: an answer before, a file, a cache,
// reasoning that is sealed.
type binding uint16

// dummySignature is what Google documents for calls that come from elsewhere.
const dummySignature = `"skip_thought_signature_validator"`

// read returns what the value that begins at b[i] binds, and the index behind
// it, -1 if it cannot be followed. It ends where looseValue does.
func (p *place) read(b []byte, i int) (found binding, end int) {
	switch {
	case i >= len(b):
		return 0, -1
	case b[i] == '[' && p.elements != nil:
		return p.readList(b, i)
	case b[i] == '{' && p.members != nil:
		return p.readObject(b, i)
	}
	if end = looseValue(b, i); b[i] == '"' && end > i+2 {
		if v := b[i:end]; p.has == "" && string(v) != dummySignature || p.has != "" && bytes.Contains(v, []byte(p.has)) {
			found = p.binds
		}
	}
	return found, end
}

func (p *place) readList(b []byte, i int) (found binding, end int) {
	for i++; ; i = end {
		if i = skipCommas(b, i); i < len(b) && b[i] == ']' {
			return found, i + 1
		}
		var f binding
		if f, end = p.elements.read(b, i); end <= i {
			return 0, -1
		}
		found |= f
	}
}

func (p *place) readObject(b []byte, i int) (found binding, end int) {
	var (
		byMember [maxBound]binding
		all      binding
		kind     []byte // the type, with its quotes
	)
	for i++; ; i = end {
		if i = skipCommas(b, i); i < len(b) && b[i] == '}' {
			break
		}
		name, from := looseName(b, i)
		if from < 0 {
			return 0, -1
		}
		var f binding
		if at := p.member(name); at != nil {
			f, end = at.read(b, from)
		} else {
			end = looseValue(b, from)
		}
		if end <= from {
			return 0, -1
		}
		if string(name) == "type" {
			kind = b[from:end]
		}
		if f == 0 {
			continue
		}
		all |= f
		for m := range p.members {
			if p.members[m].name == string(name) {
				byMember[m] |= f
			}
		}
	}
	if all == 0 {
		return 0, i + 1
	}
	for m := range p.members {
		if want := p.members[m].kind; byMember[m] != 0 && (want == "" || len(kind) > 2 && want == string(kind[1:len(kind)-1])) {
			found |= byMember[m]
		}
	}
	return found, i + 1
}
