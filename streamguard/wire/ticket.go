package wire

import (
	"net/http"
	"strings"
)

// accepted judges an answer with the status 202: work to be done later, however
// it says so. What is a page (a web firewall's challenge comes with this very
// status) or says plainly that it is an error was not accepted.
func (f *Format) accepted(a Answer, b []byte) Verdict {
	v := Verdict{Accepted: true}
	switch Sniff(b) {
	case ShapeHTML:
		return f.page()
	case ShapeJSON:
		if (b[0] != '{' && b[0] != '[') || !valid(b) {
			return v
		}
		if v.Usable = f.judge(f, a, b).Usable; v.Usable || b[0] == '[' && !oneObject(b) {
			return v
		}
		if q := a.inspect(b); q.plainError() {
			return Verdict{Failure: f.told(q, b)}
		}
	}
	return v
}

// ticket reports whether the valid object b, which holds no answer, accepts the
// work: it has a handle and a word that the answer is under way, or the request
// asked for its answer later (contract 0).
func (p *problem) ticket(a Answer, b []byte) bool {
	if b[0] != '{' || p.failing() {
		return false
	}
	var t ticket
	q := parse(b)
	t.read(&q, true)
	return t.handle && !t.answer && (t.underWay || a.Deferred && !p.bareMessage())
}

// A ticket is what an object says of work to be done later.
type ticket struct {
	handle   bool // a name to ask for the answer by
	underWay bool // a status says so
	answer   bool // it holds one after all, however little that says
}

// read goes through an object; at the top also through those within which some
// vendors put the handle (DashScope's output, a task, a job).
func (t *ticket) read(p *parser, top bool) {
	for ok := p.intoObject(); ok && p.member(); {
		name := string(p.name)
		switch {
		case isHandle(name):
			k := p.kind()
			t.handle = p.filled() || k-'0' <= 9 || t.handle
		case isState(name):
			raw := p.raw()
			t.underWay = t.underWay || string(raw) == "202" || underWay(unquote(raw))
		default:
			t.member(p, name, top)
		}
	}
}

// member consumes a member that is neither a handle nor a state.
func (t *ticket) member(p *parser, name string, top bool) {
	switch name {
	case "code":
		t.underWay = string(p.raw()) == "202" || t.underWay
	case "choices", "candidates", "content", "message":
		k := p.kind()
		t.answer = p.filled() && k != '"' || t.answer
	case "output", "data", "task", "job":
		if top {
			t.read(p, false)
			return
		}
		p.skip()
	}
}

// isHandle knows id, request_id, taskId, status_url and their like.
func isHandle(name string) bool {
	switch name {
	case "id", "uuid", "handle", "ticket":
		return true
	}
	for _, end := range [...]string{"_id", "-id", "Id", "ID", "_url", "Url"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// isState knows status, state, task_status, jobState and their like.
func isState(name string) bool {
	if len(name) > maxKey {
		return false
	}
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "status") || strings.HasSuffix(name, "state")
}

// statesOver are parts of the words for work that is over, well or not:
// processing_complete, failed_to_start.
var statesOver = [...]string{"complete", "finish", "done", "succe", "fail", "error", "cancel", "expired"}

// statesUnderWay are parts of the words for work that is not over.
var statesUnderWay = [...]string{
	"queue", "created", "pending", "processing", "inprogress", "running", "submitted", "accepted", "scheduled", "starting",
	"waiting", "notstarted", "deferred",
}

func underWay(state string) bool {
	if len(state) > maxKey {
		return false
	}
	state = normal(state)
	return holdsOne(state, statesUnderWay[:]) && !holdsOne(state, statesOver[:])
}

func holdsOne(word string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(word, p) {
			return true
		}
	}
	return false
}

// asksLater reports whether the header asks for the answer later: RFC 7240's
// respond-async, DashScope's own.
func asksLater(h http.Header) bool {
	for _, v := range h["Prefer"] {
		if strings.Contains(strings.ToLower(v), "respond-async") {
			return true
		}
	}
	return strings.EqualFold(h.Get("X-DashScope-Async"), "enable")
}
