package failover_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// In a list the word "default" stands for the built-in one, so that an entry
// can be added without copying the rest (contract 1).
func TestListsTakeTheDefaultInPlaceOfAWord(t *testing.T) {
	for name, tc := range map[string]struct {
		policy failover.Policy
		moves  map[string]bool // answers, as status and message
	}{
		"added to the statuses": {
			failover.Policy{RetryOnStatuses: []string{"default", "418"}},
			map[string]bool{"503": true, "418": true, "402": false},
		},
		"in any spelling, anywhere": {
			failover.Policy{RetryOnStatuses: []string{"418", " Default "}},
			map[string]bool{"503": true, "429": true, "418": true},
		},
		"without the word": {
			failover.Policy{RetryOnStatuses: []string{"418"}},
			map[string]bool{"503": false, "418": true},
		},
		"added to the phrases": {
			failover.Policy{RetryOnErrors: []string{"default", "out of coffee"}},
			map[string]bool{"404 model not found": true, "404 we are out of coffee": true, "404 nothing": false},
		},
		"among the words for a model that is gone it says nothing": {
			failover.Policy{Words: wire.Words{ModelGone: []string{"default", "sent away"}}},
			map[string]bool{"404 the default is wrong": false, "404 it was sent away": true, "404 model not found": true},
		},
		"a phrase that holds the word is one": {
			failover.Policy{RetryOnErrors: []string{"no default model"}},
			map[string]bool{"404 no default model": true, "404 model not found": false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for answer, moves := range tc.moves {
				status, message := splitAnswer(t, answer)
				b := healthy()
				c := chain(t, tc.policy,
					failover.Target{Name: "a", Transport: newUpstream(reply{status: status, body: `{"error":{"message":"` + message + `"}}`})},
					failover.Target{Name: "b", Transport: b})
				ask(t, c, "m")
				assert.Equal(t, moves, b.count() == 1, answer)
			}
		})
	}
}

func splitAnswer(t *testing.T, s string) (status int, message string) {
	t.Helper()
	for i := range 3 {
		require.Less(t, i, len(s))
		status = status*10 + int(s[i]-'0')
	}
	return status, s[3:]
}
