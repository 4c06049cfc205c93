package wire

import "bytes"

// This file is about events that are not of the stream's format: which of them
// are data all the same (contract 0 and 6).

// idles reports whether a type is that of a keep-alive or a queue notice, by
// its last word: ping, keepalive, response.keep_alive, response.queued.
func idles(typ []byte) bool {
	if i := bytes.LastIndexByte(typ, '.'); i >= 0 {
		typ = typ[i+1:]
	}
	switch string(typ) {
	case "ping", "pong", "heartbeat", "keepalive", "keep_alive", "keep-alive", "queue", "queued", "waiting":
		return true
	}
	return false
}

// stray judges an object that has nothing of the format that was expected, as
// long as no event had. The path does not prove the format: if the object
// carries the members of another one, that one judges the stream from here on.
// With members of none it is data, unless it says no more than a notice does.
func (s *Stream) stray(name, data []byte) Mark {
	s.template.begin() // what the expected format has marked is not the other one's
	if f := s.by.judgedBy(data); f != nil && f != s.by && f.event != nil {
		s.by, s.strange = f, false
		return f.event(s, name, data)
	}
	n := readNotice(name, data)
	if n.idle || !n.filled && (!n.stop || !s.strange) {
		return 0
	}
	s.strange = true
	s.said += int64(len(data)) // what in it is the answer nobody knows
	if n.stop {
		return MarkData | MarkContent | MarkEnd | MarkFinal
	}
	return MarkData | MarkContent
}

// endless judges an object in a stream of a format without events of its own.
func (s *Stream) endless(name, b []byte) Mark {
	if s.f.Inference() && readNotice(name, b).idle {
		return 0
	}
	return MarkData
}

// A notice is what an object of no known format says.
type notice struct {
	idle   bool // its type is that of a keep-alive
	filled bool // there is more in it than a notice has
	stop   bool // it says that it is the last
}

func readNotice(name, b []byte) notice {
	n := notice{idle: idles(name)}
	p := parse(b)
	for ok := p.intoObject(); ok && p.member(); {
		switch string(p.name) {
		case "type", "event", "object", "event_type":
			n.idle = idles(text(p.raw())) || n.idle
		case "stop", "is_end": // llama.cpp, Baidu
			n.stop = string(p.raw()) == "true"
		case "id", "created", "created_at", "model", "usage", "system_fingerprint", "request_id",
			"message", "msg", "detail", "info", "status", "state", "code", "success", "queue",
			"timestamp", "time", "ts", "sequence_number", "event_id", "error":
			p.skip()
		default:
			n.filled = p.filled() || n.filled
		}
	}
	if !p.end() {
		return notice{idle: true}
	}
	return n
}
