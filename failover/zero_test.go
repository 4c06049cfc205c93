package failover_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
)

type closeTeller struct {
	io.ReadCloser
	closed chan struct{}
}

func (c closeTeller) Close() error { close(c.closed); return c.ReadCloser.Close() }

// A chain that nobody has made sends nothing, says who makes one, and is no part
// of another.
func TestTheZeroChain(t *testing.T) {
	zero := new(failover.Chain)
	zero.CloseIdleConnections()
	sent := 0
	req := post(t, chatURL, chatBody("m"))
	isClosed := make(chan struct{})
	req.Body = closeTeller{req.Body, isClosed}
	resp, err := zero.RoundTrip(req)
	require.ErrorContains(t, err, "NewChain")
	assert.Nil(t, resp)
	<-isClosed
	_, err = failover.Call(t.Context(), zero, func(context.Context, failover.Target) (int, error) { sent++; return 0, nil })
	require.ErrorContains(t, err, "NewChain")
	_, err = failover.NewChain(failover.DefaultPolicy(), failover.Target{Name: "zero", Transport: zero})
	require.ErrorContains(t, err, "targets[0] (zero): the zero Chain")
	_, err = failover.NewRouter(map[string]*failover.Chain{"m": zero}, nil)
	require.ErrorContains(t, err, "virtual model m: the zero Chain")
	assert.Zero(t, sent)
}
