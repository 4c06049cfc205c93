package failover

import (
	"errors"

	"github.com/surefoot-go/surefoot/resilience"
)

// ClassifyError reads status, code and message out of an SDK's error, without
// knowing the SDK, as [resilience.DetailsOf] does. ok is false for every other
// error, such as a transport's, a stack's or a chain's own.
func ClassifyError(err error) (status int, code, message string, ok bool) {
	var (
		transport *resilience.Error
		chain     *Error
	)
	defer func() {
		if recover() != nil { // a method of an error in the tree
			status, code, message, ok = resilience.DetailsOf(err)
		}
	}()
	if errors.As(err, &transport) || errors.As(err, &chain) {
		return 0, "", "", false
	}
	return resilience.DetailsOf(err)
}
