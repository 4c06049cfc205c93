package upstreamtest

import (
	"fmt"
	"slices"
)

// Shape is a way in which providers and gateways hide a failure behind a 200.
type Shape string

// The shapes, as seen in the wild.
const (
	HiddenCode         Shape = "code"          // {"error":{"code":429,…}} (OpenRouter)
	HiddenStringCode   Shape = "string_code"   // {"error":{"code":"429",…}} (Azure)
	HiddenWord         Shape = "word"          // {"error":{"type":"rate_limit_error","code":"rate_limit_exceeded",…}}
	HiddenGoogle       Shape = "google"        // {"error":{"code":429,"status":"RESOURCE_EXHAUSTED",…}}
	HiddenArray        Shape = "array"         // the same, as the only element of an array
	HiddenText         Shape = "text"          // {"error":"text"} (Ollama, TGI, xAI); carries no status
	HiddenNested       Shape = "nested"        // error.message is another error as JSON text
	HiddenBeside       Shape = "beside"        // an error beside an empty choices
	HiddenInChoice     Shape = "in_choice"     // choices[0] has an error and finish_reason "error"
	HiddenFlat         Shape = "flat"          // {"object":"error",…,"code":429} (vLLM, FastChat)
	HiddenTyped        Shape = "typed"         // {"type":"error","error":{…}} (Anthropic)
	HiddenFailed       Shape = "failed"        // {"status":"failed","error":{…}} (responses)
	HiddenBaseResp     Shape = "base_resp"     // {"base_resp":{"status_code":1002,…}} (MiniMax)
	HiddenCodeMsg      Shape = "code_msg"      // {"code":429,"msg":…,"success":false} (Zhipu, gateways)
	HiddenErrorCode    Shape = "error_code"    // {"error_code":18,"error_msg":…} (Baidu); carries no status
	HiddenThrottling   Shape = "throttling"    // {"code":"Throttling","message":…} (DashScope); a 429 whatever was asked
	HiddenTencent      Shape = "tencent"       // {"Response":{"Error":{"Code":…}}}; carries no status
	HiddenCoral        Shape = "coral"         // {"Output":{"__type":"com.amazon.coral.service#ThrottlingException",…}} (Amazon)
	HiddenDetail       Shape = "detail"        // {"detail":"text"} (FastAPI, Mistral); carries no status
	HiddenMessage      Shape = "message"       // {"message":"text"}; carries no status
	HiddenNullChoices  Shape = "null_choices"  // {"id":"","choices":null,"usage":null}
	HiddenEmptyChoices Shape = "empty_choices" // {"choices":[]}
	HiddenNoChoices    Shape = "no_choices"    // {"object":"chat.completion","usage":{"total_tokens":0}}
	HiddenEmpty        Shape = "empty"         // no body at all
	HiddenBlank        Shape = "blank"         // line feeds only: keep-alives, then the upstream died
	HiddenNull         Shape = "null"          // JSON null
	HiddenTruncated    Shape = "truncated"     // a good answer that stops in its middle, correctly framed
	HiddenHTML         Shape = "html"          // a page, labelled text/html
	HiddenHTMLAsJSON   Shape = "html_as_json"  // a page, labelled application/json
	HiddenEvents       Shape = "events"        // an event stream whose only event is an error, whatever was asked
)

var shapes = []Shape{HiddenCode, HiddenStringCode, HiddenWord, HiddenGoogle, HiddenArray, HiddenText, HiddenNested,
	HiddenBeside, HiddenInChoice, HiddenFlat, HiddenTyped, HiddenFailed, HiddenBaseResp, HiddenCodeMsg, HiddenErrorCode,
	HiddenThrottling, HiddenTencent, HiddenCoral, HiddenDetail, HiddenMessage, HiddenNullChoices, HiddenEmptyChoices, HiddenNoChoices,
	HiddenEmpty, HiddenBlank, HiddenNull, HiddenTruncated, HiddenHTML, HiddenHTMLAsJSON, HiddenEvents}

// Shapes are all shapes, for tables of tests.
func Shapes() []Shape { return slices.Clone(shapes) }

const page = "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser.</body></html>\n"

// Hidden is a 200 whose body says that the call failed with this status, in
// the given shape, as far as the shape can say it. It panics at an unknown
// shape.
func Hidden(shape Shape, status int) Step {
	if !slices.Contains(shapes, shape) {
		panic("upstreamtest: no such shape: " + string(shape))
	}
	switch shape {
	case HiddenEmpty:
		return Empty()
	case HiddenHTML:
		return Body("text/html; charset=utf-8", page)
	case HiddenHTMLAsJSON:
		return Body(jsonType, page)
	case HiddenBlank:
		return Body(jsonType, "\n\n\n")
	case HiddenTruncated:
		return Step{content: func(s *Step, r *Request) content {
			c := wholeContent(s, r)
			c.events[0].data = c.events[0].data[:len(c.events[0].data)/2]
			return c
		}, answer: answer{texts: []string{"half"}}}
	case HiddenEvents:
		return Step{content: func(_ *Step, r *Request) content {
			f := r.format()
			c := content{mime: f.mime, stream: true, events: []event{{data: f.errorEvent(r, status, 0)}}}
			if f.done != "" {
				c.events = append(c.events, event{data: []byte(f.done), done: true})
			}
			return c
		}}
	}
	return Body(jsonType, hiddenBody(shape, status))
}

// hiddenBody is the JSON of the shapes that are a JSON body.
func hiddenBody(shape Shape, status int) string {
	w := wordsOf(status)
	m := quote(w.message)
	google := fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%s}}`, status, m, quote(w.goo))
	switch shape {
	case HiddenCode:
		return fmt.Sprintf(`{"error":{"code":%d,"message":%s}}`, status, m)
	case HiddenStringCode:
		return fmt.Sprintf(`{"error":{"code":"%d","message":%s}}`, status, m)
	case HiddenWord:
		return openAIError(nil, w)
	case HiddenGoogle:
		return google
	case HiddenArray:
		return "[" + google + "]"
	case HiddenText:
		return fmt.Sprintf(`{"error":%s}`, m)
	case HiddenNested:
		return fmt.Sprintf(`{"error":{"code":%d,"message":%s}}`, status, quote(google))
	case HiddenBeside:
		return fmt.Sprintf(`{"id":"x","object":"chat.completion","choices":[],"error":{"code":%d,"message":%s}}`, status, m)
	case HiddenInChoice:
		return fmt.Sprintf(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"error","error":{"code":%d,"message":%s}}]}`, status, m)
	case HiddenFlat:
		return fmt.Sprintf(`{"object":"error","message":%s,"type":%s,"param":null,"code":%d}`, m, quote(w.typ), status)
	case HiddenTyped:
		return fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s}}`, quote(w.anth), m)
	case HiddenFailed:
		return fmt.Sprintf(`{"id":"resp_x","object":"response","status":"failed","error":{"code":%s,"message":%s},"output":[]}`, quote(w.code), m)
	case HiddenBaseResp:
		return fmt.Sprintf(`{"id":"x","choices":null,"base_resp":{"status_code":%d,"status_msg":%s}}`, miniMax(status), m)
	case HiddenCodeMsg:
		return fmt.Sprintf(`{"code":%d,"msg":%s,"success":false}`, status, m)
	case HiddenErrorCode:
		return fmt.Sprintf(`{"error_code":18,"error_msg":%s}`, m)
	case HiddenThrottling:
		return fmt.Sprintf(`{"code":"Throttling","message":%s,"request_id":"x"}`, m)
	case HiddenTencent:
		return fmt.Sprintf(`{"Response":{"Error":{"Code":"InternalError","Message":%s},"RequestId":"x"}}`, m)
	case HiddenCoral:
		return fmt.Sprintf(`{"Output":{"__type":"com.amazon.coral.service#%s","message":%s},"Version":"1.0"}`, w.aws(), m)
	case HiddenDetail:
		return fmt.Sprintf(`{"detail":%s}`, m)
	case HiddenMessage:
		return fmt.Sprintf(`{"message":%s}`, m)
	case HiddenNullChoices:
		return `{"id":"","choices":null,"usage":null}`
	case HiddenEmptyChoices:
		return `{"choices":[]}`
	case HiddenNoChoices:
		return `{"object":"chat.completion","usage":{"total_tokens":0}}`
	}
	return "null"
}

// miniMax is MiniMax's business code for a status; 1000 is its unknown error.
func miniMax(status int) int {
	switch status {
	case 429:
		return 1002
	case 401:
		return 1004
	case 402:
		return 1008
	case 400:
		return 1026
	}
	return 1000
}
