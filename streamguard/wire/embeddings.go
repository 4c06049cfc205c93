package wire

// Embeddings is OpenAI's embeddings. Those of other vendors are formats of their
// own, of the same name.
var Embeddings = &Format{
	name: "embeddings", operation: "embeddings", match: postTo("/embeddings"), endless: true,
	judge: embeddingsJudge,
}

// embeddingsJudge looks for an error envelope in a body without data. What the
// body looks like else is not judged: some servers answer with a bare array.
func embeddingsJudge(f *Format, a Answer, b []byte) Verdict {
	usable, usage := b[0] == '[' && !oneObject(b), Usage{}
	p := parse(b)
	if b[0] == '[' {
		p.skip()
	} else {
		for ok := p.object(); ok && p.member(); {
			content := false
			switch string(p.name) {
			case "data": // OpenAI's; an object would be another vendor's envelope
				content = p.kind() == '['
			case "embedding", "embeddings": // Google's and Ollama's
				content = true
			case "usage":
				usage.take(&p)
				continue
			}
			usable = p.filled() && content || usable
		}
	}
	if v, done := f.unfit(a, &p, usable, false); done {
		return v
	}
	return Verdict{Usable: usable, Usage: usage}
}
