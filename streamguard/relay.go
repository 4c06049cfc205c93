package streamguard

import (
	"net/http"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Read hands out whole events as they arrive. It may be interrupted by Close.
func (b *guardBody) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !b.enter() {
		return 0, http.ErrBodyReadAfterClose
	}
	done := false
	defer func() { b.leave(n, err, done) }()
	n, err = b.read(p)
	done = true
	return n, err
}

// enter notes that a Read is under way; it reports false on a closed body.
func (b *guardBody) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = !b.closed
	return b.reading
}

// leave takes down what is known after a Read, or after its panic, and tells
// the end that it was.
func (b *guardBody) leave(n int, err error, returned bool) {
	b.mu.Lock()
	b.reading = false
	b.end.Bytes += int64(n)
	b.sum()
	if !returned {
		b.err = errPanicked
		b.end.Complete, b.end.Err = false, errPanicked
	}
	if b.closed {
		b.drop()
	}
	tell := !b.told && (err != nil || !returned)
	b.told = b.told || tell
	end := b.end
	b.mu.Unlock()
	if tell {
		b.onEnd(end)
	}
}

// sum brings the account of the stream up to date. mu is held.
func (b *guardBody) sum() {
	if b.over {
		return
	}
	b.end.Events = b.st.Events()
	if f := b.st.Failure(); f != b.end.Failure {
		b.end.Failure, b.end.Err = f, b.inBand(f)
	}
	b.end.Complete = b.end.Failure == nil && b.complete()
}

func (b *guardBody) read(p []byte) (int, error) {
	for {
		if n := b.take(p); n > 0 {
			return n, nil
		}
		if b.err != nil {
			return 0, b.err
		}
		if b.more {
			b.more = false
			b.scanChunk()
			continue
		}
		if len(p) >= directSize && len(b.tail()) <= len(p)/4 {
			if n := b.direct(p); n > 0 {
				return n, nil
			}
			continue
		}
		if n, err := b.refill(); n > 0 {
			b.scanChunk()
		} else if err != nil {
			b.conclude(err)
		}
	}
}

// direct reads into the caller's buffer, so that a stream that waits needs none
// of its own. It returns how many bytes at the start of p are whole events.
func (b *guardBody) direct(p []byte) int {
	t := copy(p, b.tail())
	b.drop()
	for t <= len(p)/2 {
		n, err := b.fetch(p[t:])
		if n == 0 && err != nil {
			b.keep(p[:t])
			b.conclude(err)
			return 0
		}
		w, r, bad := b.scan(p[:t+n])
		if bad {
			b.finish(errMalformed, nil)
			return w
		}
		if w > 0 {
			b.keep(p[r : t+n])
			return w
		}
		if t += n; r > 0 {
			t = copy(p, p[r:t])
		}
	}
	b.keep(p[:t])
	return 0
}

// scanChunk judges what waits in the chunk.
func (b *guardBody) scanChunk() {
	c := b.c
	if c == nil {
		return
	}
	w, r, bad := b.scan(c.b[c.judged:])
	if w != r {
		n := copy(c.b[c.judged+w:], c.b[c.judged+r:])
		c.b = c.b[:c.judged+w+n]
	}
	c.judged += w
	if bad {
		c.b = c.b[:c.judged]
		b.finish(errMalformed, nil)
	}
}

// scan judges the whole events at the start of data. The first w bytes of data
// may then be handed out, those from r on are not judged; bad says that an event
// that does not parse begins there.
func (b *guardBody) scan(data []byte) (w, r int, bad bool) {
	for r < len(data) {
		n, m, whole := b.step(data[r:])
		if n == 0 {
			break
		}
		if whole {
			if m&wire.MarkMalformed != 0 {
				return w, r, true
			}
			if b.strips(m, b.untrue(m)) {
				r += n
				continue
			}
			b.note(m)
		}
		k := n
		if b.part || b.g.Policy.StripComments {
			k = b.sift(data[r:r+n], whole)
		}
		if w != r {
			copy(data[w:], data[r:r+k])
		}
		w, r = w+k, r+n
	}
	return w, r, false
}

// untrue reports whether an event with marks m says that the answer is over and
// well, behind a failure of the stream's own. It is left out: clients exist that
// take no notice of an error event and stop reading at [DONE], before the error
// from Read (contract 6.11).
func (b *guardBody) untrue(m wire.Mark) bool {
	return m&(wire.MarkEnd|wire.MarkFinal) != 0 && m&wire.MarkFailed == 0 && b.st.Failure() != nil
}

// Close closes the upstream's body. It may be called at any time, also while a
// Read waits, which then returns.
func (b *guardBody) Close() (err error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	end, tell := b.end, !b.told
	b.told = true
	if !b.reading {
		b.drop()
	}
	b.mu.Unlock()

	done := false
	defer func() {
		b.first.release()
		if !tell {
			return
		}
		if !end.decided() {
			if end.Closed = done; !done {
				end.Err = errPanicked
			}
		}
		b.onEnd(end)
	}()
	err = b.src.close()
	done = true
	return err
}
