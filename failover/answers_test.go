package failover_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

// trickle is a body that waits before each of its pieces. It heeds the request's
// context and Close, as that of net/http does.
type trickle struct {
	req    *http.Request
	pieces []string
	pause  time.Duration
	closed chan struct{}
}

func (b *trickle) Read(p []byte) (int, error) {
	timer := time.NewTimer(b.pause)
	defer timer.Stop()
	select {
	case <-b.req.Context().Done():
		return 0, b.req.Context().Err()
	case <-b.closed:
		return 0, errors.New("use of closed network connection")
	case <-timer.C:
	}
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

func (b *trickle) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

func trickling(status int, pause time.Duration, pieces ...string) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			ContentLength: int64(len(strings.Join(pieces, ""))),
			Body:          &trickle{req: req, pieces: slices.Clone(pieces), pause: pause, closed: make(chan struct{})},
		}, nil
	})
}

// An answer that goes back goes back whole, however slowly it comes: reading it
// for its code never cuts it, and never holds the chain (contract 3).
func TestSlowFailuresGoBackWhole(t *testing.T) {
	t.Parallel()
	const text = `{"error":{"message":"bad parameter"}}`
	for name, c := range map[string]struct {
		pause time.Duration
		until time.Duration // the chain's answer is there
	}{
		"at once":        {0, 0},
		"within a look":  {100 * time.Millisecond, 500 * time.Millisecond},
		"in 700 ms":      {350 * time.Millisecond, 500 * time.Millisecond},
		"within minutes": {time.Minute, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				backup := healthy()
				ch := chain(t, failover.Policy{},
					failover.Target{Name: "a", Transport: trickling(400, c.pause, text[:9], text[9:])},
					failover.Target{Name: "b", Transport: backup})
				start := time.Now()
				resp, err := ch.Do(post(t, chatURL, chatBody("m")))
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(start), c.until)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, text, string(got))
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, 400, resp.StatusCode)
				assert.Zero(t, backup.count())
			})
		})
	}
}

// An answer that is held while another target is tried, and goes back because
// that one lets nothing through, is whole as well.
func TestSlowHeldAnswerGoesBackWhole(t *testing.T) {
	t.Parallel()
	const text = `{"error":{"message":"the upstream failed"}}`
	for _, pause := range []time.Duration{0, 50 * time.Millisecond, 350 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			rejecting := stack(t, "p", failing(500), once())
			rejecting.ForceOpen("", time.Hour)
			ch := chain(t, failover.Policy{},
				failover.Target{Name: "a", Transport: trickling(500, pause, text[:9], text[9:])},
				// Its breaker cannot be asked: the rejection comes with the try.
				failover.Target{Name: "b", Transport: roundTripFunc(rejecting.RoundTrip)})
			start := time.Now()
			resp, err := ch.Do(post(t, chatURL, chatBody("m")))
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
			assert.Equal(t, 500, resp.StatusCode)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, text, string(got))
			require.NoError(t, resp.Body.Close())
		})
	}
}

// G76, G77: a target's time limit holds until its answer is handed out.
func TestTargetTimeoutEndsWithTheHandOut(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]http.RoundTripper{
		"headers alone": trickling(200, time.Hour, "x"),
		"blank lines":   trickling(200, 50*time.Millisecond, slices.Repeat([]string{"\n"}, 1000)...),
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				backup := newUpstream(reply{status: 200, body: okJSON})
				if stream {
					backup = newUpstream(reply{status: 200, body: evA + evStop + evDone})
				}
				ch := chain(t, failover.Policy{},
					failover.Target{Name: "a", Transport: stack(t, "p", base, once()), Timeout: 300 * time.Millisecond},
					failover.Target{Name: "b", Transport: stack(t, "p", backup, once())})
				req := post(t, chatURL, chatBody("m"))
				if stream {
					req = post(t, chatURL, `{"model":"m","stream":true,"messages":[]}`)
				}
				start := time.Now()
				resp, err := ch.Do(req)
				require.NoError(t, err, name)
				assert.Equal(t, 300*time.Millisecond, time.Since(start), name)
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.True(t, failover.FromBackup(resp))
				assert.Equal(t, failover.ReasonTimeout, failover.AttemptsOf(resp)[0].Reason)
			})
		}
	}
}

// The word "default" stands for the built-in list, of statuses and of phrases.
func TestDefaultStandsForTheBuiltInLists(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy failover.Policy
		status int
		body   string
		backup bool
	}{
		"an added status":         {failover.Policy{RetryOnStatuses: []string{"default", " 418 "}}, 418, "{}", true},
		"a built-in one beside":   {failover.Policy{RetryOnStatuses: []string{"418", "DEFAULT"}}, 503, "{}", true},
		"capitals":                {failover.Policy{RetryOnStatuses: []string{"4XX"}}, 418, "{}", true},
		"neither":                 {failover.Policy{RetryOnStatuses: []string{"default", "418"}}, 402, "{}", false},
		"an added phrase":         {failover.Policy{RetryOnErrors: []string{"Default", "out of tea"}}, 400, `{"error":{"message":"we are out of tea"}}`, true},
		"a built-in phrase":       {failover.Policy{RetryOnErrors: []string{"out of tea", "default"}}, 400, `{"error":{"message":"model not found"}}`, true},
		"the word is no phrase":   {failover.Policy{RetryOnErrors: []string{"default"}}, 400, `{"error":{"message":"the default value"}}`, false},
		"a list without the word": {failover.Policy{RetryOnErrors: []string{"out of tea"}}, 400, `{"error":{"message":"model not found"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backup := healthy()
			ch := chain(t, c.policy,
				failover.Target{Name: "a", Transport: newUpstream(reply{status: c.status, body: c.body})},
				failover.Target{Name: "b", Transport: backup})
			resp, err := ch.Do(post(t, chatURL, chatBody("m")))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, c.backup, failover.FromBackup(resp))
		})
	}
}
