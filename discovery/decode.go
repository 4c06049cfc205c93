package discovery

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Bounds of a page beside those of a fetch.
const (
	maxCursorBytes = 4 << 10
	maxMembers     = 1000 // beside the list
)

// budget is what may still be read of a list, over all of its pages.
type budget struct {
	bytes   int64
	entries int
}

func tooLarge(format string, bound any) *ListError {
	return &ListError{Reason: ReasonTooLarge, words: "more than a list of models can be: over " + fmt.Sprintf(format, bound)}
}

// page is one decoded page of a list.
type page struct {
	models []Model
	next   string // cursor of the next page; "" is the last
	more   bool   // there is a next page, whether or not it has a cursor
}

// pageReader reads a list page by page: each is decoded while it arrives, so
// that what is kept is bounded by what a list may hold and not by what is sent.
type pageReader struct {
	dialect
	dec  *json.Decoder
	left *int // entries

	page  page
	found int  // which of the dialect's keys the list was under; len(keys): none yet
	seen  bool // the list had an entry, good or bad
}

// readPage decodes one page. The error is a *ListError but where body fails to
// be read: then it is that error.
func (d dialect) readPage(body io.Reader, left *budget) (page, error) {
	limit, bound := left.bytes, maxListBytes
	if limit > maxPageBytes {
		limit, bound = maxPageBytes, maxPageBytes
	}
	in := &bounded{r: body, left: limit}
	text := bufio.NewReader(in)
	r := pageReader{dialect: d, dec: json.NewDecoder(text), left: &left.entries, found: len(d.keys)}
	err := r.read(text)
	left.bytes -= limit - in.left
	switch {
	case in.over:
		return page{}, tooLarge("%d bytes", bound)
	case in.err != nil:
		return page{}, in.err
	case err != nil:
		return page{}, err
	}
	return r.page, nil
}

func (r *pageReader) read(text *bufio.Reader) error {
	switch first, err := start(text); {
	case err != nil:
		return &ListError{Reason: ReasonNoList}
	case first == '<':
		return &ListError{Reason: ReasonHTML}
	}
	err := r.value()
	if err != nil {
		return err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return &ListError{Reason: ReasonMalformed} // something follows
	}
	if r.found == len(r.keys) {
		return &ListError{Reason: ReasonNoList}
	}
	// A list of nothing but bad entries is malformed, not empty.
	if r.seen && len(r.page.models) == 0 {
		return &ListError{Reason: ReasonMalformed}
	}
	if r.more != "" && !r.page.more {
		r.page.next = ""
	}
	return nil
}

// start skips what may stand before the text, a byte order mark included, and
// returns the first byte of it.
func start(text *bufio.Reader) (byte, error) {
	if mark, err := text.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = text.Discard(3)
	}
	for {
		b, err := text.ReadByte()
		if err != nil {
			return 0, err
		}
		if !isBlank(b) {
			return b, text.UnreadByte()
		}
	}
}

// value reads the page: an object with a list, or the bare list.
func (r *pageReader) value() error {
	t, err := r.dec.Token()
	switch {
	case err != nil:
		return &ListError{Reason: ReasonMalformed}
	case t == nil:
		return &ListError{Reason: ReasonNoList} // null
	case t == json.Delim('['):
		r.found = 0
		return r.entries()
	case t != json.Delim('{'):
		return &ListError{Reason: ReasonMalformed}
	}
	for n := 0; r.dec.More(); n++ {
		if n == maxMembers {
			return tooLarge("%d members", maxMembers)
		}
		key, err := r.dec.Token()
		if err != nil {
			return &ListError{Reason: ReasonMalformed}
		}
		name, _ := key.(string) // the decoder gives nothing else in a key's place
		if err := r.member(name); err != nil {
			return err
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return &ListError{Reason: ReasonMalformed}
	}
	return nil
}

// member reads the value of one member of the page.
func (r *pageReader) member(key string) error {
	if i := slices.Index(r.keys, key); i >= 0 && i <= r.found {
		r.found, r.page.models, r.seen = i, nil, false // the last one counts, as in encoding/json
		return r.list()
	}
	switch key {
	case "error":
		var e failure
		if err := r.dec.Decode(&e); err != nil {
			return &ListError{Reason: ReasonMalformed}
		}
		if e {
			return &ListError{Reason: ReasonHidden}
		}
		return nil
	case r.next: // null and other types are no cursor
		var s text
		if err := r.dec.Decode(&s); err != nil {
			return &ListError{Reason: ReasonMalformed}
		}
		if len(s) > maxCursorBytes || s == oversize {
			return tooLarge("%d bytes of a page cursor", maxCursorBytes)
		}
		r.page.next = string(s)
		return nil
	case r.more:
		var b flag
		if err := r.dec.Decode(&b); err != nil {
			return &ListError{Reason: ReasonMalformed}
		}
		r.page.more = bool(b)
		return nil
	}
	return r.skip()
}

func (r *pageReader) skip() error {
	var nothing ignored
	if err := r.dec.Decode(&nothing); err != nil {
		return &ListError{Reason: ReasonMalformed}
	}
	return nil
}

// list reads the member that holds the list.
func (r *pageReader) list() error {
	switch t, err := r.dec.Token(); {
	case err != nil:
		return &ListError{Reason: ReasonMalformed}
	case t == nil:
		return &ListError{Reason: ReasonNoList}
	case t != json.Delim('['):
		return &ListError{Reason: ReasonMalformed}
	}
	return r.entries()
}

// entries reads the list up to its closing bracket, skipping entries that name
// no model. The bad ones count towards the bound.
func (r *pageReader) entries() error {
	for r.dec.More() {
		if *r.left == 0 {
			return tooLarge("%d models", maxModels)
		}
		*r.left--
		r.seen = true
		var e entry
		if err := r.dec.Decode(&e); err != nil {
			var mistyped *json.UnmarshalTypeError
			if !errors.As(err, &mistyped) {
				return &ListError{Reason: ReasonMalformed}
			}
			continue // no object
		}
		m := r.model(e)
		if validName(m.ID) {
			m.OwnedBy = clip(m.OwnedBy, maxOwnerBytes)
			r.page.models = append(r.page.models, m)
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return &ListError{Reason: ReasonMalformed}
	}
	return nil
}
