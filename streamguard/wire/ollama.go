package wire

import (
	"bytes"
)

// Ollama is Ollama's own chat and generate.
var Ollama = &Format{
	name: "ollama", operation: "chat", generative: true, defaultStream: true,
	carries: ollamaCarries,
	match:   postTo("/api/chat", "/api/generate"), framing: ollamaFraming, shape: ollamaShape,
	event: ollamaEvent, judge: wantObject(ollamaJudge),
	errorBody: ollamaError, abort: ollamaAbort,
}

// ollamaCarries are done or done_reason beside a piece of an answer, or a time.
var ollamaCarries = []signs{
	{ollamaDone, {name: "message", kinds: "{"}}, {ollamaDone, {name: "response", kinds: `"`}}, {ollamaDone, {name: "created_at", kinds: `"`}},
	{ollamaReason, {name: "message", kinds: "{"}}, {ollamaReason, {name: "response", kinds: `"`}}, {ollamaReason, {name: "created_at", kinds: `"`}},
}

var (
	ollamaDone   = sign{name: "done", kinds: "tf"}
	ollamaReason = sign{name: "done_reason", words: []string{"*"}}
)

// ollamaEmbeddings is Ollama's own embeddings; its older /api/embeddings is
// told from nobody's else.
var ollamaEmbeddings = &Format{
	name: "embeddings", operation: "embeddings", endless: true, match: postTo("/api/embed"),
	judge: embeddingsJudge, errorBody: ollamaError,
}

// ollamaFraming allows for gateways that turn the stream into an event stream.
func ollamaFraming(s *Stream, first byte) framing {
	switch first {
	case 'd', 'e', 'i', 'r', ':':
		return &s.sse
	}
	return &lineFraming{}
}

// ollamaShape tells lines from one JSON value that is spread over several,
// such as a proxy's error: by the label, or else by the first line.
func ollamaShape(head []byte, contentType string, stream bool) Shape {
	shape := Sniff(head)
	if shape != ShapeJSON {
		return shape
	}
	t := mediaType(contentType)
	if t == "application/x-ndjson" || t == "application/jsonl" {
		return ShapeEvents
	}
	b := trimStart(head)
	if !stream || b[0] != '{' {
		return ShapeJSON
	}
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0:
		return ShapeUnknown
	case valid(b[:i]):
		return ShapeEvents
	}
	return ShapeJSON
}

// An ollamaLine is what one line, or a whole answer, says.
type ollamaLine struct {
	data   bool // part of an answer, though it may be empty
	err    bool
	done   bool // the answer is over
	failed string
	usage  counter // counted: tokens that were generated
	pieces
	template *template
}

func (l *ollamaLine) read(p *parser) {
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "message":
			l.data = l.data || p.kind() == '{' // text would be an error's
			l.message(p)
		case "response":
			l.data = l.data || p.kind() == '"'
			l.piece(p)
		case "thinking":
			l.piece(p)
		case "done":
			raw := p.raw()
			l.data, l.done = true, string(raw) == "true" || l.done
		case "done_reason":
			l.reason(p)
		case "eval_count":
			l.usage.counted = l.usage.alone(p)
		case "prompt_eval_count":
			l.usage.alone(p)
		case "error":
			l.err = p.filled() || l.err
		case "created_at":
			if l.template != nil {
				l.template.heedless(p)
				continue
			}
		}
	}
}

// reason consumes why the answer is over: newer backends say no more than that.
func (l *ollamaLine) reason(p *parser) {
	t := text(p.raw())
	if len(t) == 0 || string(t) == "null" {
		return
	}
	l.data, l.done = true, true
	if failedFinish(t) {
		l.failed = string(t)
	}
}

func ollamaEvent(s *Stream, name, data []byte) Mark {
	l := ollamaLine{template: &s.template}
	p := parse(data)
	l.read(&p)
	if !p.end() {
		return MarkMalformed
	}
	switch {
	case l.err || !l.data:
		return s.noAnswer(name, l.err, false, inspect(data))
	case l.failed != "":
		return s.failFinish(l.failed)
	case l.done:
		s.addUsage(l.usage.Usage)
		return s.answer(&l.pieces) | MarkEnd | MarkFinal
	}
	return s.answer(&l.pieces)
}

func ollamaJudge(f *Format, a Answer, b []byte) Verdict {
	var l ollamaLine
	p := parse(b)
	l.read(&p)
	if v, done := f.unfit(a, &p, l.content, l.data); done {
		return v
	}
	return delivered(l.content, l.usage)
}

// ollamaError renders the text that is all an error is to Ollama's clients.
func ollamaError(_ int, _, _, message string) []byte {
	return append(append([]byte(`{"error":`), quote(message)...), '}')
}

func ollamaAbort(_ *Stream, _ int, _, message string) (string, []byte) {
	return "", ollamaError(0, "", "", message)
}
