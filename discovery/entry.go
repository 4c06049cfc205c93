package discovery

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is kept of an entry.
const (
	maxNameBytes  = 512 // of a model's name; real ones are under a hundred
	maxOwnerBytes = 128
	maxTextBytes  = 8 << 10 // a longer value is not looked at
)

// entry is one model as the upstream describes it. An odd value costs its field
// and not the model.
type entry struct {
	ID         text   `json:"id"`
	Name       text   `json:"name"`
	Model      text   `json:"model"`
	OwnedBy    text   `json:"owned_by"`
	Created    moment `json:"created"`     // OpenAI
	CreatedAt  moment `json:"created_at"`  // Anthropic
	ModifiedAt moment `json:"modified_at"` // Ollama
}

// text is a string; any other value is "", and a very long one is oversize.
type text string

// oversize is no valid name.
const oversize text = "\x00"

// UnmarshalJSON never fails.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	switch {
	case raw[0] != '"':
	case len(raw) > maxTextBytes:
		*t = oversize
	default:
		var s string
		if json.Unmarshal(raw, &s) == nil {
			*t = text(s)
		}
	}
	return nil
}

// moment is a time: OpenAI's seconds, or Anthropic's and Ollama's RFC 3339. It
// is zero for anything else.
type moment struct{ time.Time }

// UnmarshalJSON never fails.
func (m *moment) UnmarshalJSON(raw []byte) error {
	m.Time = time.Time{}
	if len(raw) > 64 {
		return nil
	}
	if s, err := strconv.Unquote(string(raw)); err == nil {
		m.Time, _ = time.Parse(time.RFC3339, s)
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err == nil && !math.IsNaN(f) && f > 0 && f <= 1e11 {
		m.Time = time.Unix(int64(f), 0).UTC()
	}
	return nil
}

// flag is true for the value true alone.
type flag bool

// UnmarshalJSON never fails.
func (f *flag) UnmarshalJSON(raw []byte) error {
	*f = string(raw) == "true"
	return nil
}

// failure tells an error from the empty values that some APIs always send.
type failure bool

// UnmarshalJSON never fails.
func (f *failure) UnmarshalJSON(raw []byte) error {
	*f = failure(!slices.Contains([]string{"null", "false", `""`, "{}", "[]", "0"}, string(raw)))
	return nil
}

// ignored takes any value and keeps nothing.
type ignored struct{}

// UnmarshalJSON never fails.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

// validName refuses what no request could name.
func validName(s string) bool {
	return s != "" && len(s) <= maxNameBytes && utf8.ValidString(s) &&
		strings.TrimSpace(s) == s && strings.IndexFunc(s, unicode.IsControl) < 0
}
