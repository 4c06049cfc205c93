package resilience_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/resilience"
)

// A stack that no Builder has made sends nothing, says who makes one, and has
// nothing to show.
func TestTheZeroTransport(t *testing.T) {
	tr := new(resilience.Transport)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://up.test/v1/chat/completions", strings.NewReader("{}"))
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.ErrorContains(t, err, "Builder")
	assert.Nil(t, resp)
	tr.ForceOpen("", 0)
	tr.Reset("")
	tr.ReleaseHold("")
	tr.CloseIdleConnections()
	assert.Nil(t, tr.Peek("m"))
	assert.Empty(t, tr.Breakers())
	assert.Empty(t, tr.Holds())
	assert.Zero(t, tr.InUse())
	assert.Empty(t, tr.Provider())
	assert.NotEmpty(t, tr.String())
}
