package failover

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// Defaults of [Affinity].
const (
	DefaultAffinityTTL = time.Hour
	DefaultAffinityMax = 10_000
)

// Affinity keeps calls that belong together with the target that answered the
// last of them: a provider's prompt cache is worth nothing to another provider.
// That target is asked first, wherever the strategy would begin, unless it is to
// be passed over (open, held, disabled, unavailable, bound elsewhere); the others
// follow as listed. A success of another target pins that one. A fault of its
// upstream ends a pin; the caller's leaving, a request that cannot be sent and an
// answer that would not make the chain move on (a validation error) do not. Only a
// hash of a key is kept. The zero Affinity is off.
type Affinity struct {
	// Key says which calls belong together. Nil is off.
	Key AffinityKey
	// TTL is how long a pin lasts after the last answer. 0 is an hour.
	TTL time.Duration
	// Max is how many keys are remembered; the one that was used least recently
	// makes room. 0 is 10,000.
	Max int
}

// An AffinityKey returns what calls that belong together have in common, "" for a
// call that belongs to none. ctx is the call's context. h is its header and body
// its whole body, which must not be changed; both are nil for [Call], and the body
// also where it is not in memory. It runs once for each chain that a call of a model
// meets, by several goroutines at the same time; one that panics counts as "".
type AffinityKey func(ctx context.Context, h http.Header, body []byte) string

// AffinityByCacheKey goes by the request's prompt_cache_key.
func AffinityByCacheKey(_ context.Context, _ http.Header, body []byte) string {
	return wire.CacheKey(body)
}

// AffinityByUser goes by whom the request is made for: metadata.user_id,
// safety_identifier or user.
func AffinityByUser(_ context.Context, _ http.Header, body []byte) string { return wire.UserID(body) }

// AffinityByPrompt goes by how the conversation begins: a hash of its
// instructions and of the messages up to the first that is not the system's. All
// turns of a conversation have the same.
func AffinityByPrompt(_ context.Context, _ http.Header, body []byte) string {
	return wire.PromptStart(body)
}

// AffinityByHeader goes by a header of the request.
func AffinityByHeader(name string) AffinityKey {
	name = http.CanonicalHeaderKey(name)
	return func(_ context.Context, h http.Header, _ []byte) string { return anySpelling(h, name) }
}

type affinityKey struct{}

// WithAffinity sets the key of the calls under ctx, whatever [Affinity.Key] would
// say: for [Call], whose functions' requests a chain does not see. It has no
// effect on a chain whose affinity is off. "" leaves the call to Key.
func WithAffinity(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, affinityKey{}, key)
}

// ParseAffinityKey returns the key function that a configuration names:
// prompt_cache_key, user_id, prompt, "header:" and a header's name, or off, which
// is nil.
func ParseAffinityKey(s string) (AffinityKey, error) {
	switch s {
	case "off":
		return nil, nil
	case "prompt_cache_key":
		return AffinityByCacheKey, nil
	case "user_id":
		return AffinityByUser, nil
	case "prompt":
		return AffinityByPrompt, nil
	}
	if name, ok := strings.CutPrefix(s, "header:"); ok && validHeaderName(name) {
		return AffinityByHeader(name), nil
	}
	return nil, fmt.Errorf("want prompt_cache_key, user_id, prompt, header:NAME or off")
}

// validHeaderName reports whether s is a token by RFC 9110 §5.6.2.
func validHeaderName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	}) < 0
}

// of returns the key of a call, "" for none.
func (a *Affinity) of(ctx context.Context, h http.Header, body []byte) (key string) {
	if a.Key == nil {
		return ""
	}
	if own, _ := ctx.Value(affinityKey{}).(string); own != "" {
		return own
	}
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	return a.Key(ctx, h, body)
}

// token is what a vendor's header says in place of a key: the same in every
// replica, and not the key itself, which may name a user.
func token(key string) string {
	sum := sha256.Sum256([]byte("surefoot affinity\x00" + key))
	return hex.EncodeToString(sum[:16])
}

// pins remembers which target answered a key last. Memory is bounded by the
// policy's Max; what is over is forgotten when it is met, or when room is needed.
type pins struct {
	ttl  time.Duration
	max  int
	seed maphash.Seed

	mu   sync.Mutex
	at   map[uint64]*list.Element // guarded by mu
	used *list.List               // guarded by mu: of *pin, the one used last in front
}

type pin struct {
	key    uint64
	target int
	until  time.Time
}

func newPins(a Affinity) *pins {
	p := &pins{ttl: a.TTL, max: a.Max, seed: maphash.MakeSeed(), at: make(map[uint64]*list.Element), used: list.New()}
	if p.ttl == 0 {
		p.ttl = DefaultAffinityTTL
	}
	if p.max == 0 {
		p.max = DefaultAffinityMax
	}
	return p
}

// find returns the index of the target that a key is pinned to, -1 for none.
func (p *pins) find(key uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.at[key]
	if e == nil {
		return -1
	}
	v := e.Value.(*pin)
	if !time.Now().Before(v.until) {
		p.remove(e)
		return -1
	}
	p.used.MoveToFront(e)
	return v.target
}

// set pins a key to a target from now on.
func (p *pins) set(key uint64, target int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := time.Now().Add(p.ttl)
	if e := p.at[key]; e != nil {
		v := e.Value.(*pin)
		v.target, v.until = target, until
		p.used.MoveToFront(e)
		return
	}
	if len(p.at) >= p.max {
		p.remove(p.used.Back())
	}
	p.at[key] = p.used.PushFront(&pin{key, target, until})
}

// drop ends the pin of a key, if it is to that target.
func (p *pins) drop(key uint64, target int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.at[key]; e != nil && e.Value.(*pin).target == target {
		p.remove(e)
	}
}

// remove forgets e. mu is held.
func (p *pins) remove(e *list.Element) {
	delete(p.at, e.Value.(*pin).key)
	p.used.Remove(e)
}

// An attachment is a pin that an answer has set: it ends where the answer's body
// breaks off.
type attachment struct {
	pins   *pins
	hash   uint64
	target int
}

// attach finds out which key the call has in this chain. What runs no model has no
// prompt cache to be near, and creates what bound requests name later: it goes where
// those do.
func (w *walk) attach() {
	if p := w.chain.pins; p != nil && !w.plain {
		if w.key = w.runner.affinity(w); w.key != "" {
			w.hash = maphash.String(p.seed, w.key)
		}
	}
}

// attached returns the target that the call's key is pinned to, if it could be
// tried now; -1 for none.
func (w *walk) attached() int {
	if w.key == "" {
		return -1
	}
	i := w.chain.pins.find(w.hash)
	if i < 0 {
		return -1
	}
	if reason, _ := w.skip(w.chain.targets[i], false); reason != "" {
		return -1
	}
	return i
}

// settle takes down what an answer of a target means for the pin of the call's
// key. faulty says that the chain moves on from it, or would.
func (w *walk) settle(t *target, r *result, faulty bool) {
	if w.key == "" || r.reason == ReasonRequestError {
		return
	}
	if r.ok {
		w.chain.pins.set(w.hash, t.index)
		w.call.attached = append(w.call.attached, attachment{w.chain.pins, w.hash, t.index})
	} else if faulty {
		w.chain.pins.drop(w.hash, t.index)
	}
}
