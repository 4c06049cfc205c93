package main

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// plan is what one call does and what it meets, drawn from its seed.
type plan struct {
	id      string
	model   string // each caller has its own script at each provider, but for the shared ones
	format  *format
	stream  bool
	cancel  time.Duration // the caller cancels; 0: does not
	limit   time.Duration // the caller's deadline; 0: none
	leave   int           // the body is closed after so many bytes; -1: is not
	slow    time.Duration // a pause between reads
	scripts [3][]ut.Step
	faults  [3][]string // their names
}

// newPlan is the same for the same seed, worker and number.
func newPlan(seed uint64, worker, n int) *plan {
	rng := rand.New(rand.NewPCG(seed, uint64(worker)<<32|uint64(n)))
	p := &plan{id: id(worker, n), format: &formats[rng.IntN(len(formats))], stream: rng.IntN(3) > 0, leave: -1}
	switch rng.IntN(16) {
	case 0:
		p.cancel = time.Duration(1+rng.IntN(80)) * time.Millisecond
	case 1:
		p.limit = time.Duration(5+rng.IntN(300)) * time.Millisecond
	case 2:
		p.leave = rng.IntN(2000)
	case 3:
		p.slow = time.Duration(1+rng.IntN(3)) * time.Millisecond
	}
	if rng.IntN(3) == 0 {
		p.model = shared[rng.IntN(len(shared))]
		return p
	}
	p.model = fmt.Sprintf("w%d", worker)
	for i := range p.scripts {
		for k := range 3 {
			good := ut.OK(p.texts(rng, i, k)...)
			name, step := "none", good
			if rng.IntN(100) < [...]int{55, 35, 20}[i] {
				f := faults[rng.IntN(len(faults))]
				for ofStreams[f.name] && !p.stream {
					f = faults[rng.IntN(len(faults))]
				}
				name, step = f.name, f.make(rng, good)
			}
			p.scripts[i] = append(p.scripts[i], step)
			p.faults[i] = append(p.faults[i], name)
		}
	}
	return p
}

// order is that in which the providers are asked.
func (p *plan) order() []int { return orderOf(p.format.anth) }

// sharedScript answers for a shared model: mostly well, with waits and failures
// that name no limit.
func sharedScript(seed uint64, model string, provider int) ut.Step {
	rng := rand.New(rand.NewPCG(seed, uint64(1<<60+provider)))
	p := &plan{id: model}
	var steps []ut.Step
	for k := range 64 {
		good := ut.OK(p.texts(rng, provider, k)...).Delay(ms(rng, 60))
		switch rng.IntN(10) {
		case 0:
			good = ut.Status(pick(rng, 502, 503, 504, 524))
			if rng.IntN(2) == 0 { // two of these are more than the patience, and none is a limit
				good = ut.Status(pick(rng, 502, 504, 524)).Header("Retry-After", "0.1")
			}
		case 1:
			good = good.Every(ms(rng, 15))
		case 2:
			good = good.Delay(ms(rng, 400))
		}
		steps = append(steps, good)
	}
	return ut.Cycle(steps...)
}

// texts are the pieces of an answer that tells whether it is whole: who sent
// it, and the length and the checksum of the rest.
func (p *plan) texts(rng *rand.Rand, provider, answer int) []string {
	letters := []rune("abcdefghij klmnop\n\"\\{}:那🦀é")
	var b strings.Builder
	for range rng.IntN(400) {
		b.WriteRune(letters[rng.IntN(len(letters))])
	}
	rest := b.String()
	out := []string{fmt.Sprintf("<%s|%s|%d|%d|%08x>", p.id, names[provider], answer, len(rest), crc32.ChecksumIEEE([]byte(rest)))}
	for runes := []rune(rest); len(runes) > 0; {
		n := min(1+rng.IntN(60), len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// fault makes a good answer bad, or odd.
type fault struct {
	name string
	make func(*rand.Rand, ut.Step) ut.Step
}

// ofStreams are the faults of streams alone: a JSON body is one event, with a
// length that says where it ends.
var ofStreams = map[string]bool{
	"stall": true, "stall behind the end": true, "cut after events": true, "cut inside a line": true,
	"cut, gzip": true, "broken chunk": true, "malformed event": true, "error event": true, "pings for ever": true,
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// after is a number of events, most of them inside a short answer.
func after(rng *rand.Rand) int { return rng.IntN(8) }

func ms(rng *rand.Rand, most int) time.Duration {
	return time.Duration(rng.IntN(most)) * time.Millisecond
}

// faults are all of them.
var faults = []fault{
	{"status", func(r *rand.Rand, _ ut.Step) ut.Step {
		return ut.Status(pick(r, 400, 401, 404, 429, 500, 502, 503, 504, 520, 522, 529))
	}},
	{"retry-after", func(r *rand.Rand, _ ut.Step) ut.Step {
		return ut.Status(pick(r, 429, 503)).Header("Retry-After", pick(r, "0", "0.02", "0.1", "1", "86400", "-1", "soon", "NaN"))
	}},
	{"hidden", func(r *rand.Rand, _ ut.Step) ut.Step {
		return ut.Hidden(pick(r, shapes...), pick(r, 400, 401, 429, 500, 503, 529))
	}},
	{"page", func(*rand.Rand, ut.Step) ut.Step { return ut.HTML() }},
	{"empty", func(*rand.Rand, ut.Step) ut.Step { return ut.Empty() }},
	{"drop", func(r *rand.Rand, _ ut.Step) ut.Step { return pick(r, ut.Drop(), ut.Drop().Reset()).Delay(ms(r, 20)) }},
	{"silence", func(*rand.Rand, ut.Step) ut.Step { return ut.Silence() }},
	{"late", func(r *rand.Rand, s ut.Step) ut.Step { return s.Delay(ms(r, 200)) }},
	{"late first event", func(r *rand.Rand, s ut.Step) ut.Step { return s.FirstToken(ms(r, 200)) }},
	{"garbage for a head", func(*rand.Rand, ut.Step) ut.Step { return ut.RawConn("HTTP/1.1 2oo\r\n\r\n") }},
	{"half a head", func(*rand.Rand, ut.Step) ut.Step { return ut.RawConn("HTTP/1.1 200 OK\r\nContent-") }},
	{"cut after events", func(r *rand.Rand, s ut.Step) ut.Step { return ends(r, s.CutAfter(after(r))) }},
	{"cut inside a line", func(r *rand.Rand, s ut.Step) ut.Step { return ends(r, s.CutAfter(after(r)).InsideLine()) }},
	{"cut after bytes", func(r *rand.Rand, s ut.Step) ut.Step { return cutBytes(r, s) }},
	{"cut, close-delimited", func(r *rand.Rand, s ut.Step) ut.Step { return ends(r, s.CutBytes(r.IntN(1500)).CloseDelimited()) }},
	{"cut, gzip", func(r *rand.Rand, s ut.Step) ut.Step { return ends(r, s.CutAfter(after(r)).Gzip()) }},
	{"stall", func(r *rand.Rand, s ut.Step) ut.Step { return s.CutAfter(after(r)).Stall() }},
	{"stall behind the end", func(_ *rand.Rand, s ut.Step) ut.Step { return s.Stall() }},
	{"broken chunk", func(r *rand.Rand, s ut.Step) ut.Step { return s.CutAfter(after(r)).BadChunk() }},
	{"error event", func(r *rand.Rand, s ut.Step) ut.Step { return s.FailAfter(after(r), pick(r, 400, 429, 500, 503, 529)) }},
	{"malformed event", func(r *rand.Rand, s ut.Step) ut.Step { return s.At(r.IntN(2), ut.Malformed()) }}, // before any end mark
	{"pings for ever", func(r *rand.Rand, s ut.Step) ut.Step { return s.At(after(r), ut.Pings(40*time.Millisecond, -1)) }},
	{"short of its length", func(_ *rand.Rand, s ut.Step) ut.Step { return s.ContentLength(1 << 20) }},

	// Odd, but good.
	{"no final mark", func(_ *rand.Rand, s ut.Step) ut.Step { return s.NoDone() }},
	{"pings", func(r *rand.Rand, s ut.Step) ut.Step { return s.At(after(r), ut.Pings(ms(r, 20), 1+r.IntN(5))) }},
	{"huge event", func(r *rand.Rand, s ut.Step) ut.Step {
		return s.At(after(r), ut.Huge(pick(r, 60<<10, 70<<10, 200<<10)))
	}},
	{"line ends", func(r *rand.Rand, s ut.Step) ut.Step { return s.LineEnds(pick(r, ut.CRLF, ut.CR, ut.Mixed)) }},
	{"small writes", func(r *rand.Rand, s ut.Step) ut.Step { return s.WriteSize(1 + r.IntN(40)) }},
	{"gzip", func(_ *rand.Rand, s ut.Step) ut.Step { return s.Gzip() }},
	{"close-delimited", func(_ *rand.Rand, s ut.Step) ut.Step { return s.CloseDelimited() }},
	{"slow events", func(r *rand.Rand, s ut.Step) ut.Step { return s.Every(ms(r, 20)) }},
	{"FIN behind the end", func(_ *rand.Rand, s ut.Step) ut.Step { return s.FIN() }},
	{"reset on reuse", func(_ *rand.Rand, s ut.Step) ut.Step { return s.ResetOnReuse() }},
}

// ends lets a cut body end in one of the ways.
func ends(r *rand.Rand, s ut.Step) ut.Step {
	return pick(r, s, s.FIN(), s.Reset(), s.Stall())
}

// cutBytes cuts after a number of bytes. It does not stall behind a whole JSON
// body, which would leave the client a connection that nobody reads.
func cutBytes(r *rand.Rand, s ut.Step) ut.Step {
	if r.IntN(2) == 0 {
		return ends(r, s.CutBytes(r.IntN(150)))
	}
	return pick(r, s, s.FIN(), s.Reset()).CutBytes(r.IntN(1500))
}

// shapes are those that say in every format that the call failed: an answer
// without choices says so in chat completions alone.
var shapes = slices.DeleteFunc(ut.Shapes(), func(s ut.Shape) bool {
	return s == ut.HiddenNullChoices || s == ut.HiddenEmptyChoices || s == ut.HiddenNoChoices
})
