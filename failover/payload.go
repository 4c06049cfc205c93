package failover

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// defaultMaxBody is failover.max_body where the policy says nothing.
const defaultMaxBody = 64 << 20

// payload is what is known of a request, with its body where that was read:
// every target then gets a reader of its own over the bytes.
type payload struct {
	*resilience.Reading
	model  string // that is asked for: the context's, else the request's
	limit  int64  // of a body that is re-written
	handed bool   // the original body belongs to a target now, which closes it
}

// readPayload looks at a request, unless somebody above has. forms says that
// bodies of no inference call may name a model, too. On an error the body is
// closed.
func readPayload(req *http.Request, limit int64, forms bool) (*payload, error) {
	rd, err := resilience.ReadRequest(req, limit, forms)
	if err != nil {
		return nil, err
	}
	p := &payload{Reading: rd, limit: limit, model: namedModel(req)}
	if p.model == "" {
		p.model = rd.Model
	}
	return p, nil
}

func empty(req *http.Request) bool { return req.Body == nil || req.Body == http.NoBody }

// A BodyError says why a request was not sent to a target: the target has a
// model of its own, and the request's body could not be re-written for it.
// [resilience.StatusOf] returns its Status.
type BodyError struct {
	Target string // its name; "" where a Router could not find out which chain is asked for
	Status int    // 413 for a body above failover.max_body, 415 for one that is encoded, 400 for one that is not valid
	Err    error  // what is wrong with the body
}

// Error names the target and what is wrong, nothing of the body.
func (e *BodyError) Error() string {
	if e.Target == "" {
		return e.Err.Error()
	}
	return "the request cannot be re-written for target " + e.Target + ": " + e.Err.Error()
}

// Unwrap returns what is wrong with the body.
func (e *BodyError) Unwrap() error { return e.Err }

// HTTPStatus returns Status, for [resilience.StatusOf].
func (e *BodyError) HTTPStatus() int { return e.Status }

// errTooLarge is what a body above the limit is not re-written for.
var errTooLarge = errors.New("the request body is larger than failover.max_body")

// unwritable returns the error of a request that cannot be re-written for t.
func unwritable(t *target, status int, err error) error {
	return &ending.RequestError{Err: &BodyError{Target: t.Name, Status: status, Err: err}}
}

// fill makes out, whose context carries rd, the request of target t: with the
// target's model in the body, if t has one, and then with headers that fit the
// new body. An inference call whose model is neither in the body nor in the
// path cannot be sent, if the body may name one that was not found: the record
// of the attempt would not be true (contract 7.5).
func (p *payload) fill(out *http.Request, rd *resilience.Reading, t *target) error {
	if t.Model != "" && !empty(out) {
		if !p.Fits(p.limit) {
			return unwritable(t, http.StatusRequestEntityTooLarge, fmt.Errorf("%w (%d bytes)", errTooLarge, p.limit))
		}
		changed, err := rd.Replace(t.Model)
		switch {
		case changed:
			fitHeader(out, rd.Size())
		case err == nil, errors.Is(err, wire.ErrNoModel), !rd.Format.Inference():
		case t.namesModel(out):
		case errors.Is(err, wire.ErrEncoded):
			return unwritable(t, http.StatusUnsupportedMediaType, err)
		default:
			return unwritable(t, http.StatusBadRequest, err)
		}
	}
	p.handed = p.handed || !rd.Whole()
	rd.Fill(out)
	return nil
}

// namesModel reports whether out's path names the model, so that the body need
// not.
func (t *target) namesModel(out *http.Request) bool {
	_, named := wire.ReplacePathModel(out.URL.EscapedPath(), t.Model)
	return named
}

// fitHeader makes the header fit a body that was re-written, whatever spelling
// its names have: the length is set anew, digests of the old body are dropped
// (contract 7.5; RFC 9530, RFC 1864).
func fitHeader(out *http.Request, size int) {
	_, had := out.Header["Content-Length"]
	for name := range out.Header {
		if ofTheBytes(name) {
			delete(out.Header, name)
		}
	}
	if had {
		out.Header["Content-Length"] = []string{strconv.Itoa(size)}
	}
	out.TransferEncoding = nil
}

// ofTheBytes reports whether a header field depends on the bytes of the body.
func ofTheBytes(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "content-length", "transfer-encoding", "content-md5":
		return true
	}
	return strings.HasSuffix(name, "digest") && !strings.HasPrefix(name, "want-") || strings.HasSuffix(name, "content-sha256")
}
