package sdks

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/surefoot-go/surefoot/examples/sdk/internal/adapter"
)

// Bedrock is a client of bedrockruntime as the stack wants it. A request is
// signed above the stack, which sends the same bytes at each attempt.
func Bedrock(client *http.Client, baseURL string) *bedrockruntime.Client {
	return bedrockruntime.New(bedrockruntime.Options{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(baseURL),
		HTTPClient:   client,
		Retryer:      aws.NopRetryer{}, // the stack's business
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: key}, nil
		}),
	})
}

func askBedrock(ctx context.Context, hc *http.Client, baseURL string, stream bool) (string, error) {
	c := Bedrock(hc, baseURL)
	question := []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: prompt}}}}
	if stream {
		return readBedrock(ctx, c, question)
	}
	answer, err := c.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: aws.String(Model), Messages: question})
	if err != nil {
		return "", err
	}
	message, ok := answer.Output.(*types.ConverseOutputMemberMessage)
	if !ok {
		return "", nil
	}
	var said adapter.Transcript
	for _, block := range message.Value.Content {
		switch b := block.(type) {
		case *types.ContentBlockMemberText:
			said.Text(b.Value)
		case *types.ContentBlockMemberToolUse:
			input, err := b.Value.Input.MarshalSmithyDocument()
			if err != nil {
				return said.String(), err
			}
			said.Call(aws.ToString(b.Value.Name), string(input))
		}
	}
	return said.String(), nil
}

func readBedrock(ctx context.Context, c *bedrockruntime.Client, question []types.Message) (string, error) {
	answer, err := c.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String(Model), Messages: question})
	if err != nil {
		return "", err
	}
	s := answer.GetStream()
	defer func() { _ = s.Close() }() // read to its end, or broken
	var said adapter.Transcript
	for event := range s.Events() {
		switch e := event.(type) {
		case *types.ConverseStreamOutputMemberContentBlockStart:
			if tool, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
				said.Call(aws.ToString(tool.Value.Name), "")
			}
		case *types.ConverseStreamOutputMemberContentBlockDelta:
			switch d := e.Value.Delta.(type) {
			case *types.ContentBlockDeltaMemberText:
				said.Text(d.Value)
			case *types.ContentBlockDeltaMemberToolUse:
				said.Call("", aws.ToString(d.Value.Input))
			}
		}
	}
	return said.String(), s.Err()
}

func bedrockStatus(err error) int {
	var e *smithyhttp.ResponseError
	if errors.As(err, &e) {
		return e.HTTPStatusCode()
	}
	return 0
}
