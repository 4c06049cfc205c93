package matrix

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

// Main is the command of a table: it prints it, or compares or replaces the one
// between the file's markers of this name. It exits 1 if the stack fell short in
// a cell.
func Main(name string, all []adapter.SDK) {
	write := flag.String("w", "", "write the table into this `file`, between its markers")
	check := flag.String("check", "", "fail unless this `file` has this table between its markers")
	flag.Parse()
	if err := run(context.Background(), name, all, *write, *check); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, all []adapter.SDK, write, check string) error {
	table, err := build(ctx, name, all)
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
