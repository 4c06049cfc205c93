package wire

import (
	"strconv"
	"strings"
)

// A problem is what a JSON document says of an error, gathered from every
// place where one of the known shapes puts it, and the marks that a large
// event carries. The first value of each kind counts.
type problem struct {
	nested   string // error.code …, a number or a word
	kind     string
	status   string
	topCode  string
	topType  string
	topState string
	object   string
	base     string // base_resp.status_code
	number   string // error_code
	header   string
	extra    []string // further words for a status

	message  string
	hasError bool // a non-empty error, wherever it stands
	// topError and choiceError tell two of the places apart.
	topError, choiceError bool
	flat                  bool // {"object":"error"} or {"type":"error"}
	refused               bool // "success": false
	// succeeded and bare tell a body that is a message and nothing else.
	succeeded bool        // "success": true
	bare      bool        // a top-level message
	id        bool        // a top-level id
	free      bool        // detail, errors
	daily     bool        // a quota of a day is used up
	unnamed   bool        // a finish that names a failure is all that there is
	exception string      // AWS's name of the error
	words     *Vocabulary // nil: the built-in words
	wishes    wishes

	// Marks of a large event.
	eventType     string
	responseState string
	sequence      int64
	stopReason    string
	choices       int
	choiceList    bool // a member that holds choices, if any
	choice        struct{ index, finish string }
	failedFinish  string
	states        *choiceStates

	candidates       int // Gemini's
	candidate        struct{ index, finish string }
	candidateStates  choiceStates
	blocked          bool // promptFeedback.blockReason
	answer           bool // Ollama's members of an answer
	done             bool
	stop             bool // it is the last of an answer
	doneReason       string
	deltaFinish      string
	googleType       string // event_type
	interactionState string
	metrics          bool // Bedrock's end

	ofChat, ofGemini, ofDashScope bool // there are members of that format
	output                        dashScopeOutput
}

// inspect gathers what b says; it may be cut off.
func inspect(b []byte) *problem {
	p := &problem{sequence: -1}
	f := fields{edges: problemEdges, sink: p}
	f.feed(b)
	f.close()
	return p
}

func first(dst *string, v []byte) {
	if *dst == "" {
		*dst = string(v)
	}
}

// firstCode takes a code that is text or a number.
func firstCode(dst *string, kind byte, v []byte) {
	if kind == kindString || kind == kindScalar && isNumber(v) {
		first(dst, v)
	}
}

func isNumber(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0]-'0' <= 9) }

// field implements fieldSink.
func (p *problem) field(n node, kind byte, v []byte) {
	p.member(n, kind)
	if kind == kindFilled || kind == kindEmpty {
		p.composite(n, kind == kindFilled)
		return
	}
	text := kind == kindString
	switch n {
	case nErrorCode, nResponseErrorCode, nTencentCode:
		firstCode(&p.nested, kind, v)
	case nErrorStatus:
		if text || isNumber(v) {
			first(&p.status, v)
		}
	case nCode:
		firstCode(&p.topCode, kind, v)
	case nStatus:
		firstCode(&p.topState, kind, v)
	case nBaseCode:
		firstCode(&p.base, kind, v)
	case nErrorNumber:
		firstCode(&p.number, kind, v)
	case nHeaderCode:
		firstCode(&p.header, kind, v)
	case nWish, nMetaReset, nMetaRemaining:
		p.wishes.field(n, v)
	case nSuccess:
		p.refused = string(v) == "false"
		p.succeeded = string(v) == "true"
	case nSequence:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			p.sequence = i
		}
	case nChoiceIndex, nCandidateIndex, nOutputIndex, nDone, nStop:
		p.scalar(n, v, text)
	default:
		if text {
			p.textField(n, v)
		}
	}
}

// member notes the members that only events of one format have.
func (p *problem) member(n node, kind byte) {
	switch n {
	case nChoices:
		p.ofChat, p.choiceList = true, true
	case nUsage:
		p.ofChat = p.ofChat || kind == kindFilled || kind == kindEmpty
	case nCandidates, nFeedback, nUsageMetadata:
		p.ofGemini = true
	case nOutput:
		p.ofDashScope = true
	}
}

// scalar takes the fields of a large event that are no text.
func (p *problem) scalar(n node, v []byte, text bool) {
	switch {
	case n == nDone:
		p.answer, p.done = true, !text && string(v) == "true" || p.done
	case text:
	case n == nStop:
		p.stop = string(v) == "true"
	case n == nChoiceIndex:
		p.choice.index = string(v)
	case n == nCandidateIndex:
		p.candidate.index = string(v)
	case n == nOutputIndex:
		p.output.index = string(v)
	}
}

func (p *problem) textField(n node, v []byte) {
	switch n {
	case nError, nChoiceError:
		p.errorAt(n, len(v) > 0)
		first(&p.message, v)
	case nFree:
		p.free = p.free || len(v) > 0
		first(&p.message, v)
	case nMessage:
		p.bare = p.bare || len(v) > 0
		first(&p.message, v)
	case nErrorMessage, nBaseMessage, nTencentMessage, nHeaderMessage, nResponseErrorMessage:
		first(&p.message, v)
	case nErrorType, nResponseErrorType:
		first(&p.kind, v)
	case nException, nCoralException:
		if name := exceptionName(v); n == nCoralException || isException(string(name)) {
			first(&p.exception, name)
		}
	case nType:
		first(&p.topType, v)
		p.eventType = string(v)
		p.flat = p.flat || string(v) == "error"
	case nID:
		p.id = len(v) > 0
	case nObject:
		p.object = string(v)
		p.flat = p.flat || string(v) == "error"
	case nErrorKind, nErrorMetaKind, nErrorMetaCode:
		if len(p.extra) < 4 {
			p.extra = append(p.extra, string(v))
		}
	case nQuotaID:
		p.daily = p.daily || strings.Contains(string(v), "PerDay")
	case nResponseStatus:
		p.responseState = string(v)
	case nChoiceFinish:
		p.choice.finish = string(v)
	case nStopReason:
		p.stopReason = string(v)
	case nCandidateFinish:
		p.candidate.finish = string(googleReason(v))
	case nBlockReason:
		p.blocked = len(googleReason(v)) > 0
	case nResponse:
		p.answer = true
	case nDoneReason:
		if string(v) != "null" {
			p.doneReason = string(v)
			p.answer = p.answer || len(v) > 0
		}
	case nOutputFinish:
		p.output.finish = string(v)
	case nOutputText:
		p.output.said = true
	case nDeltaFinish:
		p.deltaFinish = string(v)
	case nDeltaError:
		first(&p.message, v)
	case nEventType:
		p.googleType = string(v)
	case nInteractionStatus:
		p.interactionState = string(v)
	}
}

func (p *problem) errorAt(n node, filled bool) {
	p.hasError = p.hasError || filled
	switch n {
	case nError:
		p.topError = p.topError || filled
	case nChoiceError:
		p.choiceError = p.choiceError || filled
	}
}

// composite is told of the end of each object and array.
func (p *problem) composite(n node, filled bool) {
	switch n {
	case nError, nResponseError, nTencentError, nChoiceError:
		p.errorAt(n, filled)
	case nFree, nErrors:
		p.free = p.free || filled
	case nChoice:
		p.choices++
		if p.states != nil {
			if p.states.saw(choiceIndex([]byte(p.choice.index)), []byte(p.choice.finish)) {
				p.failedFinish = p.choice.finish
			}
		}
		p.choice.index, p.choice.finish = "", ""
	case nCandidate:
		p.candidates++
		p.candidateStates.saw(choiceIndex([]byte(p.candidate.index)), []byte(p.candidate.finish))
		p.candidate.index, p.candidate.finish = "", ""
	case nMessage:
		p.answer = true
	case nMetrics:
		p.metrics = true
	case nOutput, nOutputChoice:
		p.output.end(n == nOutputChoice)
	}
}
