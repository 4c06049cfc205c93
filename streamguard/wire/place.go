package wire

import "strings"

// A place is a value in a JSON document that matters: in a request for its
// binding, in an answer for what it says of an error. What is at no place, such
// as the schema of a tool, is passed over unread.
type place struct {
	says  slot    // what the value says of an error
	binds binding // of a string here that is not empty
	has   string  // and that has this in it

	members  []placeMember
	known    uint64 // a bit for each name of a member, see nameBit
	elements *place
}

type placeMember struct {
	name string
	kind string // that the "type" beside it has to say; "" is any
	at   *place
}

const (
	maxBound   = 16 // how many members a place of a binding may have
	placeDepth = 8  // the places of an error lie at most this deep
)

// at returns the place of a path below p, and makes it: names with dots between
// them, "[]" for the elements of an array, and in parentheses the type that an
// object has to name: messages[].content[](file).file.file_id.
func (p *place) at(path string) *place {
	kind := ""
	for path != "" {
		if rest, ok := strings.CutPrefix(path, "[]"); ok {
			if p.elements == nil {
				p.elements = &place{}
			}
			p, path, kind = p.elements, rest, ""
		} else {
			path = strings.TrimPrefix(path, ".")
			n := len(path)
			if i := strings.IndexAny(path, ".[("); i >= 0 {
				n = i
			}
			p, path, kind = p.add(path[:n], kind, nil), path[n:], ""
		}
		if strings.HasPrefix(path, "(") {
			kind, path, _ = strings.Cut(path[1:], ")")
		}
	}
	return p
}

// add returns the place of a member, and makes it one: to, or where that is nil
// a new one. Members of one name share their place, whatever their kinds.
func (p *place) add(name, kind string, to *place) *place {
	for _, m := range p.members {
		if m.name == name && m.kind == kind {
			return m.at
		}
		if m.name == name {
			to = m.at
		}
	}
	if to == nil {
		to = &place{}
	}
	p.members = append(p.members, placeMember{name, kind, to})
	p.known |= nameBit([]byte(name))
	return to
}

// nameBit is a bit that few names share, so that most members are passed over
// without a look through the table.
func nameBit(name []byte) uint64 {
	if len(name) == 0 {
		return 0
	}
	return 1 << ((uint(len(name))*5 + uint(name[0]) + uint(name[len(name)-1])*3) & 63)
}

// member returns the place of the member name, nil for one that does not matter.
func (p *place) member(name []byte) *place {
	if p.known&nameBit(name) == 0 {
		return nil
	}
	for i := range p.members {
		if p.members[i].name == string(name) {
			return p.members[i].at
		}
	}
	return nil
}

// The places of all formats, see Format.bound and Format.errors.
var (
	boundPlaces place
	errorPlaces place
)

// init gathers the places from the table of formats. A variable's initializer
// cannot: what the formats refer to refers to the places.
func init() {
	errorPlaces.elements = &errorPlaces // Google wraps an error in an array
	next := binding(1)
	for _, f := range formats {
		for _, e := range f.errors {
			e.place()
		}
		if len(f.bound) == 0 {
			continue
		}
		f.binds = next
		for _, path := range f.bound {
			path, has, _ := strings.Cut(path, " has ")
			at := boundPlaces.at(path)
			at.binds |= f.binds
			at.has = has
		}
		next <<= 1
	}
	for _, e := range sharedErrors {
		e.place()
	}
	for _, f := range formats {
		for _, e := range f.errors {
			e.link()
		}
	}
	for _, e := range sharedErrors {
		e.link()
	}
}
