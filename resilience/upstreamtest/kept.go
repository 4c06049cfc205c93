package upstreamtest

import (
	"bytes"
	"net/http"
	"path"
	"slices"
	"strconv"
)

// maxKept is how many answers are kept, the last ones.
const maxKept = 1000

// keptAnswer is a stream that can be read again.
type keptAnswer struct {
	id      string
	content content
	expired bool
}

// Keep has the Upstream keep the answer, all its events whatever is sent of
// them, as the vendors do whose streams can be read on where they broke off:
// OpenAI's responses and Gemini's interactions. It is known by the first "id"
// in its first event, its events by their sequence_number or event_id. What a
// GET …/{id}?stream=true gets is said by [Upstream.Rests].
func (s Step) Keep() Step { s.keep = true; return s }

// Rest is what is left of a kept answer behind the event that the request names
// by starting_after or last_event_id; all of it where it names none. It can be
// cut, delayed and ended as any stream can.
func Rest() Step { return Step{content: restContent} }

// Repeat has a [Rest] begin with events of the kept answer that were there
// before, counted from 0: Azure repeats its response.in_progress.
func (s Step) Repeat(events ...int) Step { s.repeats = slices.Clone(events); return s }

// Skip has a [Rest] leave out its first n events.
func (s Step) Skip(n int) Step { s.skips = n; return s }

// Rests sets the script for requests that read a kept answer again; without one
// each gets its [Rest]. Such requests take nothing from any other script.
func (u *Upstream) Rests(steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rests = &script{steps: slices.Clone(steps)}
}

// Expire forgets the answers that were kept by now: who asks for them gets a 404.
func (u *Upstream) Expire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range u.kept {
		k.expired, k.content = true, content{}
	}
}

// keepAnswer keeps what step says to r. Callers hold u.mu.
func (u *Upstream) keepAnswer(step *Step, r *Request) {
	if !step.keep || step.content == nil {
		return
	}
	c := step.content(step, r)
	if len(c.events) == 0 {
		return
	}
	const before = `"id":"`
	_, id, _ := bytes.Cut(c.events[0].data, []byte(before))
	id, _, found := bytes.Cut(id, []byte(`"`))
	if !found {
		return
	}
	u.kept = append(u.kept, &keptAnswer{id: string(id), content: c})
	if len(u.kept) > maxKept {
		u.kept = slices.Delete(u.kept, 0, 1)
	}
}

// keptFor is the kept answer that r reads again, nil for none. Callers hold u.mu.
func (u *Upstream) keptFor(r *Request) *keptAnswer {
	if r.Method != http.MethodGet || !r.Stream {
		return nil
	}
	id := path.Base(r.Path)
	for _, k := range slices.Backward(u.kept) {
		if k.id == id {
			return k
		}
	}
	return nil
}

// rest is the step that answers r, which reads k again. Callers hold u.mu.
func (u *Upstream) rest(k *keptAnswer, r *Request) Step {
	if k.expired {
		return Status(http.StatusNotFound)
	}
	r.kept = k.content
	if u.rests != nil {
		if st, ok := u.rests.next(r.Time); ok {
			return st
		}
	}
	return Rest()
}

func restContent(s *Step, r *Request) content {
	c := r.kept
	all := c.events
	from := min(behind(all, r)+max(s.skips, 0), len(all))
	c.events = nil
	for _, i := range s.repeats {
		if i >= 0 && i < len(all) {
			c.events = append(c.events, all[i])
		}
	}
	c.events = append(c.events, all[from:]...)
	return c
}

// behind is the index of the event that follows the one that r names.
func behind(events []event, r *Request) int {
	q := r.Query()
	n, err := strconv.Atoi(q.Get("starting_after"))
	name := q.Get("last_event_id")
	for i, e := range events {
		number := `"sequence_number":` + strconv.Itoa(n)
		if err == nil && (bytes.Contains(e.data, []byte(number+",")) || bytes.Contains(e.data, []byte(number+"}"))) ||
			name != "" && bytes.Contains(e.data, []byte(`"event_id":`+quote(name))) {
			return i + 1
		}
	}
	return 0
}
