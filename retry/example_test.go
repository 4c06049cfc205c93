package retry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/surefoot-go/surefoot/retry"
)

// The layer alone, under a plain http.Client.
func ExampleTransport() {
	var n atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) < 3 {
			w.Header().Set("Retry-After-Ms", "5")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer upstream.Close()

	client := &http.Client{Transport: &retry.Transport{
		Policy: retry.DefaultPolicy(),
		OnRetry: func(_ *http.Request, a retry.Attempt, wait time.Duration) {
			fmt.Println("attempt", a.Number, "got", a.Status, "and is followed by another:", wait >= 5*time.Millisecond)
		},
	}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(upstream.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.StatusCode)
	// Output:
	// attempt 1 got 429 and is followed by another: true
	// attempt 2 got 429 and is followed by another: true
	// 200
}
