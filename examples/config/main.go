// Command config prints the settings that hold for each provider of a
// configuration, and where each value came from:
//
//	go run ./examples/config                # the worked example beside this file
//	go run ./examples/config my.yaml        # your own, with your environment
//	RETRY_MAX_RETRIES=1 go run ./examples/config
//
// It calls nobody.
package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"

	"github.com/surefoot-go/surefoot/failover/config"
)

//go:embed worked.yaml
var worked []byte

func main() {
	if err := run(os.Stdout, os.Args[1:], os.LookupEnv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string, lookup func(string) (string, bool)) error {
	var (
		cfg *config.Config
		err error
	)
	if len(args) > 0 {
		cfg, err = config.Load(args[0])
	} else {
		cfg, err = config.Parse(worked, lookup)
	}
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		if _, err := fmt.Fprintln(out, "warning:", w); err != nil {
			return err
		}
	}
	for _, p := range cfg.Providers() {
		if _, err := fmt.Fprintf(out, "\n%v\n\n%v", p, cfg.Effective(p.Name)); err != nil {
			return err
		}
	}
	return nil
}
