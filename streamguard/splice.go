package streamguard

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"io"
	"net/http"
	"slices"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A splice finds the place in a new body where the stream goes on.
type splice struct {
	h      *holder
	resp   *http.Response
	body   io.Reader
	probe  *wire.Stream // tells the events of the new body apart
	onByte func()       // nil is none
	data   []byte       // read, and nothing is known of it yet
	err    error        // what the body ended with
	empty  int          // Reads in a row that returned nothing
	large  bool         // an event that is too large to hold is left out
}

// find reads on until data begins with what comes next.
func (s *splice) find() error {
	if !judgeable(s.h.format, s.h.req, s.resp) {
		return &ResumeError{Reason: ReasonGap}
	}
	for {
		if found, err := s.scan(); found || err != nil {
			return err
		}
		if err := s.more(); err != nil {
			return err
		}
	}
}

// more reads.
func (s *splice) more() error {
	if s.err != nil {
		if shape := wire.Sniff(s.data); shape == wire.ShapeJSON || shape == wire.ShapeHTML {
			return &ResumeError{Reason: ReasonGap} // it was no stream
		}
		return &ResumeError{Reason: ReasonNoEvent, Err: s.err}
	}
	n := len(s.data)
	s.data, s.err = readMore(s.body, slices.Grow(s.data, chunkSize/4), &s.empty)
	if len(s.data) > n && s.onByte != nil {
		s.onByte()
		s.onByte = nil
	}
	return nil
}

// scan looks at the events of data and drops those that say nothing new.
func (s *splice) scan() (found bool, err error) {
	for len(s.data) > 0 {
		if s.large {
			n, done, _ := s.probe.Large(s.data)
			s.data, s.large = s.data[n:], !done
			continue
		}
		n := s.probe.Next(s.data)
		if n == 0 && len(s.data) <= maxEvent {
			break
		}
		ev := s.data[:cmp.Or(n, len(s.data))]
		switch next := s.h.st.Continues(ev, n > 0); {
		case next == wire.Repeats && n > 0:
			s.data = s.data[n:]
		case next == wire.Repeats:
			s.large = true
		case next == wire.Older:
			return false, &ResumeError{Reason: ReasonOlder}
		case s.h.flow != flowNone:
			return true, s.verify()
		case next == wire.Follows:
			s.dropMark()
			return true, nil
		default:
			return false, &ResumeError{Reason: ReasonGap}
		}
	}
	return false, nil
}

// verify takes off the beginning of an event of which that was handed out, if
// its bytes are the same.
func (s *splice) verify() error {
	s.dropMark()
	passed := &s.h.again.passed
	var now maphash.Hash
	now.SetSeed(passed.Seed())
	for left := s.h.again.n; left > 0; {
		if len(s.data) == 0 {
			if err := s.more(); err != nil {
				return err
			}
			continue
		}
		k := min(left, len(s.data))
		_, _ = now.Write(s.data[:k])
		s.data, left = s.data[k:], left-k
	}
	for len(s.data) == 0 { // one byte that is new, at least
		if err := s.more(); err != nil {
			return err
		}
	}
	if now.Sum64() != passed.Sum64() {
		return &ResumeError{Reason: ReasonGap}
	}
	return nil
}

// dropMark takes off the byte order mark of the new body, which is in the middle
// of the stream.
func (s *splice) dropMark() { s.data = bytes.TrimPrefix(s.data, []byte("\xef\xbb\xbf")) }
