package discovery_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/surefoot-go/surefoot/discovery"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// A registry over two providers, one of which is only configured.
func ExampleRegistry() {
	up := upstreamtest.NewInMemory("models.test")
	defer up.Close()
	up.Models("large", "small")

	reg, err := discovery.NewRegistry(discovery.Config{})
	if err != nil {
		panic(err)
	}
	stack, err := resilience.Builder{Base: up.RoundTripper(), OnCall: reg.Observe}.Build("main", resilience.DefaultPolicy())
	if err != nil {
		panic(err)
	}
	lister, err := discovery.NewLister(discovery.ListerConfig{Type: "openai", Client: up.Client(), BaseURL: up.URL + "/v1", Header: http.Header{"Authorization": {"Bearer key"}}})
	if err != nil {
		panic(err)
	}
	for _, p := range []discovery.Provider{
		{Name: "main", Lister: lister, Breakers: stack.Breakers, Controls: stack},
		{Name: "lab", Models: []string{"tiny"}, Mode: discovery.ModeAllowlist},
	} {
		if err := reg.Add(p); err != nil {
			panic(err)
		}
	}
	// A service keeps reg.Run(ctx) going instead.
	if err := reg.Refresh(context.Background()); err != nil {
		panic(err)
	}
	for _, m := range reg.Models() {
		fmt.Println(m.Name())
	}
	for _, s := range reg.Status() {
		fmt.Println(s.Name, s.Status, s.Source)
	}
	_, err = reg.Resolve(context.Background(), "main/huge")
	fmt.Println(err)
	// Output:
	// main/large
	// main/small
	// lab/tiny
	// main Healthy live
	// lab Healthy configured
	// resolve model "main/huge": unknown model
}

func ExampleCatalog() {
	fmt.Println(len(discovery.Catalog("anthropic", "https://api.anthropic.com/v1")) > 0)
	fmt.Println(discovery.Catalog("openai", "http://localhost:8000/v1"))
	// Output:
	// true
	// []
}
