package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxBytes bounds a configuration file and each environment variable. Real ones
// have some kilobytes.
const maxBytes = 4 << 20

// maxSearched bounds a file in which the line that breaks a block is looked for
// by parsing its beginnings, twenty times over.
const maxSearched = 256 << 10

// parseYAML returns the top node of a file of one YAML document, nil for an
// empty one.
func parseYAML(data []byte) (*yaml.Node, *Error) {
	const want = "one YAML document in UTF-8"
	if len(data) > maxBytes {
		return nil, &Error{Line: 1, Found: fmt.Sprintf("a file of %d bytes", len(data)), Want: "at most 4 MiB"}
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at, found := unreadable(data); found != "" {
		return nil, &Error{Line: lineOf(data, at), Found: found, Want: want}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxError(err, data)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, &Error{Line: max(more.Line, 1), Found: "a second document", Want: want}
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(err, data)
	}
	return doc.Content[0], nil
}

// maxDirectives bounds the lines that begin with a %. The parser compares each
// directive with all before it.
const maxDirectives = 16

// unreadable finds the first byte that no YAML file holds, or that no
// configuration needs.
func unreadable(data []byte) (at int, found string) {
	directives, begins := 0, true // begins: of a line
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if begins && r == '%' {
			directives++
		}
		begins = strings.ContainsRune("\n\r\u0085\u2028\u2029", r)
		switch {
		case directives > maxDirectives:
			return i, fmt.Sprintf("more than %d lines that begin with %%", maxDirectives)
		case r == utf8.RuneError && n == 1:
			return i, "a byte that is not UTF-8"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return i, fmt.Sprintf("a control character (%U)", r)
		}
		i += n
	}
	return 0, ""
}

func lineOf(data []byte, at int) int {
	return 1 + bytes.Count(data[:at], []byte("\n"))
}

var (
	yamlLine = regexp.MustCompile(`line (\d+): `)
	quoted   = regexp.MustCompile(`'[^']*' `)
	tabbed   = regexp.MustCompile(`(?m)^ *\t[ \t]*[^ \t\r\n#]`)
)

// syntaxError reports what the YAML parser said. Its texts name tokens and what
// the parser was about, but for names of anchors and tags, which are taken
// out: a secret that starts with a * looks like one.
func syntaxError(err error, data []byte) *Error {
	e := &Error{Line: 1, Want: "valid YAML"}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	// The parser counts lines from 0 where it, and not the scanner, fails, and
	// names the first line of a block that breaks further down.
	if strings.HasPrefix(text, "did not find") {
		if yamlLine.MatchString(err.Error()) {
			e.Line = min(e.Line+1, lineOf(data, len(data)))
		}
		if strings.HasSuffix(text, "expected key") || strings.HasSuffix(text, "indicator") {
			if len(data) <= maxSearched {
				e.Line = max(e.Line, breaks(data, text))
			} else {
				e.Hint = "somewhere in the block that begins there"
			}
		}
	}
	if strings.Contains(text, "anchor") {
		e.Line = max(e.Line, aliasLine(text, data))
		text = quoted.ReplaceAllString(text, "")
		e.Hint = "a value that starts with * is an alias: put it in quotes"
	}
	e.Found = "broken YAML (" + text + ")"
	if at := tabbed.FindIndex(data); at != nil && strings.Contains(text, "cannot start any token") {
		e.Line, e.Hint = lineOf(data, at[0]), "indent with spaces, not with tabs"
	}
	return e
}

// breaks finds the first line with which the text fails as the whole does: a
// block that breaks is sound up to there.
func breaks(data []byte, text string) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	var length []int
	total := 0
	for _, l := range lines {
		total += len(l)
		length = append(length, total)
	}
	return 1 + sort.Search(len(lines)-1, func(i int) bool {
		err := yaml.Unmarshal(data[:length[i]], new(yaml.Node))
		return err != nil && strings.HasSuffix(err.Error(), text)
	})
}

// aliasLine finds the alias that an error is about: the parser does not say.
func aliasLine(text string, data []byte) int {
	_, rest, _ := strings.Cut(text, "'")
	name, _, _ := strings.Cut(rest, "'")
	if at := bytes.Index(data, []byte("*"+name)); at >= 0 {
		return lineOf(data, at)
	}
	return 1
}

// parseJSON turns the JSON of an environment variable into nodes with the
// positions they have there, so that one walker reads both.
func parseJSON(text, variable string) (*yaml.Node, *Error) {
	r := jsonReader{text: text, dec: json.NewDecoder(strings.NewReader(text))}
	r.dec.UseNumber()
	var whole json.RawMessage
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		e := &Error{Variable: variable, Line: 1, Column: 1, Found: "broken JSON (" + err.Error() + ")", Want: "a JSON list of virtual models"}
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			e.Line, e.Column = r.position(max(0, int(s.Offset)-1))
		}
		return nil, e
	}
	return r.value(), nil
}

type jsonReader struct {
	text string
	dec  *json.Decoder

	at, line, start int // where position was asked last, and the line there
}

// value reads one value of a text that is known to be valid.
func (r *jsonReader) value() *yaml.Node {
	at := int(r.dec.InputOffset())
	for at < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[at]) >= 0 {
		at++
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	n.Line, n.Column = r.position(at)
	token, err := r.dec.Token()
	if err != nil {
		n.Tag = "!!null"
		return n
	}
	switch t := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for r.dec.More() {
			n.Content = append(n.Content, r.value())
		}
		_, _ = r.dec.Token() // the closing bracket, which a valid text has
	case string:
		n.Value = t
	case json.Number:
		n.Tag, n.Value = "!!float", t.String()
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	case nil:
		n.Tag = "!!null"
	}
	return n
}

// position counts on from where it was asked last: at never goes back.
func (r *jsonReader) position(at int) (line, column int) {
	at = min(at, len(r.text))
	passed := r.text[r.at:at]
	if n := strings.Count(passed, "\n"); n > 0 {
		r.line += n
		r.start = r.at + strings.LastIndexByte(passed, '\n') + 1
	}
	r.at = at
	return 1 + r.line, 1 + at - r.start
}
