package upstreamtest

import (
	"bytes"
	"net/http"
	"time"
)

// content is what a step has to say to one request, before it is cut, delayed
// and framed.
type content struct {
	mime   string
	stream bool
	exact  bool // the bytes are the test's own: only LineEnds touches them
	header []field
	events []event
}

// event is one unit of a body.
type event struct {
	data []byte
	text bool // it carries text or tool arguments
	done bool // it is the format's final mark and nothing else
}

// part is one write. A part without data only waits.
type part struct {
	wait  time.Duration
	gate  <-chan struct{}
	data  []byte
	times int // 0 is 1; negative is for ever
}

// Framings of a body beside a Content-Length of at least 0.
const (
	chunked    = -1
	untilClose = -2
)

// reply is a step made concrete for one request: bytes, times and an end.
type reply struct {
	delay    time.Duration
	gate     <-chan struct{}
	verbatim bool // parts are the whole reply, head included
	mute     bool
	status   int
	header   http.Header
	length   int  // Content-Length, or chunked, or untilClose
	short    bool // less than length is sent
	parts    []part
	end      ending
}

// render makes the reply to r.
func (s *Step) render(r *Request) *reply {
	p := &reply{delay: s.delay, gate: s.gate, verbatim: s.verbatim, mute: s.mute,
		status: s.status, header: http.Header{}, end: s.end}
	if p.status == 0 {
		p.status = http.StatusOK
	}
	if s.mute {
		return p
	}
	var c content
	if s.content != nil {
		c = s.content(s, r)
	}
	if !c.stream && len(s.edits) > 0 {
		c = edited(c, s.edits)
	}
	if c.mime != "" {
		p.header.Set("Content-Type", c.mime)
	}
	for _, h := range c.header {
		p.header.Set(h.name, h.value)
	}
	p.parts = s.parts(r, c)
	whole := size(p.parts)
	cut := s.cutBody(p)
	sent := size(p.parts)
	if s.gzip {
		p.header.Set("Content-Encoding", "gzip")
		p.parts = compressed(p.parts, cut || s.cuts())
		whole, sent = size(p.parts), size(p.parts)
	}
	s.frame(p, c.stream, whole, sent)
	set := map[string]bool{}
	for _, h := range s.header {
		if !set[http.CanonicalHeaderKey(h.name)] {
			p.header.Del(h.name)
			set[http.CanonicalHeaderKey(h.name)] = true
		}
		p.header.Add(h.name, h.value)
	}
	return p
}

// cuts tells whether the step leaves out a part of its events.
func (s *Step) cuts() bool { return s.cutEvents.set || s.cutTexts.set }

// parts lays out events and pieces in the order in which they are sent.
func (s *Step) parts(r *Request, c content) []part {
	f := r.format()
	if c.mime == "text/event-stream" && !f.sse {
		f = chatFormat // bytes of an event stream on a path that has none
	} else if !c.stream {
		f = plain(f)
	}
	events, stop := s.kept(c)
	var parts []part
	add := func(ps []Piece, before int) {
		for _, p := range ps {
			if p.done && s.noDone {
				continue
			}
			q := part{wait: p.wait, gate: p.gate, times: p.times}
			if p.data != nil {
				q.data = p.data(f, r, before)
				if !p.exact {
					q.data = s.ended(f, c, q.data)
				}
			}
			if len(q.data) > 0 || q.wait > 0 || q.gate != nil {
				parts = append(parts, q)
			}
		}
	}
	for i := 0; i <= stop; i++ {
		for _, in := range s.inserts {
			if in.n == i || in.n > i && i == len(events) {
				add(in.pieces, i)
			}
		}
		if i == stop {
			break
		}
		q := part{data: s.ended(f, c, events[i].data)}
		if i > 0 {
			q.wait = s.every
		}
		parts = append(parts, q)
	}
	if s.inside && stop < len(events) {
		half := s.ended(f, c, events[stop].data)
		parts = append(parts, part{wait: s.every, data: half[:len(half)/2]})
	}
	for _, in := range s.inserts {
		if in.n < 0 {
			add(in.pieces, stop)
		}
	}
	return s.split(parts)
}

// kept is the events of the content and how many of them are sent.
func (s *Step) kept(c content) ([]event, int) {
	events := make([]event, 0, len(c.events))
	for _, e := range c.events {
		if !e.done || !s.noDone {
			events = append(events, e)
		}
	}
	stop := len(events)
	if s.cutEvents.set {
		stop = min(stop, max(s.cutEvents.n, 0))
	}
	if s.cutTexts.set {
		texts := 0
		for i, e := range events[:stop] {
			if e.text {
				texts++
			}
			if s.cutTexts.n <= 0 && e.text {
				stop = i
				break
			}
			if s.cutTexts.n > 0 && texts == s.cutTexts.n {
				stop = i + 1
				break
			}
		}
	}
	return events, stop
}

// ended puts the chosen line ends into one event.
func (s *Step) ended(f *format, c content, data []byte) []byte {
	e := s.lineEnd
	if e == "" && !c.exact {
		e = f.lineEnd
	}
	switch {
	case !c.stream || f.binary && !c.exact || e == "" || e == LF:
		return data
	case e == Mixed:
		if body, ok := bytes.CutSuffix(data, []byte("\n\n")); ok {
			return append(bytes.Clone(body), Mixed...)
		}
		return data
	}
	return bytes.ReplaceAll(data, []byte("\n"), []byte(e))
}

// split cuts the parts into writes of the chosen size.
func (s *Step) split(parts []part) []part {
	if s.writeSize <= 0 {
		return parts
	}
	var out []part
	for _, p := range parts {
		if p.times != 0 || len(p.data) <= s.writeSize {
			out = append(out, p)
			continue
		}
		for d := p.data; len(d) > 0; p.wait, p.gate = 0, nil {
			n := min(s.writeSize, len(d))
			out = append(out, part{wait: p.wait, gate: p.gate, data: d[:n]})
			d = d[n:]
		}
	}
	return out
}

// cutBody drops everything after the chosen number of bytes.
func (s *Step) cutBody(p *reply) bool {
	if !s.cutBytes.set {
		return false
	}
	left := max(s.cutBytes.n, 0)
	for i, q := range p.parts {
		if q.times < 0 {
			break
		}
		n := len(q.data) * max(q.times, 1)
		if n <= left {
			left -= n
			continue
		}
		p.parts = p.parts[:i:i]
		for left > 0 {
			n := min(left, len(q.data))
			p.parts = append(p.parts, part{wait: q.wait, gate: q.gate, data: q.data[:n]})
			left -= n
		}
		return true
	}
	return false
}

// size is the number of bytes in the parts; one that never ends counts once.
func size(parts []part) int {
	n := 0
	for _, p := range parts {
		n += len(p.data) * max(p.times, 1)
	}
	return n
}

// paused tells whether time passes within the body, so that it cannot be one
// write.
func paused(parts []part) bool {
	for _, p := range parts {
		if p.wait > 0 || p.gate != nil || p.times != 0 {
			return true
		}
	}
	return false
}
