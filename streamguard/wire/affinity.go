package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// CacheKey returns prompt_cache_key, by which OpenAI's callers keep requests with
// a common beginning together; "" where the request has none.
func CacheKey(body []byte) string {
	p := parse(body)
	for ok := p.object(); ok && p.member(); {
		raw := p.raw()
		if string(p.name) == "prompt_cache_key" {
			return unquote(raw)
		}
	}
	return ""
}

// UserID returns whom the request is made for: metadata.user_id (messages),
// safety_identifier or user (chat completions, responses), the first that it
// has; "" where it has none.
func UserID(body []byte) string {
	var found [3]string
	p := parse(body)
	for ok := p.object(); ok && p.member(); {
		name := string(p.name)
		raw := p.raw()
		switch name {
		case "metadata":
			found[0] = stringMember(raw, "user_id")
		case "safety_identifier":
			found[1] = unquote(raw)
		case "user":
			found[2] = unquote(raw)
		}
	}
	for _, id := range found {
		if id != "" {
			return id
		}
	}
	return ""
}

// PromptStart returns a hash of how the conversation begins: the instructions and
// the messages up to the first that is none of the system's, in any known format.
// It is the same for every turn of the conversation, wherever the marks of a prompt
// cache stand in it, and "" where the request has no prompt.
func PromptStart(body []byte) string {
	b := beginning{system: sha256.New(), prompt: sha256.New()}
	if !b.read(body, 0) {
		return ""
	}
	sum := sha256.Sum256(b.prompt.Sum(b.system.Sum(nil)))
	return hex.EncodeToString(sum[:16])
}

// A beginning is that of a conversation, whatever the order of its members.
type beginning struct{ system, prompt hash.Hash }

// read reports whether the object body has a prompt.
func (b *beginning) read(body []byte, depth int) (found bool) {
	p := parse(body)
	for ok := p.object(); ok && p.member(); {
		switch string(p.name) {
		case "system", "instructions", "systemInstruction", "system_instruction", "preamble":
			addPart(b.system, p.raw())
		case "messages", "contents", "input", "inputs", "prompt", "message":
			raw := p.raw()
			switch {
			case !filled(raw):
			case raw[0] == '{' && depth == 0: // DashScope's input
				found = b.read(raw, depth+1) || found
			case raw[0] == '[':
				found = b.messages(raw) || found
			default:
				addPart(b.prompt, raw)
				found = true
			}
		}
	}
	return found
}

// messages adds the elements of a list of messages, up to the first that is not
// the system's; of a list of anything else the first.
func (b *beginning) messages(list []byte) (found bool) {
	p := parse(list)
	for ok := p.array(); ok && p.element(); {
		raw := p.raw()
		if len(raw) == 0 {
			return found
		}
		addPart(b.prompt, raw)
		found = true
		if role := stringMember(raw, "role"); role != "system" && role != "developer" {
			return found
		}
	}
	return found
}

// addPart adds what a part of the conversation says.
func addPart(h hash.Hash, raw []byte) {
	p := parse(raw)
	addValue(h, &p)
}

// addValue consumes a value and adds what it says. The marks of a prompt cache are
// left out, since they move on with each turn; so are the brackets and "type":"text",
// since an SDK writes a text as a block where it has to hang such a mark on it.
func addValue(h hash.Hash, p *parser) {
	switch p.kind() {
	case '{':
		for ok := p.object(); ok && p.member(); {
			switch string(p.name) {
			case "cache_control", "cachePoint":
				p.skip()
			case "type":
				if raw := p.raw(); string(raw) != `"text"` {
					_, _ = h.Write(raw) // never fails
				}
			default:
				addValue(h, p)
			}
		}
	case '[':
		for ok := p.array(); ok && p.element(); {
			addValue(h, p)
		}
	default:
		_, _ = h.Write(p.raw())
	}
}

// stringMember returns the text of a member of the object b, "" for none.
func stringMember(b []byte, name string) string {
	p := parse(b)
	for ok := p.object(); ok && p.member(); {
		found := string(p.name) == name
		if raw := p.raw(); found {
			return unquote(raw)
		}
	}
	return ""
}
