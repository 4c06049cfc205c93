package upstreamtest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// edit changes one member of a JSON body.
type edit struct {
	path   string
	change func(old any) (new any, keep bool)
}

// Set sets a member of a JSON answer to value, which encoding/json encodes.
// path names members and indexes with dots ("choices.0.message.content");
// members that are missing on the way are made. Streams and bodies that are no
// JSON stay as they are. The members of a changed body are in order of name.
func (s Step) Set(path string, value any) Step {
	return s.edit(path, func(any) (any, bool) { return value, true })
}

// Delete removes a member of a JSON answer; see [Step.Set].
func (s Step) Delete(path string) Step {
	return s.edit(path, func(any) (any, bool) { return nil, false })
}

// Drift changes the type of a member of a JSON answer, as a provider does that
// moved on: a string becomes a number, a number a string, anything else
// (missing too) the string "drift"; see [Step.Set].
func (s Step) Drift(path string) Step {
	return s.edit(path, func(old any) (any, bool) {
		switch v := old.(type) {
		case string:
			return 7, true
		case json.Number:
			return v.String(), true
		}
		return "drift", true
	})
}

func (s Step) edit(path string, change func(any) (any, bool)) Step {
	edits := make([]edit, 0, len(s.edits)+1)
	s.edits = append(append(edits, s.edits...), edit{path, change})
	return s
}

// edited applies the edits to a JSON body.
func edited(c content, edits []edit) content {
	if len(c.events) != 1 {
		return c
	}
	dec := json.NewDecoder(bytes.NewReader(c.events[0].data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return c
	}
	for _, e := range edits {
		v, _ = changed(v, strings.Split(e.path, "."), e.change)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("upstreamtest: Set: " + err.Error()) // a mistake in the test
	}
	e := c.events[0]
	e.data = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	c.events = []event{e}
	return c
}

// changed is v with the member at path changed.
func changed(v any, path []string, change func(any) (any, bool)) (any, bool) {
	if len(path) == 0 || path[0] == "" {
		return change(v)
	}
	if list, ok := v.([]any); ok {
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(list) {
			return v, true
		}
		member, keep := changed(list[i], path[1:], change)
		if keep {
			list[i] = member
			return list, true
		}
		return append(list[:i], list[i+1:]...), true
	}
	object, ok := v.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	member, keep := changed(object[path[0]], path[1:], change)
	if keep {
		object[path[0]] = member
	} else {
		delete(object, path[0])
	}
	return object, true
}
