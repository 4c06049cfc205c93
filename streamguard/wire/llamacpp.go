package wire

// llamaCpp is the native completion of llama.cpp's server, which shares
// …/completions with OpenAI's: text in content, and stop where the answer is
// over. No path is its own, so it is known by its members alone.
var llamaCpp = &Format{
	name: "llama.cpp completion", operation: "text_completion", generative: true,
	carries: []signs{{{name: "content", kinds: `"`}, {name: "stop", kinds: "tf"}}},
	event:   llamaEvent, judge: wantObject(llamaJudge),
}

// A llamaPart is one event, or a whole answer.
type llamaPart struct {
	data, err, stop bool
	pieces
	usage counter
}

func (l *llamaPart) read(p *parser) {
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "content":
			l.data = l.data || p.kind() == '"'
			l.piece(p)
		case "stop":
			raw := p.raw()
			l.data, l.stop = true, string(raw) == "true"
		case "tokens_predicted":
			l.usage.counted = l.usage.alone(p)
		case "tokens_evaluated":
			l.usage.alone(p)
		case "error":
			l.err = p.filled() || l.err
		}
	}
}

func llamaEvent(s *Stream, name, data []byte) Mark {
	var l llamaPart
	p := parse(data)
	l.read(&p)
	if !p.end() {
		return MarkMalformed
	}
	if l.err || !l.data {
		return s.noAnswer(name, l.err, false, inspect(data))
	}
	m := s.answer(&l.pieces)
	if l.stop {
		s.addUsage(l.usage.Usage)
		m |= MarkEnd | MarkFinal
	}
	return m
}

func llamaJudge(f *Format, a Answer, b []byte) Verdict {
	var l llamaPart
	p := parse(b)
	l.read(&p)
	if v, done := f.unfit(a, &p, l.content, l.data); done {
		return v
	}
	return delivered(l.content, l.usage)
}
