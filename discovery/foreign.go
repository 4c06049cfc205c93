package discovery

import (
	"context"
	"errors"
	"log/slog"
)

// Listers, hooks, log handlers and their errors are somebody else's code. What
// panics there, or calls runtime.Goexit, is contained here and reported where
// there is a place to report it.

// foreignError holds an error of somebody else's type. A method of that error
// which panics answers as if it were not there.
type foreignError struct{ err error }

// contained wraps err so that it can be looked at safely; nil stays nil.
func contained(err error) error {
	if err == nil {
		return nil
	}
	return &foreignError{err: err}
}

// Error returns the error's text.
func (e *foreignError) Error() (s string) {
	defer func() {
		if recover() != nil {
			s = "an error whose text cannot be had"
		}
	}()
	return e.err.Error()
}

// Is asks the error and those that it wraps.
func (e *foreignError) Is(target error) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	return errors.Is(e.err, target)
}

// As asks the error and those that it wraps.
func (e *foreignError) As(target any) (as bool) {
	defer func() {
		if recover() != nil {
			as = false
		}
	}()
	return errors.As(e.err, target)
}

// shielded calls f on a goroutine of its own, since nothing else stops a Goexit,
// and waits for it. It reports whether f returned.
func shielded(f func()) (ok bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
		ok = true
	}()
	<-done
	return ok
}

// hook calls f, which runs code of a provider's owner, and reports whether it
// returned. The caller holds no lock.
func (r *Registry) hook(p *provider, name string, f func()) bool {
	ok := shielded(f)
	if ok {
		p.faulty.Delete(name)
	} else if _, was := p.faulty.LoadOrStore(name, true); !was { // the page asks every second
		r.log.Error("a hook of the provider panicked", "provider", p.Name, "hook", name)
	}
	return ok
}

// quietHandler contains a log handler. There is nobody left to tell.
type quietHandler struct{ slog.Handler }

// Enabled leaves the question to Handle.
func (q quietHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle hands the record on.
func (q quietHandler) Handle(ctx context.Context, rec slog.Record) error {
	shielded(func() {
		if q.Handler.Enabled(ctx, rec.Level) {
			_ = q.Handler.Handle(ctx, rec)
		}
	})
	return nil
}
