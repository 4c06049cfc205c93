// Matrix prints, as a Markdown table, what each Go SDK makes of each
// misbehaviour of a provider: over a bare client, and over the stack. Every
// cell is computed by a call over loopback; the SDKs' own retries are off.
//
//	go run ./matrix                       print the table
//	go run ./matrix -w ../../README.md    write it between the file's markers
//	go run ./matrix -check ../../README.md  fail if the file's table is another
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

func main() {
	write := flag.String("w", "", "write the table into this `file`, between its markers")
	check := flag.String("check", "", "fail unless this `file` has this table between its markers")
	flag.Parse()
	if err := run(context.Background(), *write, *check); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, write, check string) error {
	table, err := build(ctx)
	if err != nil {
		return err
	}
	switch {
	case write != "":
		err = writeTable(write, table)
	case check != "":
		err = checkTable(check, table)
	default:
		fmt.Print(table.markdown())
	}
	if err != nil {
		return err
	}
	return table.verdict()
}
