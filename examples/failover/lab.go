package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// lab is what one story plays with: providers on loopback, a stack for each,
// a chain over them, and who was asked how often.
type lab struct {
	ctx    context.Context
	out    io.Writer
	ups    map[string]*upstreamtest.Upstream
	stacks map[string]*resilience.Transport
	client *http.Client
	calls  int
	wrong  int

	mu    sync.Mutex
	tries map[string]int // guarded by mu; of the call under way, by target
}

func newLab(ctx context.Context, out io.Writer) *lab {
	return &lab{
		ctx: ctx, out: out, tries: make(map[string]int),
		ups: make(map[string]*upstreamtest.Upstream), stacks: make(map[string]*resilience.Transport),
	}
}

func (l *lab) close() {
	for name, up := range l.ups {
		l.stacks[name].CloseIdleConnections()
		up.Close()
	}
}

// provider starts one, with the stack that all its models share.
func (l *lab) provider(name string, p resilience.Policy) (*upstreamtest.Upstream, error) {
	stack, err := resilience.Builder{OnCall: l.onCall, OnStateChange: l.onStateChange}.Build(name, p)
	if err != nil {
		return nil, err
	}
	up := upstreamtest.New()
	up.Default(upstreamtest.OK("this is " + name))
	l.stacks[name], l.ups[name] = stack, up
	return up, nil
}

// onCall counts the attempts that a target's stack made, retries included.
func (l *lab) onCall(_ context.Context, c resilience.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries[c.Provider+"/"+c.Model] += len(c.Attempts)
}

func (l *lab) onStateChange(provider, key string, from, to breaker.State) {
	fmt.Fprintf(l.out, "      (breaker of %s: %v → %v)\n", strings.TrimSuffix(provider+"/"+key, "/"), from, to)
}

// chain puts the targets, provider/model each, in this order.
func (l *lab) chain(names ...string) error {
	var targets []failover.Target
	for _, name := range names {
		provider, model, _ := strings.Cut(name, "/")
		targets = append(targets, failover.Target{
			Name: name, Provider: provider, Model: model,
			BaseURL:   l.ups[provider].URL + "/v1",
			Header:    http.Header{"Authorization": {"Bearer key-of-" + provider}},
			Transport: l.stacks[provider],
		})
	}
	c, err := failover.NewChain(failover.DefaultPolicy(), targets...)
	if err != nil {
		return err
	}
	l.client = c.Client()
	l.client.Timeout = 5 * time.Second
	return nil
}

// expectation is what one target's line in the trace has to be.
type expectation struct {
	target string
	reason string // as failover.Attempt has it: "" for a success
	tries  int    // 0: passed over
}

func answered(target string, tries int) expectation { return expectation{target, "", tries} }

func failed(target, reason string, tries int) expectation {
	return expectation{target, reason, tries}
}

func passedOver(target string) expectation {
	return expectation{target, failover.ReasonCircuitOpen, 0}
}

func (e expectation) String() string {
	switch {
	case e.tries == 0:
		return fmt.Sprintf("%s passed over (%s)", e.target, e.reason)
	case e.reason == "":
		return fmt.Sprintf("%s answered (tries: %d)", e.target, e.tries)
	}
	return fmt.Sprintf("%s failed with %s (tries: %d)", e.target, e.reason, e.tries)
}

// answer is what a caller has in hand.
type answer struct {
	status   int
	text     string
	attempts []failover.Attempt
	backup   bool
	took     time.Duration
}

// ask makes one call, prints its trace and compares it with what should be.
func (l *lab) ask(why string, want ...expectation) (answer, error) {
	l.calls++
	l.mu.Lock()
	clear(l.tries)
	l.mu.Unlock()
	fmt.Fprintf(l.out, "   call %d: %s\n", l.calls, why)

	a, err := l.post()
	if err != nil {
		return a, err
	}
	got := l.seen(a.attempts)
	l.print(a.attempts, got)
	backup := ""
	if a.backup {
		backup = ", a backup's"
	}
	fmt.Fprintf(l.out, "      → %d %q after %v%s\n", a.status, a.text, a.took.Round(time.Millisecond), backup)

	l.check(a.status == http.StatusOK && a.text != "", "the caller got no answer")
	l.check(slices.Equal(got, want), "the way was %v, not %v", got, want)
	l.check(a.backup == (len(want) > 1), "FromBackup says %t", a.backup)
	return a, nil
}

// post asks for a model as any client does. Which one answers, and where, is
// the chain's business.
func (l *lab) post() (a answer, err error) {
	const body = `{"model":"any","messages":[{"role":"user","content":"hello"}]}`
	req, err := http.NewRequestWithContext(l.ctx, http.MethodPost, "http://models.example/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := l.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	data, err := io.ReadAll(resp.Body)       // with its end the call is over for OnCall, too
	if err != nil {
		return answer{}, err
	}
	var said struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return answer{}, err
	}
	a = answer{
		status: resp.StatusCode, took: time.Since(start),
		attempts: failover.AttemptsOf(resp), backup: failover.FromBackup(resp),
	}
	if len(said.Choices) > 0 {
		a.text = said.Choices[0].Message.Content
	}
	return a, nil
}

// seen joins a call's attempts with how often each target's stack tried.
func (l *lab) seen(attempts []failover.Attempt) []expectation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var got []expectation
	for _, a := range attempts {
		e := expectation{target: a.Target, reason: a.Reason}
		if !a.Skipped {
			e.tries = l.tries[a.Target]
		}
		got = append(got, e)
	}
	return got
}

func (l *lab) print(attempts []failover.Attempt, got []expectation) {
	t := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	for i, a := range attempts {
		switch {
		case a.Skipped:
			fmt.Fprintf(t, "      %s\tskipped\t%s\t0×\t\n", a.Target, a.Reason)
		case a.Reason == "":
			fmt.Fprintf(t, "      %s\tanswered\t%d\t%d×\t%v\n", a.Target, a.Status, got[i].tries, a.Elapsed.Round(time.Millisecond))
		default:
			fmt.Fprintf(t, "      %s\tfailed\t%s\t%d×\t%v\n", a.Target, a.Reason, got[i].tries, a.Elapsed.Round(time.Millisecond))
		}
	}
	_ = t.Flush() // to where everything else is printed
}

// check says what is wrong, if it is.
func (l *lab) check(ok bool, format string, args ...any) {
	if ok {
		return
	}
	l.wrong++
	fmt.Fprintf(l.out, "      WRONG: "+format+"\n", args...)
}

// breaker is how one stands now: "provider", or "provider/model".
func (l *lab) breaker(name string) breaker.Snapshot {
	provider, key, _ := strings.Cut(name, "/")
	for _, s := range l.stacks[provider].Breakers() {
		if s.Key == key {
			return s
		}
	}
	return breaker.Snapshot{} // closed: no call has made it
}

// waitOpen lets the open time of a breaker pass.
func (l *lab) waitOpen(name string) error {
	wait := l.breaker(name).RetryAfter
	fmt.Fprintf(l.out, "   … %v pass\n", wait.Round(10*time.Millisecond))
	select {
	case <-l.ctx.Done():
		return l.ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
