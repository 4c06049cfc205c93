package upstreamtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// call posts a chat request and prints the status, and what the body says or
// how it broke.
func call(client *http.Client, url, model string, stream bool) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[]}`, model, stream)
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Println("no answer:", errors.Is(err, io.EOF))
		return
	}
	defer resp.Body.Close()
	fmt.Print(resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if _, text, ok := strings.Cut(lines.Text(), `"content":"`); ok {
			text, _, _ = strings.Cut(text, `"`)
			fmt.Print(" ", text)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Print(" ", err)
	}
	fmt.Println()
}

func Example() {
	up := upstreamtest.New()
	defer up.Close()
	up.Model("gpt-x", upstreamtest.Status(503), upstreamtest.OK("hi"))

	client := up.Client()
	defer client.CloseIdleConnections()
	for range 3 {
		call(client, up.URL, "gpt-x", false)
	}
	fmt.Println(up.CountModel("gpt-x"), "requests")
	// Output:
	// 503
	// 200 hi
	// 200 hi
	// 3 requests
}

// A stream can break off in every way that networks and providers know.
func Example_brokenStreams() {
	up := upstreamtest.New()
	defer up.Close()
	good := upstreamtest.OK("one", "two", "three")
	up.Next(
		good.CutAfter(2),             // ends as if it were whole
		good.CutAfter(2).FIN(),       // the connection is closed instead
		good.CutBytes(300).FIN(),     // the same within a line
		good.FailAfter(1, 529),       // an error event
		upstreamtest.Drop(),          // no answer at all
		good.NoDone().Gzip(),         // compressed, and without [DONE]
		good.FirstToken(time.Second), // slow
	)
	client := up.Client()
	defer client.CloseIdleConnections()
	for range 7 {
		call(client, up.URL, "gpt-x", true)
	}
	// Output:
	// 200 one two
	// 200 one two unexpected EOF
	// 200 one unexpected EOF
	// 200 one
	// no answer: true
	// 200 one two three
	// 200 one two three
}

// Inside a testing/synctest bubble the hour below passes at once; here the
// provider is merely reached without a socket.
func ExampleNewInMemory() {
	up := upstreamtest.NewInMemory("provider.test")
	defer up.Close()
	up.Default(upstreamtest.OK("late").Delay(time.Hour))

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, up.URL+"/v1/messages", strings.NewReader(`{"model":"claude-x"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := up.RoundTripper().RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	fmt.Println(err)
	fmt.Println(up.Count(), up.Aborted(), up.Last().Format, up.Last().Model)
	// Output:
	// context deadline exceeded
	// 1 1 messages claude-x
}

func ExampleSwitch() {
	first := upstreamtest.NewInMemory("first.test")
	defer first.Close()
	second := upstreamtest.NewInMemory("second.test")
	defer second.Close()
	first.Default(upstreamtest.Status(503))
	second.Default(upstreamtest.OK("from the second"))

	client := &http.Client{Transport: upstreamtest.Switch(first, second)}
	call(client, first.URL, "m", false)
	call(client, second.URL, "m", false)
	// Output:
	// 503
	// 200 from the second
}

func ExampleUpstream_Models() {
	up := upstreamtest.NewInMemory("")
	defer up.Close()
	up.Models("small", "large")
	resp, err := up.Client().Get(up.URL + "/v1/models")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	fmt.Println(string(b), err)
	// Output:
	// {"object":"list","data":[{"id":"small","object":"model","created":1700000000,"owned_by":"upstreamtest"},{"id":"large","object":"model","created":1700000000,"owned_by":"upstreamtest"}]} <nil>
}

// A gate makes a test wait for nothing but what it is about: here, that 50
// requests are under way at the same time.
func ExampleStep_Hold() {
	up := upstreamtest.NewInMemory("")
	defer up.Close()
	gate := make(chan struct{})
	up.Default(upstreamtest.OK("hi").Hold(gate))

	client := up.Client()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp, err := client.Post(up.URL+"/v1/responses", "application/json", strings.NewReader(`{}`))
			if err == nil {
				resp.Body.Close()
			}
		})
	}
	err := up.Wait(context.Background(), func() bool { return up.InFlight() == 50 })
	fmt.Println(up.InFlight(), err)
	close(gate)
	wg.Wait()
	fmt.Println(up.InFlight())
	// Output:
	// 50 <nil>
	// 0
}

func ExampleStep_Drift() {
	up := upstreamtest.NewInMemory("")
	defer up.Close()
	up.Default(upstreamtest.Body("application/json", `{"choices":[{"message":{"content":"hi"}}],"usage":{}}`).
		Drift("choices.0.message.content").
		Delete("usage"))
	resp, err := up.Client().Post(up.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	fmt.Println(string(b), err)
	// Output:
	// {"choices":[{"message":{"content":7}}]} <nil>
}

func ExampleFlap() {
	up := upstreamtest.NewInMemory("")
	defer up.Close()
	// Down for 30 seconds, up for 30, and so on:
	up.Default(upstreamtest.Flap(30*time.Second, upstreamtest.Status(503), upstreamtest.OK("hi")))
	// By count: two failures, then a success, again and again.
	up.Model("m", upstreamtest.Cycle(upstreamtest.Status(503).Times(2), upstreamtest.OK("hi")))
	for range 4 {
		call(up.Client(), up.URL, "m", false)
	}
	// Output:
	// 503
	// 503
	// 200 hi
	// 503
}
