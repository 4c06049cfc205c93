package wire

import (
	"net/http"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// longWindow is the longest reset of a limit that counts as one of minutes: what
// is used up for longer is a quota, whatever its name (Groq's requests are those
// of a day).
const longWindow = time.Hour

// readResets looks for the dimensions of a rate limit of which nothing remains
// and returns the latest reset. A header has them as X-Ratelimit-Remaining-Tokens
// and X-Ratelimit-Reset-Tokens, or with the dimension in another place. Anthropic's
// windows of a plan say "rejected" instead of what remains, and some gateways send
// a lone X-RateLimit-Reset; with good set, in the header of a good answer, neither
// counts.
func readResets(h http.Header, now time.Time, good bool) (l Limit) {
	for name, values := range h {
		// Most names are told apart by these few bytes.
		if len(values) == 0 || !strings.Contains(name, "imit") {
			continue
		}
		if reset, ok := spent(h, name, values[0], good); ok {
			l.later(resetOf(name, h[reset], now))
		}
	}
	return l
}

// spent returns the name of the field that says when the dimension resets that
// a field has for used up.
func spent(h http.Header, name, value string, good bool) (reset string, ok bool) {
	switch {
	case strings.Contains(name, "Remaining"):
		if !isZero(value) {
			return "", false
		}
		return strings.Replace(name, "Remaining", "Reset", 1), true
	case good:
	case strings.HasSuffix(name, "-Status"):
		// Whether a plan may go beyond itself, too, is told by a window of this
		// kind. It is rejected where nobody bought that.
		if value != "rejected" || strings.Contains(name, "Overage") {
			return "", false
		}
		return strings.TrimSuffix(name, "Status") + "Reset", true
	case loneReset(name):
		_, paired := h[strings.TrimSuffix(name, "Reset")+"Remaining"]
		return name, !paired
	}
	return "", false
}

// loneReset knows the reset of a limit with one dimension.
func loneReset(name string) bool {
	return name == "X-Ratelimit-Reset" || name == "X-Rate-Limit-Reset" || name == "Ratelimit-Reset"
}

// isZero reports whether v is the number 0.
func isZero(v string) bool {
	v = strings.TrimSpace(v)
	return v != "" && strings.Trim(v, "0") == "" || v == "0.0"
}

// resetOf is the limit of one dimension, named by one of its fields.
func resetOf(name string, values []string, now time.Time) (l Limit) {
	for _, v := range values {
		if d, ok := layer.ParseReset(v, now); ok && d > l.Wait {
			l.wish(d, SourceReset)
		}
	}
	if l.Wait == 0 && len(values) == 0 && strings.HasSuffix(name, "-Minute") {
		// Mistral counts by the minutes of the clock and names no reset.
		l.wish(now.Truncate(time.Minute).Add(time.Minute).Sub(now), SourceReset)
	}
	l.Kind = LimitRate
	if l.Wait > longWindow || longDimension(name) {
		l.Kind = LimitQuota
	}
	return l
}

func longDimension(name string) bool {
	for _, w := range [...]string{"Day", "Week", "Month", "Unified"} {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// later keeps the limit that holds longer; of two that hold as long, whatever
// the order in which they come, the quota.
func (l *Limit) later(o Limit) {
	if o.Wait > l.Wait || o.Wait == l.Wait && (l.Kind == "" || o.Kind == LimitQuota) {
		*l = o
	}
}
