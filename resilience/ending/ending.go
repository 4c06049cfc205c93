// Package ending decides who ended a call: the caller, a time limit, the
// request's own fault, or the upstream. Every layer of surefoot asks [Of], so
// that all of them give one verdict; a layer of your own can do the same. The
// decision rests on the clock, on the contexts and on the types of this
// package, never on an error's text (contract 0).
package ending

import (
	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"syscall"
	"time"
)

// By says who ended a call.
type By int8

// Who may end a call.
const (
	// Upstream: nobody on this side did, so what happened is the upstream's
	// fault or the network's.
	Upstream By = iota
	// Caller: the context was cancelled before its deadline, or Request.Cancel
	// was closed. The context's cause does not matter, unless it is a
	// [*TimeoutError].
	Caller
	// Deadline: the deadline of the caller's context has passed by the clock.
	Deadline
	// Timer: a [*TimeoutError], or a timer of the transport such as
	// ResponseHeaderTimeout.
	Timer
	// Request: the request itself could not be sent, by net/http's rules or
	// because its body failed. No upstream had a part in it.
	Request
)

// String returns "upstream", "caller", "deadline", "timer" or "request".
func (b By) String() string {
	return [...]string{"upstream", "caller", "deadline", "timer", "request"}[b]
}

// Timeout reports whether a time limit ended the call, whoever set it: what
// the contract calls a local timeout.
func (b By) Timeout() bool { return b == Deadline || b == Timer }

// An Ending is how a call ended.
type Ending struct {
	By By
	// Limit is the limit of this library that ended the call; nil for the
	// caller's own deadline, for a timer of the transport, and where By is not
	// a time limit.
	Limit *TimeoutError

	cause error // the context's cause, nil where the context lives
}

// Of decides who ended the call of req, which failed with err. It asks the
// request's context first: a deadline that has passed by the clock counts even
// if the context's own timer is late, and whoever cancelled after it. A nil err
// asks about the context alone. Safe for concurrent use; req is only read.
func Of(req *http.Request, err error) Ending { return Within(req.Context(), req, err) }

// Within is [Of] for a request that was sent under another context than its own,
// such as one that ends with a time limit.
func Within(ctx context.Context, req *http.Request, err error) Ending {
	e := Under(ctx, req.Cancel, err) //nolint:staticcheck // deprecated, yet still honored by net/http
	if e.By == Upstream && err != nil && Unsendable(req) {
		e.By = Request
	}
	return e
}

// Under is [Of] for a call that has no request: a context, a Request.Cancel
// channel or nil, and the error or nil.
func Under(ctx context.Context, cancel <-chan struct{}, err error) Ending {
	state := ctx.Err()
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		state = context.DeadlineExceeded
	}
	if state != nil {
		cause := context.Cause(ctx)
		switch limit, ours := errors.AsType[*TimeoutError](cause); {
		case ours:
			return Ending{By: Timer, Limit: limit, cause: cause}
		case state == context.Canceled: //nolint:errorlint // Err returns one of the two
			return Ending{By: Caller, cause: cause}
		}
		return Ending{By: Deadline, cause: cause}
	}
	select {
	case <-cancel:
		return Ending{By: Caller}
	default:
	}
	if err == nil {
		return Ending{}
	}
	if limit, ours := errors.AsType[*TimeoutError](err); ours {
		return Ending{By: Timer, Limit: limit}
	}
	if _, own := errors.AsType[*RequestError](err); own {
		return Ending{By: Request}
	}
	if timerOfTransport(err) {
		return Ending{By: Timer}
	}
	return Ending{}
}

// timerOfTransport reports whether err, under a context that lives, is a timer
// between the layers and the network, such as ResponseHeaderTimeout. A network
// operation, a name look-up or a TLS handshake that took too long says Timeout
// as well, but is a transport failure (contract 0).
func timerOfTransport(err error) bool {
	if !SaysTimeout(err) {
		return false
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return false
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return false
	}
	return !tlsHandshakeTimeout(err)
}

// tlsHandshakeTimeout recognizes the error of Transport.TLSHandshakeTimeout,
// whose type net/http does not export.
func tlsHandshakeTimeout(err error) bool {
	for err != nil {
		if t := reflect.TypeOf(err); t.PkgPath() == "net/http" && t.Name() == "tlsHandshakeTimeoutError" {
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}

// SaysTimeout reports whether err is a timeout by its own account: it has a
// method Timeout that returns true, or it matches [context.DeadlineExceeded]
// and not, like a cancellation with such a cause, [context.Canceled] as well.
func SaysTimeout(err error) bool {
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
