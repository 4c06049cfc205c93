package failover_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

// offline stands in for two providers: the first one is down.
var offline = roundTripFunc(func(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: req}
	body := okJSON
	if req.URL.Host == "one.example" {
		resp.StatusCode, body = 500, `{"error":{"message":"down"}}`
	}
	resp.Body = io.NopCloser(strings.NewReader(body))
	return resp, nil
})

func exampleTargets() []failover.Target {
	var targets []failover.Target
	for _, name := range []string{"one", "two"} {
		stack, err := resilience.Builder{Base: offline}.Build(name, resilience.DefaultPolicy())
		if err != nil {
			panic(err)
		}
		targets = append(targets, failover.Target{
			Name: name + "/large", Provider: name, Model: "large-" + name,
			BaseURL: "https://" + name + ".example/v1", Header: http.Header{"Authorization": {"Bearer key-" + name}},
			Transport: stack,
		})
	}
	return targets
}

func show(resp *http.Response) {
	for _, a := range failover.AttemptsOf(resp) {
		fmt.Println(a.Target, a.Status)
	}
	fmt.Println("from a backup:", failover.FromBackup(resp))
}

func ExampleNewChain() {
	chain, err := failover.NewChain(failover.DefaultPolicy(), exampleTargets()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	body := bytes.NewReader([]byte(`{"model":"large","messages":[]}`))
	resp, err := chain.Client().Post("https://one.example/v1/chat/completions", "application/json", body)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	show(resp)
	// Output:
	// one/large 500
	// two/large 200
	// from a backup: true
}

func ExampleNewRouter() {
	chain, err := failover.NewChain(failover.Policy{Strategy: failover.StrategyRoundRobin}, exampleTargets()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	router, err := failover.NewRouter(map[string]*failover.Chain{"smart": chain}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, model := range []string{"smart", "unknown"} {
		body := strings.NewReader(`{"model":"` + model + `","messages":[]}`)
		resp, err := router.Client().Post("https://gateway.example/v1/chat/completions", "application/json", body)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(model, resp.StatusCode)
		_ = resp.Body.Close()
	}
	// Output:
	// smart 200
	// unknown 404
}

func ExampleCall() {
	chain, err := failover.NewChain(failover.DefaultPolicy(), exampleTargets()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := failover.Call(context.Background(), chain, func(_ context.Context, t failover.Target) (string, error) {
		if t.Provider == "one" { // a call of this provider's own SDK
			return "", errors.New("connection refused")
		}
		return "hi from " + t.Model, nil
	})
	fmt.Println(answer, err)
	// Output: hi from large-two <nil>
}
