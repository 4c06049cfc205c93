package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/streamguard/wire"
)

var jsonSeeds = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1e5`, `1E+`, `1.5e-10`, `true`, `tru`, `nulll`, ` null `, `{"a":1,}`, `[1,]`, `[,]`,
	`{"a" : [ 1 , "x\u00e9\n" , {"b":null} ] }`, `{"a":1 "b":2}`, `{a:1}`, `"\x"`, `"\u12g4"`, `"\u12`, "\"a\tb\"", "\"a\x7fb\"", "\"\xff\"",
	`"12345678"`, `"1234567\"8"`, `"1234567890123456\\"`, `{"choices":[{"index":0,"delta":{"content":"x"}}]}`, ``, ` `, `{`, `[`, `"`, `{"a"`, `{"a":`,
	"\ufeff{}", `{}{}`, `{} x`, "{\"a\":\"\u2028\"}", `[[[[]]]]`, `[}`, `{]`, `{"":""}`, "\x00", `1 2`, `{"a":1}]`,
}

func TestJSONAgreesWithStandardLibrary(t *testing.T) {
	for _, s := range jsonSeeds {
		assert.Equal(t, json.Valid([]byte(s)), wire.Valid([]byte(s)), "%q", s)
		assert.Equal(t, json.Valid([]byte(s)), wire.Walk([]byte(s)), "walking %q", s)
	}
	for _, n := range []int{9999, 10000, 10001} {
		s := []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
		assert.Equal(t, json.Valid(s), wire.Valid(s), "%d levels", n)
		assert.Equal(t, json.Valid(s), wire.Walk(s), "walking %d levels", n)
		s = []byte(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
		assert.Equal(t, json.Valid(s), wire.Valid(s), "%d objects", n)
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := json.Valid(b)
		if wire.Valid(b) != want || wire.Walk(b) != want {
			t.Fatalf("%q: valid %t, walk %t, want %t", b, wire.Valid(b), wire.Walk(b), want)
		}
	})
}
