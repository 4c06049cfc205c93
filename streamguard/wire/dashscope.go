package wire

import (
	"net/http"
	"strings"
)

// DashScope is the native text generation of Alibaba's DashScope: choices or
// a text within an output, and a finish_reason that is the text "null" until
// the end. A stream is asked for by a header.
var DashScope = &Format{
	name: "dashscope", operation: "chat", generative: true, pathStream: true,
	carries:    []signs{{{name: "output", kinds: "{"}, {name: "request_id", kinds: `"`}}},
	asksStream: dashScopeStream,
	match:      postTo("/services/aigc/text-generation/generation", "/services/aigc/multimodal-generation/generation"),
	event:      dashScopeEvent,
	judge:      wantObject(dashScopeJudge), errorBody: dashScopeError, abort: dashScopeAbort,
}

// dashScopeStream reports whether the header asks for a stream.
func dashScopeStream(h http.Header) bool {
	return strings.EqualFold(h.Get("X-DashScope-SSE"), "enable")
}

// output reads what DashScope puts around the choices.
func (c *chatChunk) output(p *parser) {
	for ok := p.intoObject(); ok && p.member(); {
		switch string(p.name) {
		case "choices":
			c.list(p)
		case "text":
			c.choices++
			c.states.saw(0, nil)
			c.piece(p)
		case "finish_reason":
			c.choices++
			if t := text(p.raw()); c.states.saw(0, t) {
				c.failed = t
			}
		}
	}
}

func dashScopeEvent(s *Stream, name, data []byte) Mark {
	c := chatChunk{states: s.choices}
	p := parse(data)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "output":
			c.aside = true
			c.output(&p)
		case "error":
			c.err = p.filled() || c.err
		case "usage":
			s.heedlessUsage(&p)
		}
	}
	return chunkMarks(s, &c, &p, name)
}

func dashScopeJudge(f *Format, a Answer, b []byte) Verdict {
	var c chatChunk
	var usage counter
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "output":
			c.output(&p)
		case "usage":
			usage.take(&p)
		}
	}
	if p.end() && c.failed != nil {
		return Verdict{Failure: f.told(&problem{nested: string(c.failed)}, nil)}
	}
	if v, done := f.unfit(a, &p, c.content, c.choices > 0); done {
		return v
	}
	return delivered(c.content, usage)
}

func dashScopeError(status int, typ, code, message string) []byte {
	if code == "" {
		code = typ
	}
	if code == "" {
		code = errorType(status)
	}
	b := append([]byte(`{"code":`), quote(code)...)
	b = append(append(b, `,"message":`...), quote(message)...)
	return append(b, '}')
}

func dashScopeAbort(_ *Stream, status int, code, message string) (string, []byte) {
	return "error", dashScopeError(status, "", code, message)
}
