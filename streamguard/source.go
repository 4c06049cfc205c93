package streamguard

import (
	"context"
	"io"
	"time"

	"github.com/surefoot-go/surefoot/resilience/ending"
)

const (
	lingerTime = time.Second            // how long the body may stay open behind the stream's final mark
	detailTime = 250 * time.Millisecond // how long a vague failure waits for more, while the stream is held back
)

// A limit is what bounds the waits on the upstream now.
type limit uint8

const (
	limitNone   limit = iota
	limitEvent        // Policy.EventTimeout, since the last data event
	limitLinger       // lingerTime, since the final mark
	limitDetail       // detailTime, since a failure that says nothing of itself
)

// A source is the upstream's body with a bound on the waits for it, which is
// another one as the stream goes on. Only waits count, never the time between
// two Reads.
type source struct {
	watch        // closes the body when a wait is too long
	eventTimeout time.Duration
	left         time.Duration // of limit
	limit        limit
	empty        uint8 // Reads in a row that returned nothing
	over         bool  // guarded by mu; the caller has closed the stream
	err          error // what the body ended with
	pace         *pace // nil: content may come as slowly as it likes

	cancel context.CancelFunc // guarded by mu; ends the search for another body that is under way
}

// suspend closes the body, whose place another may take; until then shut calls
// cancel. It is false where the caller has closed the stream.
func (s *source) suspend(cancel context.CancelFunc) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	s.cancel = cancel
	s.mu.Unlock()
	_ = s.close() // what it ended with is known
	return true
}

// renew goes on with another body behind suspend. It is false where the caller
// has closed the stream meanwhile: the body is not taken.
func (s *source) renew(body io.ReadCloser) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel = nil; s.over {
		return false
	}
	s.body, s.fired = body, false
	s.closed.Store(false)
	s.err, s.empty, s.left = nil, 0, s.eventTimeout
	if s.pace != nil {
		s.pace.anew()
	}
	return true
}

// shut closes the body for good, and may run beside a Read.
func (s *source) shut() error {
	s.mu.Lock()
	cancel := s.cancel
	s.over = true
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return s.close()
}

// Read reads from the upstream, under the limit that holds now.
func (s *source) Read(p []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.pace == nil || s.limit >= limitLinger {
		n, err = s.wait(p)
	} else {
		n, err = s.paced(p)
	}
	if n > 0 {
		s.empty = 0
	} else if err == nil {
		if s.empty++; s.empty > maxEmptyReads {
			err = io.ErrNoProgress
		}
	}
	s.err = err
	return n, err
}

// paced is wait for a stream whose content may not come too slowly.
func (s *source) paced(p []byte) (int, error) {
	if err := s.pace.slow(); err != nil {
		return 0, err
	}
	start := time.Now()
	n, err := s.wait(p)
	s.pace.waited += time.Since(start)
	return n, err
}

// wait reads under the limit that holds now.
func (s *source) wait(p []byte) (int, error) {
	if s.limit == limitNone {
		return s.body.Read(p)
	}
	return s.readWithin(p)
}

func (s *source) readWithin(p []byte) (int, error) {
	start := time.Now()
	s.arm(s.left)
	n, err := s.body.Read(p)
	if s.disarm() {
		if s.limit >= limitLinger {
			return n, io.EOF
		}
		return n, &ending.TimeoutError{What: limitEventTimeout, After: s.eventTimeout}
	}
	s.left = max(1, s.left-time.Since(start))
	return n, err
}

// heardEvent begins the wait for a data event anew.
func (s *source) heardEvent() {
	if s.limit == limitEvent {
		s.left = s.eventTimeout
	}
}

// expectEnd bounds the wait for the end of the body, or for more of a failure.
func (s *source) expectEnd(l limit, within time.Duration) {
	if s.limit < limitLinger {
		s.limit, s.left = l, within
	}
}
