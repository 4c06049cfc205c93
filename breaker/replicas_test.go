package breaker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
)

// fleet is a [breaker.Peers] that lets probes go as it is told to, and counts.
type fleet struct {
	mu      sync.Mutex
	refuse  bool
	wanted  int // looks and probes that were refused
	leave   int // probes allowed and not over
	changes []string
}

func (f *fleet) Changed(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, key)
}

func (f *fleet) MayProbe(string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse {
		f.wanted++
	}
	return !f.refuse
}

func (f *fleet) Probe(key string, lease time.Duration) bool {
	if !f.MayProbe(key) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave++
	return true
}

func (f *fleet) Probed(string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave--
}

func (f *fleet) Account(word string) string { return word }
func (f *fleet) Held(string, breaker.Hold)  {}
func (f *fleet) Released(string)            {}

func (f *fleet) set(refuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

func (f *fleet) out() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leave
}

func ten() breaker.Policy {
	return breaker.Policy{Scope: breaker.ScopeModel, FailureThreshold: 2, SuccessThreshold: 2, Timeout: 10 * time.Second}
}

func joined(t *testing.T, f *fleet) *breaker.Map {
	t.Helper()
	m, err := breaker.NewMap(breaker.Config{Policy: ten(), Provider: "acme", Peers: f})
	require.NoError(t, err)
	return m
}

func admitted(t *testing.T, m *breaker.Map, key string) *breaker.Permit {
	t.Helper()
	p := new(breaker.Permit)
	require.NoError(t, m.Admit(key, p))
	return p
}

func fails(t *testing.T, m *breaker.Map, key string) {
	t.Helper()
	for range ten().FailureThreshold {
		admitted(t, m, key).Settle(breaker.Failure)
	}
}

func snapshotOf(t *testing.T, m *breaker.Map, key string) breaker.Snapshot {
	t.Helper()
	for _, s := range m.Snapshots() {
		if s.Key == key {
			return s
		}
	}
	t.Fatalf("no breaker of %q", key)
	return breaker.Snapshot{}
}

func opinion(age, rest time.Duration) breaker.Opinion { return breaker.Opinion{Age: age, Rest: rest} }

// A breaker opens by opinions only with a quorum, and for as long as a quorum has it
// open (contract 14.3).
func TestOpinionsOpenWithAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := joined(t, new(fleet))
		for _, too := range []struct {
			quorum int
			said   []breaker.Opinion
		}{
			{2, nil}, {2, []breaker.Opinion{opinion(0, time.Second)}}, {3, []breaker.Opinion{opinion(0, time.Second), opinion(0, time.Second)}},
			{2, []breaker.Opinion{opinion(0, time.Second), opinion(0, 0)}}, {0, nil}, {-1, []breaker.Opinion{opinion(0, time.Second)}},
		} {
			m.Opinions("m", too.quorum, too.said)
			assert.Nil(t, m.Peek("m"), too)
		}
		m.Opinions("m", 2, []breaker.Opinion{opinion(0, 7*time.Second), opinion(0, time.Second), opinion(0, 5*time.Second)})
		require.NotNil(t, m.Peek("m"))
		assert.Equal(t, 5*time.Second, m.Peek("m").RetryAfter, "two of them have it open for so long")
		assert.Equal(t, breaker.CausePeers, snapshotOf(t, m, "m").Cause)
		m.Opinions("m", 2, []breaker.Opinion{opinion(0, 7*time.Second), opinion(0, 6*time.Second)})
		assert.Equal(t, 6*time.Second, m.Peek("m").RetryAfter, "longer")
		m.Opinions("m", 2, []breaker.Opinion{opinion(0, 7*time.Second), opinion(0, time.Second)})
		assert.Equal(t, 6*time.Second, m.Peek("m").RetryAfter, "never shorter")
		m.Opinions("m", 1, []breaker.Opinion{opinion(0, time.Hour)})
		assert.Equal(t, 10*time.Second, m.Peek("m").RetryAfter, "never longer than its own policy's")
	})
}

// What was said before a breaker closed opens it no more, and what is said while a
// probe is under way does not end that (contract 14.3).
func TestOldOpinionsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fleet)
		m := joined(t, f)
		fails(t, m, "m")
		time.Sleep(10 * time.Second)
		probe := admitted(t, m, "m")
		m.Opinions("m", 2, []breaker.Opinion{opinion(0, 5*time.Second), opinion(0, 5*time.Second)})
		assert.Equal(t, breaker.HalfOpen, snapshotOf(t, m, "m").State)
		time.Sleep(time.Second)
		probe.Settle(breaker.Success)
		m.Opinions("m", 2, []breaker.Opinion{opinion(2*time.Second, 5*time.Second), opinion(2*time.Second, 5*time.Second)})
		assert.Equal(t, breaker.HalfOpen, snapshotOf(t, m, "m").State, "said before it began to probe")
		admitted(t, m, "m").Settle(breaker.Success)
		assert.Equal(t, breaker.CauseProbes, snapshotOf(t, m, "m").Cause)
		time.Sleep(time.Second)
		m.Opinions("m", 2, []breaker.Opinion{opinion(time.Second, 5*time.Second), opinion(2*time.Second, 5*time.Second)})
		assert.Nil(t, m.Peek("m"))
		m.Opinions("m", 2, []breaker.Opinion{opinion(time.Second-1, 5*time.Second), opinion(0, 5*time.Second)})
		assert.NotNil(t, m.Peek("m"))
		m.Reset("m")
		m.Opinions("m", 2, []breaker.Opinion{opinion(time.Second, 5*time.Second), opinion(1, 5*time.Second)})
		assert.Nil(t, m.Peek("m"), "reset")
		assert.Zero(t, f.out())
	})
}

// A half-open breaker that nobody probes goes on to be open while a quorum finds it so.
func TestFreshOpinionsKeepAHalfOpenBreakerShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := joined(t, new(fleet))
		fails(t, m, "m")
		time.Sleep(10 * time.Second)
		admitted(t, m, "m").Settle(breaker.Neutral)
		time.Sleep(time.Second)
		m.Opinions("m", 2, []breaker.Opinion{opinion(0, 5*time.Second), opinion(0, 4*time.Second)})
		s := snapshotOf(t, m, "m")
		assert.Equal(t, []any{breaker.Open, breaker.CauseFailures, 4 * time.Second}, []any{s.State, s.Cause, s.RetryAfter})
	})
}

// A peer's good probes close what opinions had opened; what failures had opened
// needs one good probe more, and a forced opening stays (contract 14.4).
func TestAPeersClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fleet)
		m := joined(t, f)
		both := []breaker.Opinion{opinion(0, 8*time.Second), opinion(0, 8*time.Second)}
		m.Opinions("borrowed", 2, both)
		fails(t, m, "own")
		m.ForceOpen("forced", 10*time.Second)
		time.Sleep(time.Second)
		for _, key := range []string{"borrowed", "own", "forced", "unknown", ""} {
			m.PeerClosed(key, time.Second)
			m.PeerClosed(key, time.Minute)
		}
		for _, key := range []string{"borrowed", "own", "forced"} {
			assert.NotNil(t, m.Peek(key), "%s: it closed before this one opened", key)
			m.PeerClosed(key, time.Second-1)
		}
		assert.Nil(t, m.Peek("borrowed"))
		assert.Equal(t, breaker.Closed, snapshotOf(t, m, "borrowed").State)
		assert.NotNil(t, m.Peek("forced"))
		assert.Equal(t, breaker.HalfOpen, snapshotOf(t, m, "own").State)
		m.PeerClosed("own", 0)
		admitted(t, m, "own").Settle(breaker.Success)
		assert.Equal(t, breaker.Closed, snapshotOf(t, m, "own").State)
		assert.Len(t, m.Snapshots(), 4, "the unknown stays unknown")
		assert.Zero(t, f.out())
	})
}

// A failed probe is a failure of one's own, whatever had opened the breaker; a probe
// that a peer's closing overtakes gives back its leave.
func TestProbesOfABorrowedOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fleet)
		m := joined(t, f)
		both := []breaker.Opinion{opinion(0, time.Second), opinion(0, time.Second)}
		m.Opinions("m", 2, both)
		time.Sleep(time.Second)
		admitted(t, m, "m").Settle(breaker.Failure)
		assert.Equal(t, breaker.CauseFailures, snapshotOf(t, m, "m").Cause)
		m.Opinions("n", 2, both)
		time.Sleep(time.Second)
		probe := admitted(t, m, "n")
		time.Sleep(time.Second)
		require.Equal(t, 1, f.out())
		m.PeerClosed("n", 0)
		assert.Zero(t, f.out())
		probe.Settle(breaker.Failure)
		assert.Zero(t, f.out())
		assert.Equal(t, breaker.Closed, snapshotOf(t, m, "n").State)
	})
}

// No probe without the fleet's leave, which the look asks for as well; each leave is
// given back once, whatever becomes of the probe (contract 14.5).
func TestAProbeNeedsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fleet)
		m := joined(t, f)
		fails(t, m, "m")
		require.NotNil(t, m.Peek("m"))
		assert.Zero(t, f.wanted, "nobody asks before the time")
		f.set(true)
		time.Sleep(10 * time.Second)
		e := m.Peek("m")
		require.NotNil(t, e)
		assert.Equal(t, breaker.OpenError{Provider: "acme", Key: "m", State: breaker.Open, RetryAfter: time.Second}, *e)
		assert.Equal(t, 1, f.wanted)
		require.ErrorIs(t, m.Admit("m", new(breaker.Permit)), breaker.ErrOpen)
		assert.Equal(t, 2, f.wanted)
		f.set(false)
		first := admitted(t, m, "m")
		assert.Equal(t, 1, f.out())
		require.NotNil(t, m.Peek("m"), "its place is taken")
		require.Error(t, m.Admit("m", new(breaker.Permit)))
		assert.Equal(t, 1, f.out())
		time.Sleep(10 * time.Second) // the probe is lost
		second := admitted(t, m, "m")
		assert.Equal(t, 1, f.out())
		first.Settle(breaker.Success)
		assert.Equal(t, 1, f.out())
		first.Settle(breaker.Success)
		second.Settle(breaker.Neutral)
		assert.Zero(t, f.out())
		for name, end := range map[string]func(){"forced": func() { m.ForceOpen("m", 1) }, "reset": func() { m.Reset("m") }} {
			p := admitted(t, m, "m")
			end()
			assert.Zero(t, f.out(), name)
			p.Settle(breaker.Failure)
			assert.Zero(t, f.out(), name)
			time.Sleep(time.Second)
		}
	})
}

// The leave of many calls at once is one probe's (run with -race).
func TestLeaveUnderLoad(t *testing.T) {
	f := new(fleet)
	p := ten()
	p.Timeout, p.FailureThreshold = time.Nanosecond, 1
	m, err := breaker.NewMap(breaker.Config{Policy: p, Provider: "acme", Peers: f})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				var permit breaker.Permit
				if m.Admit("m", &permit) == nil {
					permit.Settle([]breaker.Verdict{breaker.Failure, breaker.Success, breaker.Neutral}[(i+g)%3])
				}
				switch i % 50 {
				case 0:
					m.Opinions("m", 2, []breaker.Opinion{opinion(0, 1), opinion(0, 1)})
				case 25:
					m.PeerClosed("m", 0)
				}
			}
		})
	}
	wg.Wait()
	assert.Zero(t, f.out())
}

// A panic in what others wrote costs nobody a call.
func TestPeersThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Policy: ten(), Provider: "acme", Peers: hostile{}})
		require.NoError(t, err)
		for range 2 {
			var p breaker.Permit
			require.NoError(t, b.Admit(&p))
			p.Settle(breaker.Failure)
		}
		time.Sleep(10 * time.Second)
		assert.Nil(t, b.Peek())
		var p breaker.Permit
		require.NoError(t, b.Admit(&p))
		assert.True(t, p.Probe())
		p.Settle(breaker.Success)
		b.Reset()
	})
}

type hostile struct{ breaker.Peers } // nil: every call panics

// A breaker that is off stays off.
func TestNoOpinionOpensWhatIsOff(t *testing.T) {
	m, err := breaker.NewMap(breaker.Config{Provider: "acme"})
	require.NoError(t, err)
	m.Opinions("", 1, []breaker.Opinion{opinion(0, time.Hour)})
	m.PeerClosed("", 0)
	assert.Nil(t, m.Peek(""))
}

// Where one breaker stands for all models, what peers say of one does not close it to
// the others.
func TestOpinionsOfAModelDoNotOpenTheProvider(t *testing.T) {
	p := ten()
	p.Scope = breaker.ScopeProvider
	m, err := breaker.NewMap(breaker.Config{Policy: p, Provider: "acme"})
	require.NoError(t, err)
	m.Opinions("m", 1, []breaker.Opinion{opinion(0, time.Second)})
	assert.Nil(t, m.Peek("m"))
	m.Opinions("", 1, []breaker.Opinion{opinion(0, time.Second)})
	m.PeerClosed("m", 0)
	assert.NotNil(t, m.Peek("m"))
}

// Who listens hears of every change, once it has happened.
func TestChangesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fleet)
		m := joined(t, f)
		fails(t, m, "m")
		assert.Equal(t, []string{"m"}, f.changes)
		time.Sleep(10 * time.Second)
		for range 2 {
			admitted(t, m, "m").Settle(breaker.Success)
		}
		assert.Equal(t, []string{"m", "m"}, f.changes)
		m.ForceOpen("", 0)
		assert.Equal(t, []string{"m", "m", ""}, f.changes)
	})
}
