// Resume reads a background response through openai-go while the provider's
// connection breaks twice in the middle of it. Once the stack takes the stream up
// again by itself (stream.resume: on) and the program notices nothing; once, with
// that off, the program does so with what the error says. It needs no key and no
// network: the provider is on loopback. An answer that is not whole makes it exit
// 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
	"github.com/surefoot-go/surefoot/streamguard"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "resume:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	for _, mode := range []string{streamguard.ResumeOn, streamguard.ResumeOff} {
		up := upstreamtest.New()
		defer up.Close()
		up.Default(upstreamtest.OK("The stream", " goes", " on.").CutAfterText(1).FIN().Keep())
		up.Rests(upstreamtest.Rest().CutAfter(1).InsideLine().FIN(), upstreamtest.Rest())

		policy := resilience.DefaultPolicy()
		policy.Stream.Resume = mode
		stack, err := resilience.Builder{}.Build("openai", policy)
		if err != nil {
			return err
		}
		client := openai.NewClient(
			option.WithBaseURL(up.URL+"/v1"), option.WithAPIKey("unused"),
			option.WithHTTPClient(stack.Client()), option.WithMaxRetries(0),
		)
		text, broken, err := answer(ctx, client)
		fmt.Fprintf(w, "resume: %-3s  %q, %d requests, the program saw %d breaks\n", mode, text, up.Count(), broken)
		if err != nil {
			return err
		}
		if text != "The stream goes on." {
			return fmt.Errorf("an answer that is not whole: %q", text)
		}
	}
	return nil
}

// answer reads a response to its end. It counts how often the stream broke off
// and the stack did not mend it.
func answer(ctx context.Context, client openai.Client) (text string, broken int, err error) {
	// The SDK stops at the error event and hands out none of the stack's errors:
	// the record of the call has it.
	ctx, record := resilience.WithRecord(ctx)
	stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{
		Model: "gpt-5", Background: openai.Bool(true),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")},
	})
	for {
		text += read(stream)
		err := stream.Err()
		if err == nil {
			return text, broken, nil
		}
		call, _ := record.Call()
		inc, ok := errors.AsType[*streamguard.IncompleteError](call.Err)
		if !ok || inc.Resume == nil || broken == 3 {
			return text, broken, err
		}
		broken++
		// The SDK asks for the stream in the body of a GET, which is not where it is
		// documented, nor where the stack looks.
		stream = client.Responses.GetStreaming(ctx, inc.Resume.ID,
			responses.ResponseGetParams{StartingAfter: openai.Int(inc.Resume.Sequence)}, option.WithQuery("stream", "true"))
	}
}

// read reads one stream to its end and returns its text.
func read(stream *ssestream.Stream[responses.ResponseStreamEventUnion]) (text string) {
	for stream.Next() {
		if event := stream.Current(); event.Type == "response.output_text.delta" {
			text += event.Delta
		}
	}
	_ = stream.Close() // Err says what there is to say
	return text
}
