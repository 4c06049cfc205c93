package wire

import (
	"time"

	"github.com/surefoot-go/surefoot/internal/layer"
)

// maxWishes bounds the waits that are kept of one document.
const maxWishes = 4

// wishes is what the members of a document name as waits, as it stands there.
type wishes struct {
	named []string
	// OpenRouter sends the upstream's header along in the body.
	reset, remaining string
}

// field takes a member, in whatever form it is: what is no wait is found out
// later.
func (w *wishes) field(says slot, v []byte) {
	switch {
	case says == aReset:
		first(&w.reset, v)
	case says == aRemaining:
		first(&w.remaining, v)
	case len(w.named) < maxWishes:
		w.named = append(w.named, string(v))
	}
}

// limit is what the document says of a limit.
func (p *problem) limit(now time.Time) Limit {
	l := Limit{Kind: p.limitKind()}
	for _, v := range p.wishes.named {
		if d, _ := layer.ParseReset(v, now); l.Wait == 0 {
			l.wish(d, SourceBody)
		}
	}
	if l.Wait == 0 {
		l.wish(proseWait(p.message), SourceMessage)
	}
	if w := &p.wishes; l.Wait == 0 && w.reset != "" && (w.remaining == "" || isZero(w.remaining)) {
		reset := resetOf("", []string{w.reset}, now)
		l.Wait, l.Source = reset.Wait, reset.Source
		if l.Kind == "" && reset.Kind == LimitQuota {
			l.Kind = LimitQuota
		}
	}
	return l
}

// textLimit is what a body that is plain text says of a limit.
func textLimit(b []byte) Limit {
	if len(b) == 0 || b[0] == '<' {
		return Limit{}
	}
	message := string(b[:min(len(b), maxToken)])
	l := Limit{Kind: proseKind(message)}
	l.wish(proseWait(message), SourceMessage)
	return l
}

// limitKind returns the kind of limit that the document tells of, "" if it does
// not say.
func (p *problem) limitKind() LimitKind {
	prose := proseKind(p.message)
	if prose == LimitNeverFits {
		return prose
	}
	kind := p.wordKind()
	switch {
	case kind == LimitBilling:
	case p.daily:
		return LimitQuota
	case kind == LimitQuota && prose == LimitRate, kind == "": // Cerebras has a quota of a minute
		return prose
	}
	return kind
}

// wordKind returns the kind of limit that the document's words say, "" for none
// and for a plain rate limit, of which the message may know more.
func (p *problem) wordKind() (kind LimitKind) {
	for s := range p.labels() {
		switch k := p.meaning(s).limit; {
		case k == LimitBilling:
			return k
		case k == LimitQuota, kind == "" && k != LimitRate:
			kind = k
		}
	}
	return kind
}

// quota reports whether the document's words tell of a quota or billing limit,
// for which waiting does not help.
func (p *problem) quota() bool {
	switch p.wordKind() {
	case LimitBilling:
		return true
	case LimitQuota:
		return p.limitKind() == LimitQuota
	}
	return p.daily
}
