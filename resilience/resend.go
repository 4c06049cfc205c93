package resilience

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/surefoot-go/surefoot/internal/layer"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// errNotTheSame is what a body is not sent again for.
var errNotTheSame = errors.New("GetBody gives another body than the one that was sent")

// again returns a GetBody for a body that was sent as it came. The copy from
// get is read once before it is sent: it has to have the same length and the
// same beginning, since code above may have replaced Body and left GetBody.
// Reading it ends with ctx.
func (rd *Reading) again(ctx context.Context, get func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		size := rd.upload.Size()
		if size < 0 {
			return nil, &ending.RequestError{Err: errors.New("body: its length is not known, so it cannot be sent again")}
		}
		if err := compare(ctx, get, rd.data, size); err != nil {
			return nil, &ending.RequestError{Err: fmt.Errorf("body: %w", err)}
		}
		body, err := get()
		if err == nil && body == nil {
			err = errNotTheSame
		}
		if err != nil {
			return nil, &ending.RequestError{Err: fmt.Errorf("body: GetBody: %w", err)}
		}
		return &layer.Upload{Body: body, Length: size}, nil
	}
}

// compare returns an error unless get gives a body that begins with head and is
// size bytes long.
func compare(ctx context.Context, get func() (io.ReadCloser, error), head []byte, size int64) error {
	body, err := get()
	if err != nil {
		return fmt.Errorf("GetBody: %w", err)
	}
	if body == nil {
		return errNotTheSame
	}
	defer func() { _ = body.Close() }() // it was only looked at
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop() // a Read that blocks ends with the call
	var buf [32 << 10]byte
	for rest := head; len(rest) > 0; {
		n, err := io.ReadFull(body, buf[:min(len(buf), len(rest))])
		if err != nil || !bytes.Equal(buf[:n], rest[:n]) {
			return errNotTheSame
		}
		rest = rest[n:]
	}
	n, err := io.Copy(io.Discard, body)
	if err != nil {
		return err
	}
	if int64(len(head))+n != size {
		return errNotTheSame
	}
	return nil
}
