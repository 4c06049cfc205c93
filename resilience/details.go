package resilience

import (
	"cmp"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/surefoot-go/surefoot/streamguard"
	"github.com/surefoot-go/surefoot/streamguard/wire"
)

// DetailsOf reads status, code and message out of an error of a client, such as
// an SDK's, without knowing the client. Of the first error in err's tree that
// tells: what the stack's own record says of the call, where the error has the
// response in a field or method Response or RawResponse; else the fields or
// methods StatusCode, HTTPStatusCode, Status or Code (a number 400 to 599), Code,
// ErrorCode, Type and Message, ErrorMessage, and RawJSON, where need be of the
// errors that it wraps. ok is false for every other error, such as a transport's
// or that of a stream that broke off. An error whose methods panic is not known.
func DetailsOf(err error) (status int, code, message string, ok bool) {
	for e := range errorTree(err) {
		if status, code, message, ok = detailsIn(e); ok {
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
	for _, e := range unwrapped(err) {
		if !walkErrors(e, yield) {
			return false
		}
	}
	return true
}

// unwrapped returns what err wraps, nothing if its method panics.
func unwrapped(err error) (list []error) {
	defer func() {
		if recover() != nil {
			list = nil
		}
	}()
	switch x := err.(type) { //nolint:errorlint // this is the unwrapping
	case interface{ Unwrap() error }:
		return []error{x.Unwrap()}
	case interface{ Unwrap() []error }:
		return x.Unwrap()
	}
	return nil
}

// find is errors.AsType for an error that may be a stranger's, whose methods may
// panic: then it finds nothing.
func find[E error](err error) (found E, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return errors.AsType[E](err)
}

// detailsIn is DetailsOf for one error of the tree.
func detailsIn(err error) (status int, code, message string, ok bool) {
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
	inc, stream := err.(*streamguard.IncompleteError) //nolint:errorlint // one error of the tree
	if stream && inc.Reason != streamguard.ReasonInBandError {
		return 0, "", "", false // its status is not an upstream's
	}
	if c := callOfResponse(responseIn(v)); c != nil { //nolint:bodyclose // it is the SDK's to close
		if status, code, message, ok = c.details(); ok && code+message != "" {
			return status, code, message, true // without words the error may have them
		}
	}
	if status = cmp.Or(status, statusIn(v)); status == 0 {
		return 0, "", "", false
	}
	for e := range errorTree(err) {
		if code != "" && message != "" {
			break
		}
		c, m := wordsIn(e, status)
		code, message = cmp.Or(code, c), cmp.Or(message, m)
	}
	return status, code, message, true
}

// responseIn returns the response that an error carries, nil if there is none.
// Some SDKs wrap it in a type of their own.
func responseIn(v reflect.Value) *http.Response {
	for _, name := range [...]string{"Response", "RawResponse"} {
		m := member(v, name)
		for m.IsValid() && m.CanInterface() {
			if resp, ok := m.Interface().(*http.Response); ok {
				return resp
			}
			m = member(m, name)
		}
	}
	return nil
}

func statusIn(v reflect.Value) int {
	for _, name := range [...]string{"StatusCode", "HTTPStatusCode", "Status", "Code"} {
		if n, found := number(member(v, name)); found && n >= 400 && n <= 599 {
			return n
		}
	}
	return 0
}

// wordsIn reads code and message of one error, whose status is known.
func wordsIn(err error, status int) (code, message string) {
	defer func() {
		if recover() != nil {
			code, message = "", ""
		}
	}()
	v := reflect.ValueOf(err)
	code = text(v, "Code", "ErrorCode", "Type")
	message = text(v, "Message", "ErrorMessage")
	raw := text(v, "RawJSON")
	if raw == "" && len(unwrapped(err)) == 0 && strings.HasPrefix(err.Error(), "{") {
		raw = err.Error() // cohere-go wraps the body as a text
	}
	if raw != "" && (code == "" || message == "") {
		f := wire.ParseFailure(status, []byte(raw))
		code, message = cmp.Or(code, f.Code, f.Type), cmp.Or(message, f.Message)
	}
	if word := text(v, "Status"); code == "" && !strings.Contains(word, " ") {
		code = word // genai's UNAVAILABLE; an HTTP status line has a space
	}
	return code, message
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
			return s.String()
		}
	}
	return ""
}
