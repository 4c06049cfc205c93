package main

import (
	"net/http"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// site is a primary provider and its backup, on loopback, for one contender
// and one fault alone: no connection, breaker or count is shared.
type site struct {
	primary, backup *upstreamtest.Upstream
	times           times
}

func newSite(f *fault, t times) *site {
	s := &site{primary: upstreamtest.New(), backup: upstreamtest.New(), times: t}
	s.primary.Default(f.primary(t)...)
	s.backup.Default(upstreamtest.OK(words...).Usage(backupIn, backupOut))
	if f.refuses != nil {
		s.backup.When(f.refuses, refusal("prefill_not_supported", "the last message must not be the assistant's"))
	}
	return s
}

func (s *site) close() {
	s.primary.Close()
	s.backup.Close()
}

// base is a transport with the response header timeout that openai-go's own
// client and surefoot's default base have.
func (s *site) base() *http.Transport {
	t := bare()
	t.ResponseHeaderTimeout = s.times.header
	return t
}

// bare is http.DefaultTransport, with connections of its own.
func bare() *http.Transport { return http.DefaultTransport.(*http.Transport).Clone() }
