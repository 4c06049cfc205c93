// Matrix prints, as a Markdown table, what each Go SDK makes of each
// misbehaviour of a provider, bare and under the stack.
//
//	go run ./matrix                       print the table
//	go run ./matrix -w ../../README.md    write it between the file's markers
//	go run ./matrix -check ../../README.md  fail if the file's table is another
package main

import (
	"github.com/surefoot-go/surefoot/examples/sdk/internal/matrix"
	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
)

func main() { matrix.Main("sdk-matrix", sdks.All()) }
