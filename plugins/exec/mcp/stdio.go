package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/caisson-run/caisson/sdk/client"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds one message of a client that speaks over streams.
const maxLine = 16 << 20

// Stdio answers one client over a pair of streams until in ends, which is success, or
// ctx does; calls under way end with it. A line that is no message, or too long, is
// answered with an error of JSON-RPC. What tools ask for goes to the server that c calls,
// with its credential. fault is told what the client must not see.
func Stdio(ctx context.Context, c *client.Client, version string, in io.ReadCloser, out io.WriteCloser, fault func(tool string, err error)) error {
	t := &tools{output: defaultOutput, fault: fault}
	t.caller = func(ctx context.Context, _ *sdk.RequestExtra) (*client.Client, context.Context, context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(ctx)
		return c, ctx, cancel, nil
	}
	answers := &whole{WriteCloser: out}
	err := newServer(t, version, nil, nil).Run(ctx, &sdk.IOTransport{Reader: newLines(in, answers, maxLine), Writer: answers, MaxLineLength: -1})
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil
}
