package command

import (
	"context"
	"io"

	"github.com/caisson-run/caisson/plugins/exec/mcp"
	"github.com/urfave/cli/v3"
)

func (a *app) mcpCommand() *cli.Command {
	return &cli.Command{
		Name:  "mcp",
		Usage: "offer a server to one client of the Model Context Protocol, over standard input and output",
		Description: "The server answers the protocol itself, over HTTP, at /mcp; this is for clients that start\n" +
			"a program instead.\n" + remoteHelp,
		Flags:  remoteFlags(logFlags("warn")...),
		Action: a.mcp,
	}
}

func (a *app) mcp(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	c, err := a.remote(cmd)
	if err != nil {
		return err
	}
	ctx, _, release := a.signals(ctx, log)
	defer release()
	in, ok := a.Stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(a.Stdin)
	}
	return mcp.Stdio(ctx, c, version(), in, unclosed{a.Stdout}, func(tool string, err error) {
		log.Error("a tool failed", "tool", tool, "error", err)
	})
}

// unclosed stays open for who else writes to it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
