package resilience_test

import (
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/resilience"
)

// What net/http could not read it quotes in its errors: an upstream's bytes.
// A base that is itself a client quotes the URL, with a key in its query.
func TestErrorTextQuotesNobody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, "dial tcp: connection refused"},
		{errors.New("net/http: HTTP/1.x transport connection broken: malformed HTTP response \"secret \\\"x\\\" secret\""),
			`net/http: HTTP/1.x transport connection broken: malformed HTTP response ""`},
		{fmt.Errorf("broken: %w", textproto.ProtocolError("malformed MIME header line: secret")), "malformed response header"},
		{&url.Error{Op: "Post", URL: "https://x.invalid/?key=secret", Err: syscall.ECONNRESET}, `Post "": connection reset by peer`},
		{errors.New("unsupported transfer encoding: \"secret"), `unsupported transfer encoding: "`},
	} {
		e := &resilience.Error{Provider: "eu", Status: 502, Err: c.err}
		assert.Equal(t, "provider eu: "+c.want, e.Error())
		assert.ErrorIs(t, e, c.err, "the whole is kept")
	}
}
