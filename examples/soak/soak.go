package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// names are the providers, in the order of the chains.
var names = [3]string{"first", "second", "third"}

// soak is one run.
type soak struct {
	options
	providers [3]*provider
	openAI    *failover.Chain // chat completions and responses
	anthropic *failover.Chain // messages: its SDKs' base URLs have no version
	tally     *tally
	book      *book
	lags      lags
	took      time.Duration

	mu     sync.Mutex
	checks []dueCheck // guarded by mu: see later
}

func (s *soak) start() error {
	var openAI, anthropic [3]failover.Target
	for i, name := range names {
		p, err := s.newProvider(i, name)
		if err != nil {
			return err
		}
		s.providers[i] = p
		t := &top{p.tr, s, p}
		openAI[i] = failover.Target{Name: name, Provider: name, BaseURL: p.up.URL + "/v1", Transport: t}
		anthropic[slices.Index(orderOf(true), i)] = failover.Target{Name: name, Provider: name, BaseURL: p.up.URL, Transport: t}
	}
	policy := failover.DefaultPolicy()
	policy.Patience = chainPatience
	var err error
	if s.openAI, err = failover.NewChain(policy, openAI[:]...); err != nil {
		return err
	}
	s.anthropic, err = failover.NewChain(policy, anthropic[:]...)
	return err
}

// orderOf is the order of a chain: in that of messages the provider with places
// comes first, so that a call that waits for one could go elsewhere.
func orderOf(anth bool) []int {
	if anth {
		return []int{2, 0, 1}
	}
	return []int{0, 1, 2}
}

// atOnce is how many calls at once an upstream takes. The second refuses the
// others; the stacks of the first and third send no more.
var atOnce = [3]int{20, 40, 8}

// work lets the callers call until ctx ends; calls under way end by themselves.
func (s *soak) work(ctx context.Context) {
	var weather, callers sync.WaitGroup
	watching := make(chan struct{})
	weather.Go(func() { s.lags.watch(ctx, watching) })
	<-watching                          // before the callers come
	s.lags.add(time.Now(), time.Second) // they come all at once
	weather.Go(func() { s.weather(ctx) })
	weather.Go(func() { s.limitWeather(ctx) })
	for w := range s.callers {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s.call(w, n)
			}
		})
	}
	callers.Wait()
	weather.Wait()
}

// weather brings storms, in which a provider answers nothing but 500, and
// outages, in which the last but one refuses connections.
func (s *soak) weather(ctx context.Context) {
	rng := rand.New(rand.NewPCG(s.seed, 1<<63))
	for pause(ctx, time.Duration(100+rng.IntN(700))*time.Millisecond) {
		p := s.providers[rng.IntN(len(s.providers))]
		length := time.Duration(20+rng.IntN(300)) * time.Millisecond
		if rng.IntN(3) > 0 {
			p.storm.Store(true)
			s.tally.count("weather", "storms")
			pause(ctx, length)
			p.storm.Store(false)
			continue
		}
		s.tally.count("weather", "outages")
		p.up.Stop()
		pause(ctx, length)
		for try := 0; ; try++ { // the port may be somebody's for a moment
			err := p.up.Start()
			if err == nil {
				break
			}
			if try == 100 {
				s.tally.violation("soak: %s does not come back: %v", p.name, err)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// pause reports whether ctx has not ended before d was over.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop ends everything and checks what is left on the way.
func (s *soak) stop() {
	s.runChecks(true)
	time.Sleep(maxHold) // since the last call ended
	s.everyPlace()
	for _, p := range s.providers {
		if left := p.tr.Holds(); len(left) > 0 {
			s.tally.violation("holds: %s: left are %v", p.name, left)
		}
		s.tally.add("limits", "most at once, "+p.name, p.places.peak())
		if !eventually(func() bool { return p.tr.InUse() == 0 }) {
			s.tally.violation("places: %s: %d are not given back", p.name, p.tr.InUse())
		}
		p.tr.CloseIdleConnections()
		if !eventually(func() bool { return p.conns.Load() == 0 }) {
			s.tally.violation("connections: %s: %d are left", p.name, p.conns.Load())
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := p.up.Wait(ctx, func() bool { return p.up.InFlight() == 0 }); err != nil {
			s.tally.violation("connections: %s: %d exchanges are left: %s", p.name, p.up.InFlight(), unended(p.up))
		}
		cancel()
		p.up.Close()
	}
}

// everyPlace checks that as many calls as a stack has places are at its upstream
// at once, and that each place is given back.
func (s *soak) everyPlace() {
	for i, p := range s.providers {
		most := policy(i).Limits.MaxConcurrent
		if most == 0 {
			continue
		}
		p.tr.Reset("")
		gate := make(chan struct{})
		p.up.Model("last", upstreamtest.OK("ok").Hold(gate))
		var calls sync.WaitGroup
		for k := range most {
			calls.Go(func() { s.last(p, fmt.Sprintf("last-%d", k)) })
		}
		if !eventually(func() bool { return p.places.now() == most }) {
			s.tally.violation("places: %s: of %d only %d can be had", p.name, most, p.places.now())
		}
		close(gate)
		calls.Wait()
	}
}

// last is a call that is answered once all of them are there.
func (s *soak) last(p *provider, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	s.book.begin(id)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.up.URL+formats[0].path, strings.NewReader(fmt.Sprintf(formats[0].ask, "last", false)))
	if err != nil {
		return
	}
	req.Header.Set(idHeader, id)
	if resp, err := p.tr.RoundTrip(req); err == nil {
		_ = resp.Body.Close() // its place is what counts
	}
}

// unended names the calls whose exchanges have not ended.
func unended(up *upstreamtest.Upstream) string {
	var ids []string
	for _, r := range up.Requests() {
		if r.Ended.IsZero() {
			ids = append(ids, r.Header.Get(idHeader))
		}
	}
	return strings.Join(ids, " ")
}

// patience is for what must happen, on a busy machine.
const patience = 20 * time.Second

func eventually(cond func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}

func id(worker, n int) string { return fmt.Sprintf("w%d-%d", worker, n) }
