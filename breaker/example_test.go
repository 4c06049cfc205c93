package breaker_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/surefoot-go/surefoot/breaker"
)

// A layer over any transport: three failed calls, then a rejection that sends
// nothing.
func ExampleTransport() {
	client := &http.Client{Transport: &breaker.Transport{
		Base:     play(status(500)), // an upstream that is down
		Provider: "openai-eu",
		Policy:   breaker.Policy{FailureThreshold: 3, SuccessThreshold: 1, Timeout: 30 * time.Second},
	}}
	for range 4 {
		resp, err := client.Post("http://upstream.test/v1/chat/completions", "application/json", strings.NewReader("{}"))
		var open *breaker.OpenError
		if errors.As(err, &open) {
			fmt.Println(open, "- retry in", open.RetryAfter.Round(time.Second))
			continue
		}
		fmt.Println(resp.StatusCode)
		_ = resp.Body.Close()
	}
	// Output:
	// 500
	// 500
	// 500
	// circuit breaker is open - provider openai-eu temporarily unavailable - retry in 30s
}

// A breaker by itself, around anything that can fail.
func ExampleBreaker() {
	b, err := breaker.New(breaker.Config{
		Policy: breaker.Policy{FailureThreshold: 2, SuccessThreshold: 1, Timeout: time.Minute},
		OnStateChange: func(_ string, from, to breaker.State) {
			fmt.Println(from, "->", to)
		},
	})
	if err != nil {
		panic(err)
	}
	work := func() error { return errors.New("no answer") }
	for range 3 {
		var p breaker.Permit
		if err := b.Admit(&p); err != nil {
			fmt.Println("rejected:", errors.Is(err, breaker.ErrOpen))
			continue
		}
		if work() != nil {
			p.Settle(breaker.Failure)
		} else {
			p.Settle(breaker.Success)
		}
	}
	// Output:
	// closed -> open
	// rejected: true
}
