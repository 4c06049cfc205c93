package streamguard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// A guarded stream is one allocation and four machines, each of which knows the
// one before it and nothing of the one behind:
//
//	source   the upstream's body, and how long is waited for it
//	scanner  bytes to events; what waits in the chunk, and what is left out of it
//	holder   what an event means for the stream, and how long that is held back
//	relay    the body that is handed out: Read, Close, the lock, the end
//
// What bounds a wait is a limit of the source. What counts an event, or looks for
// something in it, belongs into note. What may be done about an upstream's body
// that has ended comes before finish, in conclude.

// A relay is the body of a stream that is handed out, once its holder has let it
// go. The lock is between a Read and a Close beside it, and guards the account of
// the stream, which OnEnd is given once.
type relay struct {
	holder
	err error // what Read returns once the chunk is empty; nil while the stream goes on

	mu    sync.Mutex
	phase phase // guarded by mu
	told  bool  // guarded by mu: OnEnd was called, or is about to be

	unscanned bool // the tail may hold whole events; here it takes no room

	end End // guarded by mu
}

// A phase is what the caller does with a body.
type phase uint8

const (
	idle    phase = iota // nothing
	reading              // a Read is under way
	closing              // it was closed beside a Read
	closed
)

// Read hands out whole events as they arrive. It may be interrupted by Close.
func (r *relay) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.mu.Lock()
	if r.phase >= closing {
		r.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	r.phase = reading
	r.mu.Unlock()
	done := false
	defer func() { r.leave(n, err, done) }()
	n, err = r.read(p)
	done = true
	return n, err
}

// leave takes down what is known after a Read, or after its panic, and tells
// the end that it was.
func (r *relay) leave(n int, err error, returned bool) {
	r.mu.Lock()
	r.end.Bytes += int64(n)
	r.account()
	if !returned {
		r.err = errPanicked
		r.end.Complete, r.end.Err = false, errPanicked
	}
	if r.phase == closing {
		r.phase = closed
		r.drop()
	} else {
		r.phase = idle
	}
	tell := !r.told && (err != nil || !returned)
	r.told = r.told || tell
	end := r.end
	if tell { // what nobody hears is not parsed
		end.Usage = r.st.Usage()
	}
	r.mu.Unlock()
	if tell {
		r.onEnd(end)
	}
}

// account brings the account of a stream that goes on up to date. mu is held.
func (r *relay) account() {
	if r.err != nil {
		return
	}
	r.end.Events = r.st.Events()
	if f := r.st.Failure(); f != r.end.Failure {
		r.end.Failure, r.end.Err = f, r.inBand(f)
	}
	r.end.Complete = r.end.Failure == nil && r.complete()
}

func (r *relay) read(p []byte) (int, error) {
	for {
		if n := r.take(p); n > 0 {
			return n, nil
		}
		if r.err != nil {
			return 0, r.err
		}
		if r.unscanned {
			r.unscanned = false
			r.passChunk()
			continue
		}
		if len(p) >= directSize && len(r.tail()) <= len(p)/4 {
			if n := r.direct(p); n > 0 {
				return n, nil
			}
			continue
		}
		if n, err := r.refill(); n > 0 {
			r.passChunk()
		} else if err != nil {
			r.conclude(err)
		}
	}
}

// direct reads into the caller's buffer, so that a stream that waits needs none
// of its own. It returns how many bytes at the start of p are whole events.
func (r *relay) direct(p []byte) int {
	t := copy(p, r.tail())
	r.drop()
	for t <= len(p)/2 {
		n, err := r.src.Read(p[t:])
		if n == 0 && err != nil {
			r.keep(p[:t])
			r.conclude(err)
			return 0
		}
		out, in, bad := r.pass(p[:t+n])
		if bad {
			r.finish(errMalformed)
			return out
		}
		if out > 0 {
			r.keep(p[in : t+n])
			return out
		}
		if t += n; in > 0 {
			t = copy(p, p[in:t])
		}
	}
	r.keep(p[:t])
	return 0
}

// passChunk has what waits in the chunk pass.
func (r *relay) passChunk() {
	c := r.c
	if c == nil {
		return
	}
	out, in, bad := r.pass(c.b[c.judged:])
	if out != in {
		n := copy(c.b[c.judged+out:], c.b[c.judged+in:])
		c.b = c.b[:c.judged+out+n]
	}
	c.judged += out
	if bad {
		c.cut()
		r.finish(errMalformed)
	}
}

// pass judges the whole events at the start of data. The first out bytes of data
// may then be handed out, those from in on are not judged; bad says that an
// event that does not parse begins there.
func (r *relay) pass(data []byte) (out, in int, bad bool) {
	for in < len(data) {
		e := r.next(data[in:])
		if e.n == 0 {
			if !r.outgrown(data[in:]) {
				break
			}
			r.flow, r.filter = r.large(), commentFilter{}
			continue
		}
		if e.whole {
			if e.mark&wire.MarkMalformed != 0 {
				return out, in, true
			}
			if r.leaves(e, r.untrue(e.mark)) {
				in += e.n
				continue
			}
			r.note(e.mark)
		}
		k := e.n
		if r.strip || e.flow != flowNone {
			k = r.sift(data[in:in+e.n], e)
		}
		if out != in {
			copy(data[out:], data[in:in+k])
		}
		out, in = out+k, in+e.n
	}
	return out, in, false
}

// conclude ends a stream whose body ended with err, unless it goes on.
func (r *relay) conclude(err error) {
	if r.resumed(err) {
		return
	}
	r.note(r.rest())
	r.finish(err)
}

// finish decides what the stream was, after the upstream's body ended with err
// or was given up for it, and what Read returns when all is handed out.
func (r *relay) finish(err error) {
	_ = r.src.close()
	r.src.err = err
	r.first.release()
	fate, last := r.fate(err), io.EOF
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account()
	failed := r.end.Failure != nil
	var inc *IncompleteError
	switch {
	case fate == nil:
	case !failed && r.phase == closing:
		fate, last = http.ErrBodyReadAfterClose, http.ErrBodyReadAfterClose
	case !errors.As(fate, &inc) || !failed && !r.add(inc) || r.g.Policy.IncompleteRead != IncompleteReadEOF:
		last = fate
	}
	r.err = last
	r.end.Complete, r.end.Err = fate == nil, fate
	r.end.Closed = errors.Is(fate, context.Canceled) && !ending.SaysTimeout(fate)
}

// Close closes the upstream's body. It may be called at any time, also while a
// Read waits, which then returns.
func (r *relay) Close() (err error) {
	r.mu.Lock()
	switch r.phase {
	case closing, closed:
		r.mu.Unlock()
		return nil
	case reading:
		r.phase = closing
	case idle:
		r.phase = closed
		r.drop()
	}
	end, tell := r.end, !r.told
	if r.phase == closed { // else a Read may change it
		end.Usage = r.st.Usage()
	}
	r.told = true
	r.mu.Unlock()

	done := false
	defer func() {
		r.first.release()
		if !tell {
			return
		}
		if !end.decided() {
			if end.Closed = done; !done {
				end.Err = errPanicked
			}
		}
		r.onEnd(end)
	}()
	err = r.src.shut()
	done = true
	return err
}
