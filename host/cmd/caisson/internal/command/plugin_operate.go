package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/urfave/cli/v3"
)

// The commands that speak to the server that holds the data directory.

func (a *app) pluginSwapCommand() *cli.Command {
	return &cli.Command{
		Name:      "swap",
		Usage:     "put another version of a plugin in use, without losing a request",
		ArgsUsage: "NAME DIR",
		Description: "DIR holds the next version with its plugin.yaml. It is verified, started and\n" +
			"looked at beside the version that serves; then requests go to it, and for the\n" +
			"time of --watch it is sent back when it crashes or fails most of what it is\n" +
			"asked, also when this command has gone: \"plugin inspect\" tells how the last swap\n" +
			"ended, and \"plugin accept\" ends its watch. It serves until the server stops: to\n" +
			"keep it, install it.\n" +
			"Exits with 1 when the version before still serves, or serves again.",
		Flags: commonFlags(
			&cli.BoolFlag{Name: "probe", Usage: "refuse a backend with which a configured sandbox could not be made"},
			&cli.DurationFlag{Name: "watch", Usage: "keep the version before ready for `TIME`; 0 does not watch", Value: host.DefaultWatch},
			&cli.IntFlag{Name: "replay", Usage: "let a policy judge the newest `N` requests again before it serves, and tell what differs"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		),
		Action: a.pluginSwap,
	}
}

func (a *app) pluginSwap(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "NAME", "DIR"); err != nil {
		return err
	}
	name, err := pluginArg(cmd, 0)
	if err != nil {
		return err
	}
	dir, err := dirArg(cmd, 1)
	if err != nil {
		return err
	}
	o := host.SwapOptions{Dir: dir, Probe: cmd.Bool("probe"), Watch: cmd.Duration("watch"), Replay: cmd.Int("replay")}
	switch {
	case o.Watch < 0:
		return usagef(cmd, "--watch %v: must not be negative", o.Watch)
	case o.Watch == 0:
		o.Watch = -1
	}
	var r host.SwapReport
	if err := a.withServer(cmd, func(c *admin.Client) (err error) {
		r, err = c.SwapPlugin(ctx, name, o)
		return err
	}); err != nil {
		return err
	}
	if cmd.Bool("json") {
		if err := printJSON(a.Stdout, r); err != nil {
			return err
		}
	} else {
		printSwap(a.Stdout, r)
		if r.Replay != nil {
			if err := printReplay(a.Stdout, *r.Replay); err != nil {
				return err
			}
		}
	}
	if r.Outcome != host.SwapDone {
		return exitCode(exitFailure)
	}
	return nil
}

func printSwap(w io.Writer, r host.SwapReport) {
	switch r.Outcome {
	case host.SwapDone:
		fmt.Fprintf(w, "%s %s serves in the place of %s%s\n", r.Plugin, r.To.Version, r.From.Version, safe(because(r.Reason)))
	case host.SwapRolledBack:
		fmt.Fprintf(w, "%s %s serves again, %s was sent back: %s\n", r.Plugin, r.From.Version, r.To.Version, safe(r.Reason))
	default:
		fmt.Fprintf(w, "%s %s still serves, the next version was refused: %s\n", r.Plugin, r.From.Version, safe(r.Reason))
		return
	}
	fmt.Fprintf(w, "ready after %v, the last call on the version that left ended after %v\n",
		r.Prepare.Round(time.Millisecond), r.Drain.Round(time.Millisecond))
	if r.Staying > 0 {
		fmt.Fprintf(w, "it stays for %d sandboxes that %s does not serve\n", r.Staying, r.To.Version)
	}
	if r.InFlight > 0 {
		fmt.Fprintf(w, "%d still run on it and end where they began\n", r.InFlight)
	}
}

func (a *app) reloadCommand() *cli.Command {
	return &cli.Command{
		Name: "reload", Usage: "make a running server read its configuration again",
		Description: "Named configs, plugins, the default backend, policies, languages and limits change\n" +
			"without losing a request; plugins that were installed over the ones in use are\n" +
			"swapped in. Prints what changed, and which keys need a restart.",
		Flags: commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := exactArgs(cmd); err != nil {
				return err
			}
			return a.withServer(cmd, func(c *admin.Client) error {
				changes, err := c.Reload(ctx)
				if err == nil && cmd.Bool("json") {
					return printJSON(a.Stdout, map[string][]string{"changes": changes})
				}
				for _, change := range changes {
					fmt.Fprintln(a.Stdout, safe(change))
				}
				return err
			})
		},
	}
}

func (a *app) pluginAcceptCommand() *cli.Command {
	return &cli.Command{
		Name: "accept", Usage: "end the watch of a swap: the version that is watched stays", ArgsUsage: "NAME",
		Description: "Nothing else can be swapped or reloaded while a version is watched.",
		Flags:       commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return a.pluginAct(ctx, cmd, (*admin.Client).AcceptSwap)
		},
	}
}

func (a *app) pluginResetCommand() *cli.Command {
	return &cli.Command{
		Name: "reset", Usage: "let a plugin out of quarantine, and start it now", ArgsUsage: "NAME",
		Flags: commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return a.pluginAct(ctx, cmd, (*admin.Client).ResetPlugin)
		},
	}
}

// pluginAct does something to one plugin and tells how it is then.
func (a *app) pluginAct(ctx context.Context, cmd *cli.Command, act func(*admin.Client, context.Context, string) error) error {
	if err := exactArgs(cmd, "NAME"); err != nil {
		return err
	}
	name, err := pluginArg(cmd, 0)
	if err != nil {
		return err
	}
	var d host.PluginDetail
	err = a.withServer(cmd, func(c *admin.Client) (err error) {
		if err = act(c, ctx, name); err == nil {
			d, err = c.Plugin(ctx, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return printJSON(a.Stdout, d.PluginStatus)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s %s is %s\n", d.Name, d.Version, d.State)
	return err
}

func (a *app) pluginLogsCommand() *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "print the last lines that a backend's process logged", ArgsUsage: "NAME",
		Flags: commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := exactArgs(cmd, "NAME"); err != nil {
				return err
			}
			name, err := pluginArg(cmd, 0)
			if err != nil {
				return err
			}
			var lines []string
			if err := a.withServer(cmd, func(c *admin.Client) (err error) {
				lines, err = c.PluginLog(ctx, name)
				return err
			}); err != nil {
				return err
			}
			if cmd.Bool("json") {
				return printJSON(a.Stdout, lines)
			}
			for _, l := range lines {
				fmt.Fprintln(a.Stdout, safe(l))
			}
			return nil
		},
	}
}
