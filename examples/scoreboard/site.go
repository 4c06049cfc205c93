package main

import (
	"net/http"
	"time"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// site is a primary provider and its backup for one contender alone, through
// all faults.
type site struct {
	primary, backup *upstreamtest.Upstream
	memory          bool // without sockets, for a fake clock
}

func newSite(memory bool) *site {
	if memory {
		return &site{upstreamtest.NewInMemory("primary.test"), upstreamtest.NewInMemory("backup.test"), true}
	}
	return &site{upstreamtest.New(), upstreamtest.New(), false}
}

// prepare scripts both for a fault.
func (s *site) prepare(f *fault, how form) {
	steps := []upstreamtest.Step{f.primary(how)}
	if f.second != nil {
		steps = append(steps, *f.second)
	}
	s.primary.Default(steps...)
	s.backup.Default(upstreamtest.OK(words...).Usage(backupIn, backupOut))
	if f.refuses != nil {
		s.backup.When(f.refuses, refusal("prefill_not_supported", "the last message must not be the assistant's"))
	}
}

func (s *site) close() {
	s.primary.Close()
	s.backup.Close()
}

// base is the transport that every contender is given: http.DefaultTransport
// with connections of its own, and the response header timeout of surefoot's
// default base, which no call here lives to see.
func (s *site) base() http.RoundTripper {
	if s.memory {
		return upstreamtest.Switch(s.primary, s.backup)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 10 * time.Minute
	return t
}
