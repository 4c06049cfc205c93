package resilience

import "context"

// Looks returns how often the request of the call that ctx belongs to was
// looked at, by whatever stood above.
func Looks(ctx context.Context) int {
	if c := callOf(ctx); c != nil && c.reading.looks > 0 {
		return c.reading.looks
	}
	if rd := readingOf(ctx); rd != nil {
		return rd.looks
	}
	return 0
}
