package retry

import "time"

// Backoff draws the wait before retry n under p, which is valid.
func Backoff(p Policy, n int) time.Duration {
	s := p.settings()
	return s.backoff(n)
}

// Obey draws the wait for a wish under p, with room until the deadline.
func Obey(p Policy, wish, room time.Duration) time.Duration {
	s := p.settings()
	return s.obey(wish, room)
}

// DropInvalidKey is what a call sends of its header.
var DropInvalidKey = dropInvalidKey
