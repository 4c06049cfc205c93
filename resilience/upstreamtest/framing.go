package upstreamtest

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
)

// frame chooses the framing. A body without pauses in it has a length; where
// it is then broken off the length is that of the whole.
func (s *Step) frame(p *reply, stream bool, whole, sent int) {
	switch {
	case s.length.set:
		p.length = s.length.n
	case s.untilClose:
		p.length = untilClose
		if p.end == endClean {
			p.end = endFIN
		}
	case stream || paused(p.parts) || p.end == endBadChunk:
		p.length = chunked
	case p.end == endClean || p.end == endReuseReset:
		p.length = sent
	default:
		p.length = whole
	}
	p.short = p.length > sent
	if p.short && p.end == endClean {
		p.end = endFIN
	}
}

// compressed makes a gzip stream of the parts, flushed after each. Blocks are
// stored, not deflated: only then may a repeated part be the same bytes again.
func compressed(parts []part, cut bool) []part {
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.NoCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	out := make([]part, 0, len(parts)+1)
	for _, p := range parts {
		for range max(p.times, 1) {
			buf.Reset()
			if len(p.data) > 0 {
				// A bytes.Buffer takes every write.
				_, _ = zw.Write(p.data)
				_ = zw.Flush()
			}
			q := part{wait: p.wait, gate: p.gate, data: bytes.Clone(buf.Bytes())}
			if p.times < 0 {
				q.times = p.times
			}
			out = append(out, q)
		}
	}
	if !cut {
		buf.Reset()
		_ = zw.Close()
		out = append(out, part{data: bytes.Clone(buf.Bytes())})
	}
	return out
}

// bodyAllowed tells whether the reply may have a body (RFC 9110 §6.4.1).
func (p *reply) bodyAllowed(method string) bool {
	return method != http.MethodHead && p.status >= 200 && p.status != http.StatusNoContent && p.status != http.StatusNotModified
}

// head is the status line and the headers as HTTP/1.1 sends them.
func (p *reply) head() []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(p.status) + " " + http.StatusText(p.status) + "\r\n")
	h := p.header.Clone()
	switch {
	case p.status < 200 || p.status == http.StatusNoContent:
	case p.length == chunked:
		h.Set("Transfer-Encoding", "chunked")
	case p.length == untilClose:
		h.Set("Connection", "close")
	case h.Get("Content-Length") == "":
		h.Set("Content-Length", strconv.Itoa(p.length))
	}
	_ = h.Write(&b) // a bytes.Buffer takes every write
	b.WriteString("\r\n")
	return b.Bytes()
}

// wire is the reply as bytes of HTTP/1.1: head, framing and all.
func (p *reply) wire(method string) []part {
	first := part{wait: p.delay, gate: p.gate}
	if p.mute {
		return []part{first}
	}
	if p.verbatim {
		return append([]part{first}, p.parts...)
	}
	first.data = p.head()
	out := append(make([]part, 0, len(p.parts)+2), first)
	if !p.bodyAllowed(method) {
		return out
	}
	for _, q := range p.parts {
		if p.length == chunked && len(q.data) > 0 {
			b := strconv.AppendInt(nil, int64(len(q.data)), 16)
			b = append(append(append(b, "\r\n"...), q.data...), "\r\n"...)
			q.data = b
		}
		out = append(out, q)
	}
	switch {
	case p.length == chunked && (p.end == endClean || p.end == endReuseReset):
		out = append(out, part{data: []byte("0\r\n\r\n")})
	case p.end == endBadChunk:
		out = append(out, part{data: []byte(badChunk)})
	}
	return out
}

// badChunk stands where a chunk size was due.
const badChunk = "not a chunk size\r\n"
