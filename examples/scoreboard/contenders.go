package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

const (
	primaryKey = "key-of-the-primary"
	backupKey  = "key-of-the-backup"
)

// ask makes one call and says what the caller got. It is called by several
// goroutines at once.
type ask func(context.Context) result

// contender is a way to call a provider. open sets one up against a site, over
// a base transport.
type contender struct {
	name   string
	about  string // how it is set up
	backup bool   // it knows the backup
	form   form
	// sockets says that it cannot be given a transport, and so no fake clock: its
	// row is that of one sitting over sockets, see socketsFile.
	sockets bool
	open    func(*site, http.RoundTripper) (ask, error)
}

var contenders = []contender{
	{name: "http.Client", about: "`Timeout` 30 s; it has no retries", open: func(s *site, base http.RoundTripper) (ask, error) {
		return plain(&http.Client{Transport: base, Timeout: perRequest}, s.primary.URL, nil), nil
	}},
	{name: "openai-go", about: "`WithMaxRetries(2)`, `WithRequestTimeout` 30 s", open: openOpenAI},
	{name: "anthropic-sdk-go", about: "the same, over messages", form: form{lifecycle: 2}, open: openAnthropic},
	{name: "go-openai", about: "an `http.Client` with `Timeout` 30 s; it has no retries", open: openGoOpenAI},
	{name: "genai", about: "over generateContent; `RetryOptions.Attempts` 3, `Timeout` 30 s", open: openGenAI},
	{name: "go-retryablehttp", about: "`RetryMax` 2, its client's `Timeout` 30 s, `PassthroughErrorHandler`", open: openRetryable},
	{name: "failsafe-go", about: "its HTTP retry policy (two retries, 1 s to 30 s, last failure returned) around a circuit breaker (five failures, 30 s) and a timeout of 30 s", open: openFailsafe},
	{name: "failsafe-go, fallback", about: "the same in a fallback that sends the request to the backup, with its URL, key and model, after a failure that is one to the breaker", backup: true, open: openFallback},
	{name: "Bifrost", about: "its core, v1.4.0, in this process, with the backup as its fallback: `MaxRetries` 2 from 1 s to 30 s, " +
		"`DefaultRequestTimeoutInSeconds` 30, all else as it is. It brings its own HTTP client, so its row is the worst of two sittings over sockets and by the clock on the wall (`go run . -sockets`)",
		backup: true, sockets: true, open: openBifrost},
	{name: defaults, about: "the documented defaults and nothing else: neither the limit of 30 s a request nor the number of retries is changed", backup: true, open: chainOf(resilience.ProfileDefault, false)},
	{name: budgeted, about: "the same with the budget that all others have: `retry.max_retries: 2`, `retry.attempt_timeout: 30s`", backup: true, open: chainOf(resilience.ProfileDefault, true)},
	{name: live, about: "the profile, with the budget", backup: true, open: chainOf(resilience.ProfileLive, true)},
	{name: whole, about: "the profile, with the budget", backup: true, open: chainOf(resilience.ProfileWhole, true)},
}

func openRetryable(s *site, base http.RoundTripper) (ask, error) {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryMax = retries
	c.HTTPClient = &http.Client{Transport: base, Timeout: perRequest}
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return plain(c.StandardClient(), s.primary.URL, nil), nil
}

// failed reports what breaker and fallback take for a failure.
func failed(resp *http.Response, err error) bool {
	return err != nil || resp != nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500)
}

//nolint:bodyclose // what the linter sees are builders of policies for responses
func failsafePolicies() []failsafe.Policy[*http.Response] {
	return []failsafe.Policy[*http.Response]{
		failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(retries).WithBackoff(time.Second, 30*time.Second).ReturnLastFailure().Build(),
		circuitbreaker.NewBuilder[*http.Response]().
			HandleIf(failed).
			WithFailureThreshold(5).
			WithSuccessThreshold(2).
			WithDelay(30 * time.Second).
			WithDelayFunc(failsafehttp.DelayFunc).
			Build(),
		timeout.New[*http.Response](perRequest),
	}
}

func openFailsafe(s *site, base http.RoundTripper) (ask, error) {
	rt := failsafehttp.NewRoundTripper(base, failsafePolicies()...) //nolint:bodyclose // policies
	return plain(&http.Client{Transport: rt}, s.primary.URL, nil), nil
}

// openFallback does by hand what a chain does: the request is written anew for
// the backup.
func openFallback(s *site, base http.RoundTripper) (ask, error) {
	target, err := url.Parse(s.backup.URL)
	if err != nil {
		return nil, err
	}
	primary := failsafehttp.NewRoundTripper(base, failsafePolicies()...)                  //nolint:bodyclose // policies
	second := failsafehttp.NewRoundTripper(base, timeout.New[*http.Response](perRequest)) //nolint:bodyclose // a policy
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		send := func(rt http.RoundTripper, out *http.Request, body []byte) (*http.Response, error) {
			out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			return rt.RoundTrip(out)
		}
		other := fallback.NewBuilderWithFunc(func(failsafe.Execution[*http.Response]) (*http.Response, error) {
			out := req.Clone(req.Context())
			out.URL.Scheme, out.URL.Host, out.Host = target.Scheme, target.Host, target.Host
			out.Header.Set("Authorization", "Bearer "+backupKey)
			return send(second, out, bytes.Replace(body, []byte(primaryModel), []byte(backupModel), 1)) //nolint:bodyclose // it goes back
		}).HandleIf(failed).Build()
		return failsafe.With[*http.Response](other).Get(func() (*http.Response, error) {
			return send(primary, req.Clone(req.Context()), body) //nolint:bodyclose // it goes back
		})
	})
	return plain(&http.Client{Transport: rt}, s.primary.URL, nil), nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// chainOf is a chain of both providers under a profile, as a configuration file
// makes it, and with further changes, if any.
func chainOf(profile string, budget bool, changes ...func(*resilience.Policy, *failover.Policy)) func(*site, http.RoundTripper) (ask, error) {
	return func(s *site, base http.RoundTripper) (ask, error) {
		p, err := resilience.Profile(profile)
		if err != nil {
			return nil, err
		}
		if budget {
			p.Retry.MaxRetries, p.Retry.AttemptTimeout = retries, perRequest
		}
		f := failover.DefaultPolicy()
		if profile != resilience.ProfileDefault {
			f.RetryOnErrors = append(f.RetryOnErrors, failover.TooLong)
		}
		for _, change := range changes {
			change(&p, &f)
		}
		var targets []failover.Target
		for _, t := range []struct{ provider, model, url, key string }{
			{"primary", primaryModel, s.primary.URL, primaryKey},
			{"backup", backupModel, s.backup.URL, backupKey},
		} {
			stack, err := resilience.Builder{Base: base}.Build(t.provider, p)
			if err != nil {
				return nil, err
			}
			targets = append(targets, failover.Target{
				Provider: t.provider, Model: t.model, BaseURL: t.url + "/v1", Transport: stack,
				Header: http.Header{"Authorization": {"Bearer " + t.key}},
			})
		}
		chain, err := failover.NewChain(f, targets...)
		if err != nil {
			return nil, err
		}
		return plain(chain.Client(), s.primary.URL, servedBy), nil
	}
}

// servedBy is the model that the chain itself says answered.
func servedBy(resp *http.Response) string {
	attempts := failover.AttemptsOf(resp)
	if len(attempts) == 0 {
		return ""
	}
	return attempts[len(attempts)-1].Model
}
