package config_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The key is named in the file or by a variable, a virtual model's own wins, and
// what is not a key is refused where it stands.
func TestAffinity(t *testing.T) {
	assert.Nil(t, parse(t, "", nil).Failover().Affinity.Key)
	for _, c := range []struct {
		yaml string
		env  map[string]string
	}{
		{"failover: {affinity: {key: user_id, ttl: 5m, max: 7}}", nil},
		{"failover: {affinity: {ttl: 5m, max: 7}}", map[string]string{"FAILOVER_AFFINITY_KEY": "user_id"}},
	} {
		a := parse(t, c.yaml, c.env).Failover().Affinity
		require.NotNil(t, a.Key)
		assert.Equal(t, "u", a.Key(t.Context(), http.Header{}, []byte(`{"user":"u"}`)))
		assert.Equal(t, 5*time.Minute, a.TTL)
		assert.Equal(t, 7, a.Max)
	}
}
