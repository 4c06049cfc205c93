package main

import "time"

// times are the waits of one run: of the faults, of the libraries' settings,
// and of the caller. Both sets are the same story at two speeds.
type times struct {
	retryAfter time.Duration // what a 429 asks for: whole seconds, as not every client reads others
	firstToken time.Duration // how late a slow first token is
	outage     time.Duration // how long the primary is down
	patience   time.Duration // how long a caller waits for one call: the deadline of its context

	backoff    time.Duration // first wait of every library that can be told
	maxBackoff time.Duration // longest wait of its own
	open       time.Duration // how long a breaker stays open
	header     time.Duration // response header timeout: openai-go's and surefoot's default
	idle       time.Duration // surefoot's default idle timeout

	// Limits that the last row sets.
	firstEvent time.Duration
	attempt    time.Duration
	shortIdle  time.Duration
	call       time.Duration
}

// full has the defaults that the libraries document.
var full = times{
	retryAfter: 5 * time.Second,
	firstToken: 20 * time.Second,
	outage:     time.Minute,
	patience:   12 * time.Minute,

	backoff:    time.Second,
	maxBackoff: 30 * time.Second,
	open:       30 * time.Second,
	header:     10 * time.Minute,
	idle:       5 * time.Minute,

	firstEvent: 10 * time.Second,
	attempt:    15 * time.Second,
	shortIdle:  10 * time.Second,
	call:       time.Minute,
}

// short keeps the proportions of backoff, breaker and outage at 20 times the
// speed. A Retry-After cannot be under a second; the waits of minutes are cut
// to seconds; and the limits of the last row are long enough for a machine
// that has something else to do.
var short = times{
	retryAfter: time.Second,
	firstToken: 3 * time.Second,
	outage:     full.outage / 20,
	patience:   8 * time.Second,

	backoff:    full.backoff / 20,
	maxBackoff: full.maxBackoff / 20,
	open:       full.open / 20,
	header:     3 * time.Second,
	idle:       1500 * time.Millisecond,

	firstEvent: 1500 * time.Millisecond,
	attempt:    2 * time.Second,
	shortIdle:  1500 * time.Millisecond,
	call:       5 * time.Second,
}
