package streamguard

import (
	"errors"
	"io"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// hold reads until the stream may be handed out (nil, nil), or until it has
// turned out to be a failure that a response can tell, or an error. What was
// read waits in the chunk.
func (b *guardBody) hold() (*wire.Failure, error) {
	b.holding = true
	defer func() {
		b.holding, b.more = false, true
		if b.c != nil {
			b.c.close()
		}
	}()
	for {
		if b.holdsTooMuch() {
			return b.st.Failure(), nil
		}
		n, m, whole := b.step(b.tail())
		switch {
		case n > 0 && whole:
			if f, done := b.weigh(n, m); done {
				return f, nil
			}
			continue
		case n > 0:
			b.admit(n, false)
			continue
		case b.flowsBy():
			return b.st.Failure(), nil
		}
		b.c.close()
		if n, err := b.refill(); n == 0 && err != nil {
			return b.holdEnd(err)
		}
	}
}

// holdsTooMuch reports whether so much data waits that the stream is handed out
// as it is.
func (b *guardBody) holdsTooMuch() bool {
	if b.g.Policy.HoldUntil != HoldComplete {
		return b.c.judged > maxEvent
	}
	limit := b.g.Policy.HoldLimit
	if limit == 0 {
		limit = DefaultHoldLimit
	}
	return int64(len(b.c.b)-b.c.gap) > limit
}

// flowsBy reports whether the next event is too large to be held.
func (b *guardBody) flowsBy() bool {
	return b.g.Policy.HoldUntil != HoldComplete && len(b.tail()) > maxEvent
}

// weigh takes up one event of n bytes while the stream is held back. done says
// that holding ends: with a failure, or else with the stream handed out.
func (b *guardBody) weigh(n int, m wire.Mark) (f *wire.Failure, done bool) {
	if m&wire.MarkMalformed == 0 && m&wire.MarkFailed == 0 && b.strips(m, b.overfull(n, m)) {
		b.c.leave(n)
		return nil, false
	}
	b.c.close()
	if m&wire.MarkMalformed != 0 {
		return b.malformed()
	}
	b.admit(n, true)
	if f := b.st.Failure(); f != nil {
		if b.st.Vague() {
			b.awaitDetail()
			return nil, false
		}
		return f, true
	}
	b.note(m)
	if m&wire.MarkFinal != 0 && !b.seen {
		return b.emptyStream(), true
	}
	return nil, b.shown(m)
}

// malformed ends holding at an event that does not parse.
func (b *guardBody) malformed() (f *wire.Failure, done bool) {
	if f = b.st.Failure(); f != nil {
		return f, true
	}
	b.c.b = b.c.b[:b.c.judged]
	if b.seen && b.complete() {
		b.finish(errMalformed, nil)
		return nil, true
	}
	return b.judge().failure(wire.ReasonMalformed, "failed to unmarshal response: "+
		providerPrefix(b.g.Provider)+"malformed stream event"), true
}

// admit takes n bytes of an event, or of a part of one, over from the tail.
func (b *guardBody) admit(n int, whole bool) {
	b.c.close()
	k := b.sift(b.tail()[:n], whole)
	b.c.judged += k
	b.c.leave(n - k)
}

// awaitDetail bounds the wait for what a failure has not said: the next event
// may, which often is there already.
func (b *guardBody) awaitDetail() {
	if b.limit != limitDetail {
		b.limit, b.left = limitDetail, detailTime
		b.first.stop()
	}
}

// shown reports whether the policy hands out the stream after an event with
// marks m.
func (b *guardBody) shown(m wire.Mark) bool {
	switch b.g.Policy.HoldUntil {
	case HoldComplete:
		return false
	case HoldFirstContent:
		// A stream that ended without content has nothing more to show.
		return b.seen && (m&wire.MarkContent != 0 || b.endless || b.complete())
	default:
		return b.seen
	}
}

// holdEnd judges a stream whose body ended with err while it was held back.
func (b *guardBody) holdEnd(err error) (*wire.Failure, error) {
	_ = b.src.close()
	m, closing := b.takeRest()
	if f := b.st.Failure(); f != nil {
		return f, nil
	}
	if !b.seen {
		if done := callerDone(b.req, err); done != nil {
			return nil, done
		}
		if err == io.EOF {
			return b.emptyStream(), nil
		}
		return nil, err
	}
	fate := b.fate(err)
	if fate == nil || b.shown(m) {
		b.finish(err, closing)
		return nil, nil
	}
	var inc *IncompleteError
	if errors.As(fate, &inc) && inc.Timeout() {
		return nil, inc.Err
	}
	return nil, fate
}

func (b *guardBody) emptyStream() *wire.Failure {
	return b.judge().failure(wire.ReasonEmptyStream, "provider returned an empty stream")
}

func (b *guardBody) judge() *judge { return &judge{provider: b.g.Provider, format: b.format} }
