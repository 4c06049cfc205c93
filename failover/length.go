package failover

import (
	"net/http"
	"slices"
	"strings"
)

// TooLong is an entry of [Policy.RetryOnErrors] that stands for what known
// vendors answer a request with that is too long for the model:
// context_length_exceeded and its like. Such a call goes on to a target of
// another model, and targets of the same one are passed over with
// [ReasonTooLong], whoever provides it. It is a rule for chains whose targets
// differ in their context: without it the answer goes straight back, as for any
// other fault of a request.
//
// The profiles live and whole of a configuration file add it to the default
// phrases; beside resilience.Profile it is one line:
//
//	p.RetryOnErrors = append(p.RetryOnErrors, failover.TooLong)
const TooLong = "too_long"

func isTooLong(entry string) bool { return strings.EqualFold(strings.TrimSpace(entry), TooLong) }

// tooLong are wordings of known vendors and servers for a request that does not
// fit the context of a model, which no code says. What they look for is long
// enough not to occur in an error about something else.
var tooLong = []phrase{
	length("context_length_exceeded"),                   // OpenAI, Azure, Groq, OpenRouter
	length("exceed_context_size"),                       // llama.cpp
	length("maximum context length"),                    // OpenAI, vLLM, DeepSeek, Mistral
	length("exceeds the context"),                       // OpenAI's responses, Ollama
	length("exceeds the available context"),             // llama.cpp, older
	length("prompt is too long"),                        // Anthropic
	length("exceed context limit"),                      // Anthropic, with max_tokens
	length("input is too long"),                         // Bedrock
	length("input token count", "exceeds the maximum"),  // Gemini
	length("maximum prompt length"),                     // xAI
	length("too many tokens", "total number of tokens"), // Cohere
	length("longer than the maximum model length"),      // vLLM, older
	length("longer than the model's context length"),    // SGLang
	length("`inputs` tokens + `max_new_tokens`"),        // TGI, Together
	length("range of input length"),                     // DashScope
}

func length(words ...string) phrase { return phrase{text: TooLong, words: words, length: true} }

// outgrown notes the model of a target whose answer says that the request is
// too long for it. A chain as a target has noted its own.
func (w *walk) outgrown(t *target, r *result) {
	if !w.chain.rules.length || r.ok || t.chain() != nil || r.status < http.StatusBadRequest || r.status >= http.StatusInternalServerError {
		return
	}
	code, message := w.runner.text(r)
	if w.chain.rules.match(r.status, code, message, true) != nil {
		w.call.outgrow(t.model(w.model))
	}
}

// outgrow notes that the request is too long for a model.
func (c *call) outgrow(model string) {
	if model == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.small = append(c.small, model)
}

// outgrew reports whether the request is known to be too long for a model.
func (c *call) outgrew(model string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.small, model)
}
