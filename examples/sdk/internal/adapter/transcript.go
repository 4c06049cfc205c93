package adapter

import (
	"encoding/json"
	"strings"
)

// Transcript is what an answer says: its text, and of a tool call its name and
// arguments. The zero Transcript is empty.
type Transcript struct{ b strings.Builder }

// Text takes a piece of text.
func (t *Transcript) Text(s string) { t.b.WriteString(s) }

// Call takes a tool call, or a piece of one: its name comes with the first.
func (t *Transcript) Call(name, arguments string) {
	if name != "" {
		t.b.WriteString(name + " ")
	}
	t.b.WriteString(arguments)
}

func (t *Transcript) String() string { return t.b.String() }

// JSON is a tool call's arguments where an SDK hands them out as a Go value.
func JSON(arguments any) string {
	b, err := json.Marshal(arguments)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
