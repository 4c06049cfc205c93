package wire

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Resume says where a stream broke off, in the words of a vendor that keeps
// the answer and can send the rest of it.
type Resume struct {
	ID       string // of the answer: a response, an interaction
	Sequence int64  // the number of the last event that arrived whole; 0 with an EventID
	EventID  string // the name of that event, where the vendor names events instead of counting them
}

// A resumption says how the vendor of a format is asked for the rest of a
// stream: GET …/{id}?stream=true, and where it broke off.
type resumption struct {
	after      string // the query parameter that says where
	background bool   // only an answer that was asked for in the background is kept
}

// resumes reports whether the vendor keeps the stream that a request asks for, by
// all but its body: whoever reads a kept one can read it again.
func (f *Format) resumes(method string) bool {
	return f.resume != nil && (!f.resume.background || method == http.MethodGet)
}

// Answer returns what the kept answer is called that a request reads again, ""
// for any other request.
func (f *Format) Answer(method string, u *url.URL) string {
	if f.resume == nil || method != http.MethodGet || u == nil {
		return ""
	}
	return u.Path[strings.LastIndexByte(u.Path, '/')+1:]
}

// Resumption returns the request for the rest of the stream that req began: to
// the same place and with the same credentials, in the query too, but without
// what belongs to req's body. It returns nil where req's URL has no place for
// that.
func (f *Format) Resumption(ctx context.Context, req *http.Request, at Resume) *http.Request {
	if f.resume == nil || req.URL == nil || req.URL.Opaque != "" {
		return nil
	}
	u := *req.URL
	if req.Method != http.MethodGet {
		u.Path += "/" + at.ID
		if u.RawPath != "" {
			u.RawPath += "/" + at.ID // see isID: nothing in it is escaped
		}
	}
	where := at.EventID
	if where == "" {
		where = strconv.FormatInt(at.Sequence, 10)
	}
	u.RawQuery = withQuery(u.RawQuery, "stream", "true", f.resume.after, where)
	r := req.WithContext(ctx)
	r.Method, r.URL, r.Header = http.MethodGet, &u, bodiless(req.Header)
	r.Body, r.GetBody, r.ContentLength = nil, nil, 0
	r.TransferEncoding, r.Trailer, r.Form, r.PostForm, r.MultipartForm = nil, nil, nil, nil, nil
	return r
}

// withQuery sets parameters in a query, given as name and value in turn, and
// leaves the bytes of all others alone.
func withQuery(query string, set ...string) string {
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if i := slices.Index(set, name); pair != "" && i%2 != 0 {
			out = append(out, pair)
		}
	}
	for i := 0; i < len(set); i += 2 {
		out = append(out, set[i]+"="+url.QueryEscape(set[i+1]))
	}
	return strings.Join(out, "&")
}

// bodiless returns a copy of a request's headers without those of its body. Its
// answer is an event stream, which net/http decodes.
func bodiless(h http.Header) http.Header {
	out := make(http.Header, len(h)+1)
	for name, values := range h {
		switch k := strings.ToLower(name); {
		case strings.HasPrefix(k, "content-"):
		case slices.Contains([]string{"accept", "accept-encoding", "digest", "repr-digest", "expect", "idempotency-key", "te", "trailer", "transfer-encoding"}, k):
		default:
			out[name] = values
		}
	}
	out["Accept"] = []string{"text/event-stream"}
	return out
}

const (
	maxID      = 256 // of an answer
	maxEventID = 512
	firstNames = 3 // how many of the first names of events are remembered
	lastNames  = 9 // and of the last
	cutNames   = 2 // and of those behind the last cuts
)

// A position is where a stream is, in the words of a vendor that keeps it. Other
// streams have none.
type position struct {
	exact bool // the last event said where it stands
	begun bool // an event came that is none of the answer's life

	id     string
	idRoom [80]byte
	idLen  int

	count int // of the events that had a name
	cuts  int
	names [firstNames + lastNames]eventName
	long  []byte // the last name, if that is longer than what is remembered
	// afterCut are the names of the first events behind the last cuts: a vendor that
	// sends the same again and again is told by them.
	afterCut [cutNames]eventName
	cut      bool // the next event is the first behind one
}

// An eventName is the end of an event's name, as JSON. Nothing is done with it
// until a stream has to be resumed.
type eventName struct {
	n uint8
	b [eventNameLen]byte
}

const eventNameLen = 46

func (e *eventName) set(raw []byte) { e.n = uint8(copy(e.b[:], e.end(raw))) }

func (e *eventName) is(raw []byte) bool { return e.n > 0 && string(e.b[:e.n]) == string(e.end(raw)) }

// end returns what is remembered of a name.
func (e *eventName) end(raw []byte) []byte { return raw[max(0, len(raw)-len(e.b)):] }

// moved takes up where an event stands: raw is the value of the format's
// member for that, nil if the event has none.
func (s *Stream) moved(raw []byte) {
	p, exact := s.position, false
	if raw != nil && s.by.types.counter != "" {
		n := number(raw)
		exact = n > s.seq
		s.seq = max(s.seq, n)
	}
	if p == nil {
		return
	}
	if p.exact = exact; raw != nil && s.by.types.counter == "" {
		p.named(raw)
	}
}

// named takes up the name of an event, as JSON.
func (p *position) named(raw []byte) {
	if len(raw) <= len(`""`) || raw[0] != '"' || len(raw) > maxEventID {
		return
	}
	p.exact = true
	if p.cut {
		p.cut = false
		p.afterCut[p.cuts%cutNames].set(raw)
		p.cuts++
	}
	p.names[p.slot(p.count)].set(raw)
	if p.count++; len(raw) > eventNameLen {
		p.long = append(p.long[:0], raw...)
	} else if p.long != nil {
		p.long = nil
	}
}

// slot is where the i-th name is remembered.
func (p *position) slot(i int) int {
	if i < firstNames {
		return i
	}
	return firstNames + (i-firstNames)%lastNames
}

// name returns the last name.
func (p *position) name() []byte {
	if p.long != nil {
		return text(p.long)
	}
	last := &p.names[p.slot(p.count-1)]
	return text(last.b[:last.n])
}

// knows reports whether an event of that name has come, as far as that is
// remembered: the first ones, by which an answer is told that begins anew, the
// last, and the first behind the last cuts.
func (p *position) knows(raw []byte) bool {
	is := func(e eventName) bool { return e.is(raw) }
	return slices.ContainsFunc(p.names[:], is) || slices.ContainsFunc(p.afterCut[:], is)
}

// stands takes up what an event says about where the stream is.
func (s *Stream) stands(t *types, e *typedEvent) {
	if e.at != nil {
		s.moved(e.at)
	}
	p := s.position
	if p == nil {
		return
	}
	if own := listed(t.own, e.typ) && !idles(e.typ); own {
		p.exact = p.exact && e.at != nil
		p.begun = p.begun || !listed(t.lifecycle, e.typ)
	}
	if p.idLen == 0 {
		p.called(e.id)
	}
}

// called takes up the name of the answer, if it is one.
func (p *position) called(id []byte) {
	if !isID(id) {
		return
	}
	p.idLen = len(id)
	if copy(p.idRoom[:], id) < len(id) {
		p.id = string(id)
	}
}

// isID reports whether an answer's name may stand in a path as it is.
func isID(id []byte) bool {
	if len(id) == 0 || len(id) > maxID || string(id) == "." || string(id) == ".." {
		return false
	}
	for _, c := range id {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.~:", rune(c)) {
			return false
		}
	}
	return true
}

// Resume returns where the stream is: what to ask its vendor for to get the
// rest. It is not ok where the vendor does not keep it, where it has not said yet
// what the answer is called or did not say where the last event stands, and
// behind a failure.
func (s *Stream) Resume() (at Resume, ok bool) {
	p := s.position
	if p == nil || !p.exact || p.idLen == 0 || s.failure != nil || s.by != s.f {
		return Resume{}, false
	}
	if at.ID = p.id; at.ID == "" {
		at.ID = string(p.idRoom[:p.idLen])
	}
	if s.by.types.counter != "" {
		at.Sequence = s.seq
	} else {
		at.EventID = string(p.name())
	}
	return at, true
}

// Rejoin readies the stream for a body that goes on with the next event. What
// was half received of one is forgotten, unless it flows by (see [Stream.Large]):
// then that event goes on. lead is what the body before still owes the reader:
// the LF of its last blank line.
func (s *Stream) Rejoin() (lead []byte) {
	s.position.cut = true
	if s.large != nil {
		return nil
	}
	t := &s.sse
	if t.cr && t.lineEnd() != "\r" {
		lead = []byte("\n")
	}
	t.line, t.pos, t.start, t.cr, t.tail = 0, 0, true, false, false
	return lead
}

// A Continuation says what an event of a stream that was taken up again is to
// what came before.
type Continuation uint8

const (
	// Lost is an event that is not the next one, or does not show that it is.
	Lost Continuation = iota
	// Older is one that came before.
	Older
	// Repeats is an event that says again that the answer lives, or has nothing
	// of the answer.
	Repeats
	// Follows is the next event.
	Follows
)

// Continues tells what an event is to the stream so far, which [Stream.Resume]
// must know the place of, without taking it up.
// Of one that is too large to hold, and so not whole, ev is the beginning.
func (s *Stream) Continues(ev []byte, whole bool) Continuation {
	var scratch Stream
	e := splitEvent(&scratch, ev)
	data := trim(e.data)
	switch {
	case e.bare != nil, len(e.failure) > 0:
		return Lost
	case len(data) == 0 || data[0] != '{':
		return Repeats // a comment, a ping, a mark of the end
	}
	typ, at := s.by.types.place(e.name, data, whole)
	alive := listed(s.by.types.lifecycle, typ)
	switch {
	case at == nil && alive && s.position.begun:
		return Repeats
	case at == nil && (alive || !whole || listed(s.by.types.own, typ) && !idles(typ)):
		return Lost
	case at == nil:
		if p := inspect(data); p.inBand() {
			return Lost
		}
		return Repeats
	case s.by.types.counter != "":
		return s.counts(number(at), alive || idles(typ))
	}
	return s.names(at, alive)
}

// place reads the type of an event and the value that says where it stands, nil
// for none, from data that may be cut off.
func (t *types) place(typ, data []byte, whole bool) (_, at []byte) {
	for i := 1; ; {
		i = skipCommas(data, i)
		name, from := looseName(data, i)
		if from < 0 {
			return typ, at
		}
		end := looseValue(data, from)
		if end <= from || end == len(data) && !whole {
			return typ, at
		}
		switch value := data[from:end]; {
		case string(name) == t.member:
			typ = text(value)
		case t.tellsPlace(name):
			at = value
		}
		i = end
	}
}

// counts is Continues by the number n of an event; alive says that the event
// tells nothing but that the answer lives.
func (s *Stream) counts(n int64, alive bool) Continuation {
	switch {
	case n < 0:
		return Lost
	case alive && (s.position.begun || n <= s.seq):
		return Repeats
	case n <= s.seq:
		return Older
	case n == s.seq+1:
		return Follows
	}
	return Lost
}

// names is Continues by the name of an event, as JSON. Names have no order: that
// none is missing is the vendor's word.
func (s *Stream) names(raw []byte, alive bool) Continuation {
	p := s.position
	switch {
	case len(text(raw)) == 0 || len(raw) > maxEventID:
		return Lost
	case p.knows(raw) && alive:
		return Repeats
	case p.knows(raw):
		return Older
	case alive && p.begun:
		return Lost
	}
	return Follows
}
