package failover

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// ClassifyError reads status, code and message out of an SDK's error, without
// knowing the SDK: from the fields or methods StatusCode, HTTPStatusCode,
// Status or Code (a number 400 to 599), Code, ErrorCode, Type and Message,
// ErrorMessage, and from RawJSON, of the first error in err's tree that has a
// status. ok is false for every other error, such as a transport's.
func ClassifyError(err error) (status int, code, message string, ok bool) {
	var (
		transport *resilience.Error
		chain     *Error
	)
	if errors.As(err, &transport) || errors.As(err, &chain) {
		return 0, "", "", false
	}
	for e := range errorTree(err) {
		if status, code, message, ok = classifyOne(e); ok {
			return status, code, message, true
		}
	}
	return 0, "", "", false
}

// errorTree yields err and everything that it wraps, in the order in which
// errors.As looks.
func errorTree(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) { walkErrors(err, yield) }
}

func walkErrors(err error, yield func(error) bool) bool {
	if err == nil {
		return true
	}
	if !yield(err) {
		return false
	}
	switch x := err.(type) { //nolint:errorlint // this is the unwrapping
	case interface{ Unwrap() error }:
		return walkErrors(x.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			if !walkErrors(e, yield) {
				return false
			}
		}
	}
	return true
}

func classifyOne(err error) (status int, code, message string, ok bool) {
	// A method of a foreign type may panic, on a nil pointer inside for
	// example: such an error is not known.
	defer func() {
		if recover() != nil {
			status, code, message, ok = 0, "", "", false
		}
	}()
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return 0, "", "", false
	}
	for _, name := range [...]string{"StatusCode", "HTTPStatusCode", "Status", "Code"} {
		if n, found := number(member(v, name)); found && n >= 400 && n <= 599 {
			status = n
			break
		}
	}
	if status == 0 {
		return 0, "", "", false
	}
	code = text(v, "Code", "ErrorCode", "Type")
	message = text(v, "Message", "ErrorMessage")
	if raw := text(v, "RawJSON"); raw != "" && (code == "" || message == "") {
		f := wire.ParseFailure(status, []byte(raw))
		code, message = first(code, f.Code, f.Type), first(message, f.Message)
	}
	if word := text(v, "Status"); code == "" && !strings.Contains(word, " ") {
		code = word // genai's UNAVAILABLE; an HTTP status line has a space
	}
	return status, code, message, true
}

// member returns the value of an exported field or of a method without
// arguments and with one result; the zero Value if there is none.
func member(v reflect.Value, name string) reflect.Value {
	if m := v.MethodByName(name); m.IsValid() {
		if m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
			return m.Call(nil)[0]
		}
		return reflect.Value{}
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	f, ok := v.Type().FieldByName(name)
	if !ok || !f.IsExported() {
		return reflect.Value{}
	}
	out, err := v.FieldByIndexErr(f.Index) // a nil embedded pointer has no fields
	if err != nil {
		return reflect.Value{}
	}
	return out
}

// plain follows pointers and interfaces to the value behind them.
func plain(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	return v
}

func number(v reflect.Value) (int, bool) {
	v = plain(v)
	switch {
	case !v.IsValid():
		return 0, false
	case v.CanInt():
		return int(v.Int()), true
	case v.CanUint():
		return int(min(v.Uint(), http.StatusNetworkAuthenticationRequired+100)), true
	case v.CanFloat():
		return int(v.Float()), true
	}
	return 0, false
}

// text returns the first member of these that is a text with anything in it.
func text(v reflect.Value, names ...string) string {
	for _, name := range names {
		if s := plain(member(v, name)); s.IsValid() && s.Kind() == reflect.String && s.Len() > 0 {
			return fmt.Sprint(s.String())
		}
	}
	return ""
}

func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}
