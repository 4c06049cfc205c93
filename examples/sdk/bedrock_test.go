package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/sdks"
	"github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

// awsError is all that bedrockruntime says of an error: its Go type, its code,
// its message, the status.
func awsError(err error) any {
	exception, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return fmt.Sprintf("no exception in %#v", err)
	}
	status := 0
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = resp.HTTPStatusCode()
	}
	return []any{fmt.Sprintf("%T", exception), exception.ErrorCode(), exception.ErrorMessage(), status}
}

func drain[E any](events <-chan E) {
	for range events { //nolint:revive // only the end is of interest
	}
}

// bedrockCalls are the SDK's four ways to ask a model.
var bedrockCalls = map[string]func(context.Context, *http.Client, string) error{
	"Converse": func(ctx context.Context, hc *http.Client, url string) error {
		_, err := sdks.Bedrock(hc, url).Converse(ctx, &bedrockruntime.ConverseInput{ModelId: aws.String("m")})
		return err
	},
	"ConverseStream": func(ctx context.Context, hc *http.Client, url string) error {
		out, err := sdks.Bedrock(hc, url).ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String("m")})
		if err != nil {
			return err
		}
		drain(out.GetStream().Events())
		return errors.Join(out.GetStream().Err(), out.GetStream().Close())
	},
	"InvokeModel": func(ctx context.Context, hc *http.Client, url string) error {
		_, err := sdks.Bedrock(hc, url).InvokeModel(ctx, &bedrockruntime.InvokeModelInput{ModelId: aws.String("m"), Body: []byte(`{}`)})
		return err
	},
	"InvokeModelWithResponseStream": func(ctx context.Context, hc *http.Client, url string) error {
		out, err := sdks.Bedrock(hc, url).InvokeModelWithResponseStream(ctx,
			&bedrockruntime.InvokeModelWithResponseStreamInput{ModelId: aws.String("m"), Body: []byte(`{}`)})
		if err != nil {
			return err
		}
		drain(out.GetStream().Events())
		return errors.Join(out.GetStream().Err(), out.GetStream().Close())
	},
}

// An exception that a 200 hides, in its body or as the first frame of a stream,
// is the type to bedrockruntime that the real status gives.
func TestUnmaskedBedrockExceptionsKeepTheirType(t *testing.T) {
	for name, call := range bedrockCalls {
		stream := name == "ConverseStream" || name == "InvokeModelWithResponseStream"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{400, 403, 404, 424, 429, 500, 503, 408} {
				real := upstreamtest.Status(status)
				want := awsError(failure(t, call, bare, real))
				t.Logf("%d: %v", status, want)
				assert.Equal(t, want, awsError(failure(t, call, stacked, real)), "a real status passes unchanged")
				ways := map[string]upstreamtest.Step{"body of a 200": upstreamtest.Hidden(upstreamtest.HiddenCoral, status)}
				timeout := status == http.StatusRequestTimeout && name == "ConverseStream" // it has no such exception
				if stream && !timeout && status != http.StatusFailedDependency {           // a stream's own: see below
					ways["first frame"] = upstreamtest.OK("a").FailAfter(0, status)
				}
				for way, step := range ways {
					t.Run(fmt.Sprintf("%d, %s", status, way), func(t *testing.T) {
						assert.Equal(t, want, awsError(failure(t, call, stacked, step)))
					})
				}
			}
			if stream {
				t.Run("an exception that only a stream has", func(t *testing.T) {
					real := upstreamtest.Status(http.StatusFailedDependency).Header("X-Amzn-Errortype", "ModelStreamErrorException")
					want := awsError(failure(t, call, bare, real))
					assert.Equal(t, want, awsError(failure(t, call, stacked, upstreamtest.OK("a").FailAfter(0, http.StatusFailedDependency))))
				})
			}
		})
	}
}
