package retry

import (
	"crypto/tls"
	"errors"
)

// errBodyBusy ends a call whose next attempt would have to share a body that
// is still in use.
var errBodyBusy = errors.New("retry: the previous attempt is still reading the request body")

// errNoCopy is why a body is not sent again of which GetBody gives nothing: an
// empty body in its place would be another request (contract 2).
var errNoCopy = errors.New("retry: GetBody gives no body")

// errBodyReleased is what a reader gets who comes back for more of a body that
// was closed or whose attempt is over.
var errBodyReleased = errors.New("retry: the request body was read after its attempt had ended")

// hopeless reports whether no wait can mend err: the upstream's certificate
// does not verify (contract 3).
func hopeless(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}
