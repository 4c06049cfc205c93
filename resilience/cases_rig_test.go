package resilience_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// The cases are rows of a table drawn from public bug reports; each test is
// named for its row. Requests are counted at the server, since net/http itself
// may send one twice.

// Words for what a call does to the breaker. A rig is primed with one failure,
// so that the three differ.
const (
	wordOK      = "OK"
	wordNeutral = "NEUTRAL"
	wordFail    = "FAIL"
)

const (
	chatPath      = "/v1/chat/completions"
	messagesPath  = "/v1/messages"
	responsesPath = "/v1/responses"
	embedPath     = "/v1/embeddings"
	jsonType      = "application/json"
	patience      = 5 * time.Minute // ends a test that hangs; no machine is so slow that it is met
)

// rig is a provider on loopback with a whole stack in front of it. When its
// test ends it checks that no connection and no goroutine is left.
type rig struct {
	up    *upstreamtest.Upstream
	base  *http.Transport
	tr    *resilience.Transport
	calls *calls
	conns atomic.Int64 // open, as the client sees it
	dials atomic.Int64
	dial  func(n int64, addr string) string // nil: dial addr
}

var rigs atomic.Int64

func newRig(t *testing.T, change func(*resilience.Policy)) *rig {
	t.Helper()
	return newRigWith(t, change, func(b *resilience.Builder) {})
}

func newRigWith(t *testing.T, change func(*resilience.Policy), builder func(*resilience.Builder)) *rig {
	t.Helper()
	// Goroutines inherit the labels of who started them.
	id := fmt.Sprintf("rig-%d", rigs.Add(1))
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("rig", id)))
	r := &rig{up: upstreamtest.New(), calls: new(calls)}
	r.base = &http.Transport{DialContext: r.dialContext, MaxIdleConnsPerHost: 100}
	p := quick()
	p.Stream.IdleTimeout = time.Hour // a busy machine may be silent for long
	if change != nil {
		change(&p)
	}
	b := resilience.Builder{Base: r.base, OnCall: r.calls.on}
	builder(&b)
	var err error
	r.tr, err = b.Build("openai-eu", p)
	require.NoError(t, err)
	t.Cleanup(func() { r.close(t, id) })
	return r
}

// close checks what is left.
func (r *rig) close(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	assert.NoError(t, r.up.Wait(ctx, func() bool { return r.up.InFlight() == 0 }), "exchanges are left: %d", r.up.InFlight())
	r.tr.CloseIdleConnections()
	assert.True(t, eventually(func() bool { return r.conns.Load() == 0 }), "connections are left")
	r.up.Close()
	// The test's own goroutine has the label too, unless it made another rig.
	assert.True(t, eventually(func() bool { return labelled(id) <= 1 }), "goroutines are left")
	for _, c := range r.calls.list() {
		assert.NotEmpty(t, c.Outcome)
	}
}

// eventually asks until cond holds, on the test's own goroutine: another one
// would have the label, too.
func eventually(cond func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}

// labelled is how many goroutines carry a rig's label.
func labelled(id string) int {
	var buf bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return -1
	}
	n := 0
	for _, block := range strings.Split(buf.String(), "\n\n") {
		if !strings.Contains(block, `"`+id+`"`) {
			continue
		}
		head, _, _ := strings.Cut(block, " @")
		if k, err := strconv.Atoi(head[strings.LastIndex(head, "\n")+1:]); err == nil {
			n += k
		}
	}
	return n
}

func (r *rig) dialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	n := r.dials.Add(1)
	if r.dial != nil {
		addr = r.dial(n, addr)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	r.conns.Add(1)
	return &countedConn{TCPConn: c.(*net.TCPConn), open: &r.conns}, nil
}

type countedConn struct {
	*net.TCPConn
	open *atomic.Int64
	gone atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.gone.Swap(true) {
		c.open.Add(-1)
	}
	return c.TCPConn.Close()
}

// request is a request for the rig's upstream. An empty body is none.
func (r *rig) request(t *testing.T, ctx context.Context, method, path, body string) *http.Request { //nolint:revive // t comes first in tests
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.up.URL+path, in)
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", jsonType)
	}
	return req
}

// answer is what a caller got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of RoundTrip
	read   error // of the body
	call   resilience.Call
}

// seen is the status that the caller observes.
func (a answer) seen() int {
	if a.err != nil {
		return resilience.StatusOf(a.err)
	}
	return a.status
}

// send makes one call and reads its answer whole.
func (r *rig) send(t *testing.T, req *http.Request) answer {
	t.Helper()
	resp, err := r.tr.RoundTrip(req)
	if err != nil {
		require.Nil(t, resp)
		return answer{err: err}
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	call, ok := resilience.CallOf(resp)
	require.True(t, ok)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b), read: err, call: call}
}

func (r *rig) post(t *testing.T, path, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return r.send(t, r.request(t, ctx, http.MethodPost, path, body))
}

// prime counts one failure, so that word can tell a success from nothing.
func (r *rig) prime(t *testing.T) {
	t.Helper()
	r.up.Next(upstreamtest.Status(500))
	require.Equal(t, 500, r.post(t, chatPath, plainBody).status)
	require.Equal(t, 1, r.tr.Breakers()[0].Failures)
}

// word is what one call since prime did to the breaker.
func (r *rig) word(t *testing.T) string {
	t.Helper()
	b := r.tr.Breakers()[0]
	require.Equal(t, breaker.Closed, b.State)
	return [...]string{wordOK, wordNeutral, wordFail}[b.Failures]
}

// row is one variant of a case that is a single call.
type row struct {
	name   string
	change func(*resilience.Policy)
	path   string // "": chat completions
	ask    string // "": plainBody; with method GET or HEAD none is sent
	method string // "": POST
	steps  []upstreamtest.Step
	seen   int
	body   string                         // what the caller gets, whole; "": see check
	read   error                          // what reading it matches; nil: a plain end
	reqs   int                            // read by the server
	word   string                         // for the breaker
	check  func(*testing.T, *rig, answer) // what else
}

func run(t *testing.T, rows []row) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func (c row) run(t *testing.T) {
	r := newRig(t, c.change)
	r.prime(t)
	r.up.Default(c.steps...)
	r.up.List(c.steps...)
	if c.path == "" {
		c.path = chatPath
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.ask == "" && c.method == http.MethodPost {
		c.ask = plainBody
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a := r.send(t, r.request(t, ctx, c.method, c.path, c.ask))
	assert.Equal(t, c.seen, a.seen(), "%v %s", a.err, a.body)
	if c.body != "" {
		require.Equal(t, len(c.body), len(a.body), "%.500s", a.body)
		assert.True(t, c.body == a.body, "%.500s", a.body)
	}
	if c.read == nil {
		assert.NoError(t, a.read)
	} else {
		assert.ErrorIs(t, a.read, c.read)
	}
	assert.Equal(t, c.reqs, r.up.Count()-1, "requests at the server")
	assert.Equal(t, c.word, r.word(t), "breaker")
	if c.check != nil {
		c.check(t, r, a)
	}
}

// heldBack allows retries of a stream that has not begun.
func heldBack(p *resilience.Policy) { p.Retry.Streams = "held_back" }
