package wire

// A template is the last event that was nothing but a piece of content, with
// the content taken out. Most events of a stream differ from the one before in
// that string alone. If an event has the same bytes before and behind a valid,
// non-empty JSON string, then it parses as the one before did and has the same
// marks, so it need not be parsed.
type template struct {
	before, behind []byte
	start, end     int // the string's contents in the data of the event at hand
}

// maxTemplate bounds what is kept of an event.
const maxTemplate = 4 << 10

// mark notes where the content string of the event at hand lies in its data:
// b[start] is the first byte of its contents, b[end] its closing quote.
func (t *template) mark(start, end int) { t.start, t.end = start, end }

// remember keeps the event ev, whose data begins at ev[at].
func (t *template) remember(ev []byte, at int) {
	size := len(ev) - (t.end - t.start)
	if t.start == 0 || t.end <= t.start || size > maxTemplate {
		t.forget()
		return
	}
	t.before = append(t.before[:0], ev[:at+t.start]...)
	t.behind = append(t.behind[:0], ev[at+t.end:]...)
}

func (t *template) forget() { t.before = t.before[:0] }

func (t *template) matches(ev []byte) bool {
	n := len(t.before)
	if n == 0 || len(ev) <= n+len(t.behind) || string(ev[:n]) != string(t.before) {
		return false
	}
	end := skipString(ev, n)
	return end > n+1 && string(ev[end-1:]) == string(t.behind)
}
