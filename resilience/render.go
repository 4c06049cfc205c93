package resilience

import (
	"bytes"
	"io"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// renderRejection is a rejection, by a breaker or a limit, as a response in the call's own
// format: the official SDKs retry any error, and obey this.
func (c *call) renderRejection(open *breaker.OpenError) *http.Response {
	code := rejectionReason(open)
	typ := "service_unavailable_error"
	if open.Limit != "" {
		typ = "rate_limit_error"
	}
	resp := c.render(open.HTTPStatus(), typ, code, open.Error())
	resp.Header.Set("Retry-After", seconds(open.RetryAfter))
	return resp
}

// renderError is a transport failure or a local timeout as a response. Its
// message names the provider and no host.
func (c *call) renderError(by ending.By, err error) *http.Response {
	switch {
	case by == ending.Request && tooLarge(err):
		return c.render(http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large", "the body of the request is too large")
	case by == ending.Request:
		return c.render(http.StatusBadGateway, "server_error", "request_error", "the request could not be sent")
	case by.Timeout():
		return c.render(http.StatusGatewayTimeout, "timeout_error", "timeout", "provider "+c.t.provider+" did not answer in time")
	}
	return c.render(http.StatusBadGateway, "server_error", "upstream_unreachable", "provider "+c.t.provider+" could not be reached")
}

func (c *call) render(status int, typ, code, message string) *http.Response {
	b := c.wire.Format.ErrorBody(status, typ, code, message)
	resp := &http.Response{
		Status:     strconv.Itoa(status) + " " + http.StatusText(status),
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(b))},
			"X-Should-Retry": {"false"},
		},
		Body:          io.NopCloser(bytes.NewReader(b)),
		ContentLength: int64(len(b)),
		Request:       c.request(),
	}
	maps.Copy(resp.Header, c.wire.Format.ErrorHeader(status, typ, code))
	c.watch(resp)
	return resp
}

// seconds renders a wait for Retry-After: whole seconds, at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(max(1, math.Ceil(d.Seconds()))), 10)
}
