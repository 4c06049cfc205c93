package streamguard_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience/ending"
	sg "github.com/surefoot-go/surefoot/streamguard"
)

// filling is a body that returns only once the buffer is full, as net/http's of
// a chunked answer does while bytes keep coming: 32 KiB every 10 ms.
type filling struct{ left int }

func (f *filling) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), f.left)
	f.left -= n
	time.Sleep(10 * time.Millisecond * time.Duration(1+n/(32<<10)))
	return n, nil
}

func (*filling) Close() error { return nil }

// closing is a body that returns what it has, and what closing it made of the
// Read, when it is closed.
type closing struct {
	text   string
	closed chan struct{}
}

func (c *closing) Read(p []byte) (int, error) {
	if strings.HasPrefix(c.text, "b") {
		<-c.closed
	}
	n := copy(p[:1], c.text)
	c.text = c.text[n:]
	if c.text == "" {
		return n, net.ErrClosed
	}
	return n, nil
}

func (c *closing) Close() error { close(c.closed); return nil }

func idleOver(t *testing.T, body io.ReadCloser) io.ReadCloser {
	t.Helper()
	idle := &sg.Idle{Timeout: 200 * time.Millisecond, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: req}, nil
	})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.invalid/f", nil)
	require.NoError(t, err)
	resp, err := idle.RoundTrip(req)
	require.NoError(t, err)
	return resp.Body
}

func TestALongReadWhileBytesComeIsNoSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body := idleOver(t, &filling{left: 4 << 20})
		defer func() { require.NoError(t, body.Close()) }()
		total, buf := 0, make([]byte, 1<<20)
		for {
			n, err := body.Read(buf)
			if total += n; err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
		assert.Equal(t, 4<<20, total)
	})
}

func TestBytesThatComeWithTheIdleTimeoutDoNotHideIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got, err := io.ReadAll(idleOver(t, &closing{text: "ab", closed: make(chan struct{})}))
		assert.Equal(t, "ab", string(got))
		var timeout *ending.TimeoutError
		require.ErrorAs(t, err, &timeout)
	})
}

// Many a transport that is not net/http's leaves the length of an answer alone:
// 0 says as little as -1 does once a byte has come, whatever the label, and a
// length that was too small says nothing more either (contract 6.6).
func TestALengthThatIsWrongDoesNotSwitchTheIdleTimeoutOff(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"unlabelled": "", "labelled": "application/octet-stream", "a stream": "text/event-stream"} {
		for _, length := range []int64{-1, 0, 1} {
			t.Run(fmt.Sprintf("%s, length %d", name, length), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := stack(roundTripper(func(req *http.Request) (*http.Response, error) {
						resp, err := answer(label, script(part{data: "a"}, part{data: "b"}, part{hang: true}))(req)
						resp.ContentLength = length
						return resp, err
					}), idle200)
					start := time.Now()
					_, got, err := r.readAll(t, request(t, t.Context(), "http://up/files/1", ""))
					var timeout *ending.TimeoutError
					require.ErrorAs(t, err, &timeout)
					assert.Equal(t, "idle_timeout", timeout.What)
					assert.Equal(t, "ab", got)
					assert.Equal(t, 200*time.Millisecond, time.Since(start))
				})
			})
		}
	}
}
