package discovery

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxNameBytes bounds a model's name; real ones are under a hundred bytes.
const maxNameBytes = 512

// list is the answer of a list endpoint, its entries not yet looked at.
type list struct {
	fields  map[string]json.RawMessage // nil for a bare array
	entries []json.RawMessage
}

// decodeList finds the list of models under the first of keys that is there.
// It tells what a proxy or a failing upstream puts in its place apart from an
// empty list, which is an answer.
func decodeList(b []byte, keys ...string) (list, error) {
	switch {
	case len(b) == 0:
		return list{}, &ListError{Reason: ReasonNoList}
	case b[0] == '<':
		return list{}, &ListError{Reason: ReasonHTML}
	case b[0] == '[':
		var l list
		if json.Unmarshal(b, &l.entries) != nil {
			return list{}, &ListError{Reason: ReasonMalformed}
		}
		return l, nil
	}
	var l list
	if json.Unmarshal(b, &l.fields) != nil {
		return list{}, &ListError{Reason: ReasonMalformed}
	}
	if hasError(l.fields["error"]) {
		return list{}, &ListError{Reason: ReasonHidden}
	}
	for _, k := range keys {
		raw, ok := l.fields[k]
		if !ok {
			continue
		}
		if string(raw) == "null" {
			return list{}, &ListError{Reason: ReasonNoList}
		}
		if json.Unmarshal(raw, &l.entries) != nil {
			return list{}, &ListError{Reason: ReasonMalformed}
		}
		return l, nil
	}
	return list{}, &ListError{Reason: ReasonNoList}
}

// hasError tells an error from the empty values that some APIs always send.
func hasError(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}", "[]", "0":
		return false
	}
	return true
}

// page reads the entries with read, skipping those that name no model. A list
// of nothing but bad entries is malformed, not empty.
func (l list) page(cursor string, read func(entry) Model) (page, error) {
	p := page{models: make([]Model, 0, len(l.entries))}
	owners := map[string]string{}
	for _, raw := range l.entries {
		var e entry
		if json.Unmarshal(raw, &e) != nil || e == nil {
			continue
		}
		m := read(e)
		if !validName(m.ID) {
			continue
		}
		if own, ok := owners[m.OwnedBy]; ok {
			m.OwnedBy = own // hundreds of entries share few owners
		} else {
			m.OwnedBy = clip(m.OwnedBy, 128)
			owners[m.OwnedBy] = m.OwnedBy
		}
		p.models = append(p.models, m)
	}
	if len(p.models) == 0 && len(l.entries) > 0 {
		return page{}, &ListError{Reason: ReasonMalformed}
	}
	if cursor != "" {
		if raw := l.fields[cursor]; raw != nil {
			_ = json.Unmarshal(raw, &p.next) // null and other types are no cursor
		}
	}
	return p, nil
}

// entry is one model as the upstream describes it. Fields are read one by one,
// so that an odd value costs this field and not the model.
type entry map[string]json.RawMessage

func (e entry) str(key string) string {
	var s string
	if raw := e[key]; len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// created reads OpenAI's seconds and Anthropic's RFC 3339.
func (e entry) created() time.Time {
	if t, err := time.Parse(time.RFC3339, e.str("created_at")); err == nil {
		return t
	}
	f, err := strconv.ParseFloat(string(e["created"]), 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(f), 0).UTC()
}

// validName refuses what no request could name.
func validName(s string) bool {
	return s != "" && len(s) <= maxNameBytes && utf8.ValidString(s) &&
		strings.TrimSpace(s) == s && strings.IndexFunc(s, unicode.IsControl) < 0
}
