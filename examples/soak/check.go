package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// check compares a finished call with what must hold.
func (s *soak) check(p *plan, got result, attempts []failover.Attempt, calls []resilience.Call) {
	outcome, fault := s.wholeness(p, got)
	if got.body == "" && slices.ContainsFunc(calls, wasKept) {
		fault = nil // its body was waited for as long as that is allowed to take
	}
	s.tally.ended(p, got, outcome)
	fail := func(format string, args ...any) {
		s.tally.violation("call %s: %s\n  plan: %s\n  got: status %d, %v, %d bytes, %v\n  targets: %s",
			p.id, fmt.Sprintf(format, args...), p.describe(), got.status, outcome, len(got.body), got.err, describe(attempts, calls))
	}
	if fault != nil {
		fail("wholeness: %v", fault)
	}
	s.accounts(p, attempts, calls, fail)
	if !slices.Contains(shared[:], p.model) {
		return // its scripts make holds of its own
	}
	s.skips(p.model, attempts, time.Now(), fail)
	for i := range calls {
		s.patient(p, &calls[i], attempts, fail)
	}
}

// wasKept reports whether the answer of a call was dropped for a retry, which was
// refused then: its status, headers and as much of its body as came in time go
// back.
func wasKept(c resilience.Call) bool { return c.NoRetry != "" }

// Outcomes of a call, as its caller sees them.
const (
	gotWhole    = "whole answer"
	gotError    = "error answer"
	gotNone     = "error, no answer"
	gotBroken   = "stream broken off, reported"
	gotInBand   = "error event in the stream"
	gotRejected = "rejected by every breaker"
	gotLimited  = "kept away by limits"
	gotCanceled = "cancelled"
	gotTimeout  = "timed out"
	gotLeft     = "closed early"
)

// wholeness says what became of the call. An error means that the caller was
// told something false.
func (s *soak) wholeness(p *plan, got result) (outcome string, fault error) {
	switch {
	case got.status == 0 && errors.Is(got.err, context.Canceled):
		if p.cancel == 0 {
			return gotCanceled, errors.New("cancelled by nobody")
		}
		return gotCanceled, nil
	case got.status == 0:
		return noAnswer(got.err), nil
	case got.status >= 400:
		if got.err == nil && !got.left && !strings.Contains(got.body, "{") {
			return gotError, fmt.Errorf("an error without a JSON body: %.100q", got.body)
		}
		return gotError, nil
	case got.status != http.StatusOK:
		return gotError, fmt.Errorf("status %d", got.status)
	}
	read, err := p.format.read(got.body, got.events)
	switch {
	case got.err != nil && p.cancel > 0 && errors.Is(got.err, context.Canceled):
		return gotCanceled, nil
	case got.err != nil && !got.events:
		return gotNone, nil
	case got.err != nil: // the error event stands before it, unless the caller's time was up
		if !errors.Is(err, errInBand) && p.cancel == 0 && p.limit == 0 && got.took < deadline {
			return gotBroken, fmt.Errorf("no error event before %w", got.err)
		}
		return gotBroken, nil
	case got.left:
		return gotLeft, nil
	case errors.Is(err, errInBand):
		return gotInBand, nil
	case err != nil:
		return gotWhole, err
	}
	seal, err := unseal(read)
	if err == nil && seal.id != p.id && seal.id != p.model {
		err = fmt.Errorf("the answer of another call: %s", seal.id)
	}
	return gotWhole, err
}

func noAnswer(err error) string {
	switch resilience.StatusOf(err) {
	case http.StatusServiceUnavailable:
		return gotRejected
	case http.StatusTooManyRequests:
		return gotLimited
	case http.StatusGatewayTimeout:
		return gotTimeout
	}
	return gotNone
}

// accounts compares what the stacks recorded with what the upstreams read.
func (s *soak) accounts(p *plan, attempts []failover.Attempt, calls []resilience.Call, fail func(string, ...any)) {
	for _, a := range attempts {
		s.tally.target(a)
	}
	sent := 0 // calls that were not rejected
	var limits [3]limits
	for _, c := range calls {
		i := index(c.Provider)
		l := &limits[i]
		if c.Outcome != resilience.OutcomeRejected {
			sent++
			if l.calls++; l.calls > 1 {
				fail("%s was tried twice", c.Provider)
			}
		}
		for _, a := range c.Attempts {
			if a.Status > 0 {
				l.least++
			}
			if a.Sent {
				l.most++
			}
		}
		s.tally.call(c)
		if c.Outcome == resilience.OutcomeRejected && len(c.Attempts) > 0 {
			fail("%s rejected and sent", c.Provider)
		}
		// An admission lies between the call's start and its first attempt.
		if len(c.Attempts) > 0 && s.providers[i].open.covered(c.Start, c.Attempts[0].Start) {
			fail("%s was sent a call while its breaker was open", c.Provider)
		}
	}
	if n := tried(attempts); n != sent {
		fail("%d targets were tried, %d calls recorded", n, sent)
	}
	reads := s.book.end(p.id, limits)
	for i := range reads {
		if read := len(reads[i]); read < limits[i].least || read > limits[i].most {
			fail("%s read %d requests, its attempts say %d to %d", names[i], read, limits[i].least, limits[i].most)
		}
	}
	for i := range calls {
		s.heldKeys(p.model, &calls[i], reads[index(calls[i].Provider)], fail)
	}
}

func index(provider string) int {
	for i, n := range names {
		if n == provider {
			return i
		}
	}
	return 0
}

// describe is what is known of the call's targets.
func describe(attempts []failover.Attempt, calls []resilience.Call) string {
	var b strings.Builder
	for _, a := range attempts {
		fmt.Fprintf(&b, "\n    %s: status %d, skipped %t, %s", a.Target, a.Status, a.Skipped, a.Reason)
	}
	for _, c := range calls {
		fmt.Fprintf(&b, "\n    call of %s: %s %s, %v", c.Provider, c.Outcome, c.Reason, c.Err)
		for _, a := range c.Attempts {
			fmt.Fprintf(&b, "\n      attempt %d: status %d, sent %t, %v, %v", a.Number, a.Status, a.Sent, a.Elapsed, a.Err)
		}
	}
	return b.String()
}
