package wire

import "errors"

// ErrNoModel says that a body has no top-level model to replace.
var ErrNoModel = errors.New("no model in the request body")

// errNotJSON says that a body is no JSON object.
var errNotJSON = errors.New("request body is no valid JSON object")

// ReplaceModel returns a copy of the JSON object body in which the value of
// each top-level member "model", whatever it was, is model. No other byte is
// changed. It returns [ErrNoModel] if there is no such member and another
// error if body is no valid JSON object.
func ReplaceModel(body []byte, model string) ([]byte, error) {
	value := quote(model)
	var out []byte
	done := 0
	p := parse(body)
	for ok := p.object(); ok && p.member(); {
		isModel, start := string(p.name) == "model", p.i
		p.skip()
		if isModel && !p.bad {
			if out == nil {
				out = make([]byte, 0, len(body)+len(value))
			}
			out = append(append(out, body[done:start]...), value...)
			done = p.i
		}
	}
	switch {
	case !p.end():
		return nil, errNotJSON
	case out == nil:
		return nil, ErrNoModel
	}
	return append(out, body[done:]...), nil
}
