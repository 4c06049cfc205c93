package resilience

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

type recordKey struct{}

// A Record remembers the last call that a stack made under a context. It is for
// clients that hand out neither the response nor an error that knows its status,
// such as those whose errors are plain text. It is safe for concurrent use.
type Record struct{ last atomic.Pointer[call] }

// WithRecord returns a context whose calls the record remembers, the last one
// at a time: of several at once it is the one that began last.
func WithRecord(ctx context.Context) (context.Context, *Record) {
	r := new(Record)
	return context.WithValue(ctx, recordKey{}, r), r
}

// Call returns what is known by now of the last call. It is not ok if no stack
// was called.
func (r *Record) Call() (c Call, ok bool) {
	last := r.last.Load()
	if last == nil {
		return Call{}, false
	}
	return last.snapshot(), true
}

// Details returns how the last call failed, as [DetailsOf] does for an error. It
// is not ok for a call that went well, had no answer, or was not made.
func (r *Record) Details() (status int, code, message string, ok bool) {
	last := r.last.Load()
	if last == nil {
		return 0, "", "", false
	}
	return last.details()
}

// remember makes the call the last one of its context's record.
func (c *call) remember() {
	if r, ok := c.caller.Value(recordKey{}).(*Record); ok {
		r.last.Store(c)
	}
}

// details is what the call's own record says of a rejection, of a failed answer,
// and of a failure that a stream reported.
func (c *call) details() (status int, code, message string, ok bool) {
	if open := c.open; open != nil {
		return open.HTTPStatus(), rejectionReason(open), open.Error(), true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if inc, told := errors.AsType[*streamguard.IncompleteError](c.rec.Err); told && inc.Reason == streamguard.ReasonInBandError {
		if c.end != nil && c.end.Failure != nil {
			code, message = words(c.end.Failure)
		}
		return inc.Status, code, message, true
	}
	if c.rec.Status < http.StatusBadRequest || c.rec.Err != nil {
		return 0, "", "", false
	}
	if f := c.failure; f != nil && f.Status == c.rec.Status {
		code, message = words(f)
	}
	return c.rec.Status, code, message, true
}

func words(f *wire.Failure) (code, message string) {
	if f.Code != "" {
		return f.Code, f.Message
	}
	return f.Type, f.Message
}
