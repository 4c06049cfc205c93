package streamguard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

const (
	// inspectLimit is the largest non-stream body that is judged.
	inspectLimit = 8 << 20
	// originalLimit is how much of a failed body a Report keeps.
	originalLimit = 64 << 10
	// readAhead is the first buffer of a body of unknown length; it never
	// trusts a Content-Length beyond trustedLength.
	readAhead     = 4 << 10
	trustedLength = 256 << 10
)

// A Report says what a 2xx turned out to be.
type Report struct {
	Format   *wire.Format
	Status   int           // the status the upstream sent
	Failure  *wire.Failure // what it stands for; nil is a good answer
	Original []byte        // the first 64 KiB of the upstream's body, if it failed
	Empty    string        // "no_choices", "no_usage", "no_output", "unknown_shape" or ""
	Accepted bool          // a ticket: the work is to be done later, and the answer is delivered as it came
	Stream   bool          // judged at the start of a stream
	Usage    wire.Usage    // what it says that it took; zero where it says nothing, or is a stream that goes on
}

type reportKey struct{}

// Unmasked returns the report on a response that stands for a failure which its
// upstream had sent with a 2xx, and whether resp is one. It reads the context
// of resp.Request.
func Unmasked(resp *http.Response) (Report, bool) {
	if resp != nil && resp.Request != nil {
		if r, ok := resp.Request.Context().Value(reportKey{}).(*Report); ok {
			return *r, true
		}
	}
	return Report{}, false
}

// A judge turns masked failures into responses, for the unmasker and for the
// guard.
type judge struct {
	provider  string
	format    *wire.Format
	deferred  bool // the request asked for its answer later
	words     *wire.Vocabulary
	call      Call // nil: the layer is used alone
	onVerdict func(*http.Request, *http.Response, Report)
	logger    *slog.Logger
	usage     wire.Usage // of the answer
}

// An opening is what was read of a body to tell its shape.
type opening struct {
	head []byte
	err  error   // what reading it ended with, io.EOF for the end of the body
	buf  *[]byte // of takeBuffer, where head was begun; or nil
}

// readOpening reads resp's body until its shape shows, 64 KiB at most. It uses
// buf, which is empty, as far as that has room.
func readOpening(w wire.Request, resp *http.Response, buf []byte) opening {
	o := opening{head: buf}
	sniffer := w.Format.Sniffer(contentType(resp), w.Stream)
	for empty := 0; o.err == nil && len(o.head) <= originalLimit; {
		n := len(o.head)
		o.head, o.err = readMore(resp.Body, o.head, &empty)
		if len(o.head) > n && sniffer.Shape(o.head) != wire.ShapeUnknown {
			break
		}
	}
	return o
}

// whole reads the answer to its end and judges it. It returns resp with the
// body as it came, or as a failure's response, or an error if the transport
// failed before anything was known.
func (j *judge) whole(req *http.Request, resp *http.Response, o opening) (*http.Response, error) {
	if wire.Sniff(o.head) == wire.ShapeHTML {
		// A page is a failure whatever follows; what is kept of it is bounded.
		page := layer.Peek(o.putBack(resp, true), originalLimit, layer.PeekTime)
		_ = resp.Body.Close()
		a := j.answer(resp)
		a.ContentType = "text/html"
		return j.refuse(req, resp, j.format.Judge(a, page.Head()).Failure, page.Head())
	}
	if resp.ContentLength > inspectLimit {
		return o.putBack(resp, true), nil
	}
	data, over, err := readUpTo(resp.Body, o, inspectLimit, resp.ContentLength)
	if over {
		return opening{head: data, err: err}.putBack(resp, true), nil
	}
	_ = resp.Body.Close()
	if err != nil {
		return j.cut(req, resp, data, err)
	}
	v := j.format.Judge(j.answer(resp), data)
	j.usage = v.Usage
	if v.Failure != nil {
		return j.refuse(req, resp, v.Failure, data)
	}
	resp.Body = newMemBody(resp.Body, data, o.buf)
	j.report(req, resp, Report{Format: j.format, Status: resp.StatusCode, Empty: v.Empty, Accepted: v.Accepted, Usage: v.Usage})
	return resp, nil
}

// answer is what the judging format is told of resp.
func (j *judge) answer(resp *http.Response) wire.Answer {
	return wire.Answer{
		Provider: j.provider, ContentType: contentType(resp), Status: resp.StatusCode,
		Deferred: j.deferred, Words: j.words,
	}
}

// refuse is fail for a call that lives: a read that the caller cancelled can end
// like a short body.
func (j *judge) refuse(req *http.Request, resp *http.Response, f *wire.Failure, data []byte) (*http.Response, error) {
	if done := callerDone(req, nil); done != nil {
		return nil, done
	}
	return j.fail(req, resp, f, data, false), nil
}

// cut answers for a body whose reading failed. One that stops short of what its
// own framing promised is a bad answer; anything else is the transport's error.
func (j *judge) cut(req *http.Request, resp *http.Response, data []byte, err error) (*http.Response, error) {
	if done := callerDone(req, err); done != nil {
		return nil, done
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	// What arrived may be whole JSON; the promised rest of it is missing anyway.
	v := j.format.Judge(j.answer(resp), data)
	f := v.Failure
	j.usage = v.Usage
	if f == nil || f.Reason == "empty_response" {
		f = malformed(j.format, j.provider, "body is cut short")
	}
	return j.fail(req, resp, f, data, false), nil
}

// malformed is the failure of an answer that does not parse.
func malformed(f *wire.Format, provider, what string) *wire.Failure {
	return f.Failure(http.StatusBadGateway, wire.ReasonMalformed, "failed to unmarshal response: "+providerPrefix(provider)+what)
}

// fail turns resp, in place, into the response that f stands for. The headers
// stay, but for those that describe the body that is gone.
func (j *judge) fail(req *http.Request, resp *http.Response, f *wire.Failure, original []byte, stream bool) *http.Response {
	r := Report{Format: j.format, Status: resp.StatusCode, Failure: f, Stream: stream, Usage: j.usage,
		Original: bytes.Clone(original[:min(len(original), originalLimit)])}
	if f.Reason == "no_choices" {
		r.Empty = f.Reason
	}
	body := f.Body
	// A base may share one header map among its responses.
	h := resp.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	for _, k := range [...]string{"Content-Encoding", "Transfer-Encoding", "Trailer"} {
		h.Del(k)
	}
	maps.Copy(h, f.Header)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	resp.Header = h
	resp.StatusCode = f.Status
	resp.Status = strings.TrimSpace(strconv.Itoa(f.Status) + " " + http.StatusText(f.Status))
	resp.ContentLength = int64(len(body))
	resp.TransferEncoding, resp.Trailer, resp.Uncompressed = nil, nil, false
	resp.Body = newMemBody(resp.Body, body, nil)
	carrier := resp.Request
	if carrier == nil {
		carrier = req
	}
	resp.Request = carrier.WithContext(context.WithValue(carrier.Context(), reportKey{}, &r))
	j.report(req, resp, r)
	return resp
}

// readUpTo reads on from o until more than limit bytes are there (over is true,
// err what they ended with, if they did), r ends (err is nil) or fails. length
// is what the header promised, -1 if nothing.
func readUpTo(r io.Reader, o opening, limit int, length int64) (data []byte, over bool, err error) {
	data, err = o.head, o.err
	if want := min(length, trustedLength) + 1; err == nil && want > int64(cap(data)) {
		// One byte more than promised: room for the Read that sees the end.
		data = append(make([]byte, 0, want), data...)
	}
	for empty := 0; err == nil && len(data) <= limit; {
		data, err = readMore(r, data, &empty)
	}
	if len(data) > limit {
		return data, true, err
	}
	if err == io.EOF {
		err = nil
	}
	return data, false, err
}

// readMore reads once behind data, which grows if it has no room. empty counts
// the Reads in a row that returned nothing.
func readMore(r io.Reader, data []byte, empty *int) ([]byte, error) {
	if len(data) == cap(data) {
		data = append(data, 0)[:len(data)]
	}
	n, err := r.Read(data[len(data):cap(data)])
	if *empty++; n > 0 {
		*empty = 0
	}
	if *empty > maxEmptyReads && err == nil {
		err = io.ErrNoProgress
	}
	return data[:len(data)+n], err
}

// maxEmptyReads is how often in a row a Read may return nothing, as in bufio.
const maxEmptyReads = 100
