package streamguard

import (
	"errors"
	"io"
	"net/http"

	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// fate says what the end of the upstream's body means: nil for a stream that
// had ended; the caller's own reason; or an *IncompleteError.
func (h *holder) fate(err error) error {
	if f := h.st.Failure(); f != nil {
		return h.inBand(f)
	}
	if h.complete() || err == io.EOF && h.st.CompleteAtEOF() {
		return nil
	}
	// A read that the caller cancelled can end as a clean EOF.
	if done := callerDone(h.req, err); done != nil {
		return done
	}
	var timeout *ending.TimeoutError
	switch {
	case err == io.EOF:
		return h.incomplete(ReasonClosed, http.StatusBadGateway, io.ErrUnexpectedEOF)
	case errors.Is(err, errMalformed):
		return h.incomplete(ReasonMalformed, http.StatusBadGateway, err)
	case !errors.As(err, &timeout):
		return h.incomplete(ReasonTransport, http.StatusBadGateway, err)
	case timeout.What == limitEventTimeout:
		return h.incomplete(ReasonEventTimeout, http.StatusGatewayTimeout, err)
	case timeout.What == limitMinRate:
		return h.incomplete(ReasonMinRate, http.StatusGatewayTimeout, err)
	}
	return h.incomplete(ReasonIdleTimeout, http.StatusGatewayTimeout, err)
}

// inBand is the error of a stream that reported the failure f itself. Clients
// exist that read past its event and take a clean end for a whole answer.
func (h *holder) inBand(f *wire.Failure) *IncompleteError {
	return h.incomplete(ReasonInBandError, f.Status, io.ErrUnexpectedEOF)
}

func (h *holder) incomplete(reason string, status int, cause error) *IncompleteError {
	e := &IncompleteError{
		Provider: h.g.Provider, Format: h.format.String(), Events: h.st.Events(),
		Reason: reason, Status: status, Err: cause, Usage: h.usage(),
	}
	if at, ok := h.st.Resume(); ok {
		e.Resume = &at
	}
	return e
}

// messages are what an added event says.
var messages = map[string]string{
	ReasonClosed:       "the upstream ended the stream before its end",
	ReasonTransport:    "the connection to the upstream broke in the middle of the stream",
	ReasonIdleTimeout:  "the upstream fell silent in the middle of the stream",
	ReasonEventTimeout: "the upstream fell silent in the middle of the stream",
	ReasonMinRate:      "the upstream sent the stream too slowly",
	ReasonMalformed:    "the upstream sent a stream event that does not parse",
}

// add appends the event that tells of e, if the format has one.
func (h *holder) add(e *IncompleteError) bool {
	told := h.st.Abort(e.Status, "stream_incomplete", messages[e.Reason])
	if told == nil {
		return false
	}
	c := h.chunk()
	c.add(h.unclosed)
	c.add(told)
	return true
}
