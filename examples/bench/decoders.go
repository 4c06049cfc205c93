package main

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicsse "github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	"github.com/openai/openai-go/v3"
	openaisse "github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/tmaxmax/go-sse"
)

// events is what the SDKs' decoders and typed streams have in common.
type events interface {
	Next() bool
	Err() error
}

// counted goes through all the events of what open returns.
func counted(open func() events) func(b *testing.B) {
	return func(b *testing.B) {
		for b.Loop() {
			s, n := open(), 0
			for s.Next() {
				n++
			}
			enough(b, n, s.Err())
		}
	}
}

func enough(b *testing.B, n int, err error) {
	if err != nil || n < streamEvents {
		b.Fatal(n, err)
	}
}

func openAIStream(data []byte) func(b *testing.B) {
	return counted(func() events {
		return openaisse.NewStream[openai.ChatCompletionChunk](openaisse.NewDecoder(eventStream(nil, bytes.NewReader(data))), nil) //nolint:bodyclose // from memory
	})
}

func anthropicStream(data []byte) func(b *testing.B) {
	return counted(func() events {
		return anthropicsse.NewStream[anthropic.MessageStreamEventUnion](anthropicsse.NewDecoder(eventStream(nil, bytes.NewReader(data))), nil) //nolint:bodyclose // from memory
	})
}

func scannedLines(data []byte) func(b *testing.B) {
	return func(b *testing.B) {
		for b.Loop() {
			s, n := bufio.NewScanner(bytes.NewReader(data)), 0
			for s.Scan() {
				n++
			}
			enough(b, n, s.Err())
		}
	}
}

func goSSE(data []byte) func(b *testing.B) {
	return func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, err := range sse.Read(bytes.NewReader(data), nil) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			enough(b, n, nil)
		}
	}
}
