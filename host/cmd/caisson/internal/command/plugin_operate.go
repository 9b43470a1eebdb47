package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
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
			"ended. It serves until the server stops: to keep it, install it.\n" +
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
	dir, err := filepath.Abs(cmd.Args().Get(1))
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
		r, err = c.SwapPlugin(ctx, cmd.Args().First(), o)
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
		fmt.Fprintf(w, "%s %s serves in the place of %s%s\n", r.Plugin, r.To.Version, r.From.Version, because(r.Reason))
	case host.SwapRolledBack:
		fmt.Fprintf(w, "%s %s serves again, %s was sent back: %s\n", r.Plugin, r.From.Version, r.To.Version, r.Reason)
	default:
		fmt.Fprintf(w, "%s %s still serves, the next version was refused: %s\n", r.Plugin, r.From.Version, r.Reason)
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
		Flags: commonFlags(),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := exactArgs(cmd); err != nil {
				return err
			}
			return a.withServer(cmd, func(c *admin.Client) error {
				changes, err := c.Reload(ctx)
				for _, change := range changes {
					fmt.Fprintln(a.Stdout, change)
				}
				return err
			})
		},
	}
}

func (a *app) pluginResetCommand() *cli.Command {
	return &cli.Command{
		Name: "reset", Usage: "let a plugin out of quarantine, and start it now", ArgsUsage: "NAME",
		Flags: commonFlags(),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := exactArgs(cmd, "NAME"); err != nil {
				return err
			}
			return a.withServer(cmd, func(c *admin.Client) error { return c.ResetPlugin(ctx, cmd.Args().First()) })
		},
	}
}

func (a *app) pluginLogsCommand() *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "print the last lines that a backend's process logged", ArgsUsage: "NAME",
		Flags: commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := exactArgs(cmd, "NAME"); err != nil {
				return err
			}
			var lines []string
			if err := a.withServer(cmd, func(c *admin.Client) (err error) {
				lines, err = c.PluginLog(ctx, cmd.Args().First())
				return err
			}); err != nil {
				return err
			}
			if cmd.Bool("json") {
				return printJSON(a.Stdout, lines)
			}
			for _, l := range lines {
				fmt.Fprintln(a.Stdout, l)
			}
			return nil
		},
	}
}

func (a *app) pluginInspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Usage: "print everything that is known of a plugin", ArgsUsage: "NAME",
		Description: "Of the running server, if there is one; otherwise what its files say.",
		Flags:       commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action:      a.pluginInspect,
	}
}

func (a *app) pluginInspect(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "NAME"); err != nil {
		return err
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	name := cmd.Args().First()
	var d host.PluginDetail
	err = a.withServer(cmd, func(c *admin.Client) (err error) {
		d, err = c.Plugin(ctx, name)
		return err
	})
	if errors.Is(err, admin.ErrNoServer) {
		d, err = s.inspectFiles(ctx, name)
	}
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return printJSON(a.Stdout, d)
	}
	return printDetail(a.Stdout, d)
}

// inspectFiles describes an installed plugin that nobody runs.
func (s settings) inspectFiles(ctx context.Context, name string) (host.PluginDetail, error) {
	list, err := s.plugins(ctx)
	if err != nil {
		return host.PluginDetail{}, err
	}
	i := slices.IndexFunc(list, func(p host.PluginStatus) bool { return p.Name == name })
	if i < 0 {
		return host.PluginDetail{}, fmt.Errorf("no plugin is called %q in %s", name, strings.Join(s.pluginDirs, ", "))
	}
	d := host.Lint(ctx, list[i].Dir, host.Trust{})
	d.PluginStatus = list[i]
	return d, nil
}

func printDetail(w io.Writer, d host.PluginDetail) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		if v := fmt.Sprintf(format, args...); v != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, v)
		}
	}
	list := func(items []string) string { return strings.Join(items, ", ") }
	row("name", "%s", d.Name)
	row("kind", "%s", d.Kind)
	row("version", "%s", d.Version)
	row("state", "%s", d.State)
	row("cause", "%s", d.Cause)
	row("fix", "%s", d.Fix)
	row("digest", "%s", d.SHA256)
	row("licence", "%s", d.Licence)
	row("description", "%s", d.Description)
	row("directory", "%s", d.Dir)
	row("artifact", "%s", d.Path)
	row("protocol", "%s", strings.Trim(fmt.Sprint(d.Protocol), "[]"))
	row("abi", "%s", d.ABI)
	row("capabilities", "%s", list(d.Capabilities))
	row("state schema", "%s", list(d.StateSchema))
	row("imports", "%s", list(d.Imports))
	row("needs", "%s", list(d.Needs))
	row("hooks", "%s", list(d.Hooks))
	row("environment", "%s", list(d.Env))
	row("configs", "%s", list(d.Configs))
	if p := d.Process; p != nil {
		if p.PID > 0 {
			row("process", "%d, since %s", p.PID, d.Since.UTC().Format(time.RFC3339))
		}
		row("starts", "%d, %d of them restarts", p.Starts, d.Restarts)
		row("calls", "%d, %d failed", p.Calls, p.Failed)
		row("log lines dropped", "%d", p.LogDropped)
		for _, g := range p.Generations {
			row(fmt.Sprintf("generation %d", g.Generation), "%d calls in flight, %d held", g.Calls, g.Held)
		}
		if e := p.LastEnd; e != nil {
			row("last end", "%s, after %v: %s", e.At.UTC().Format(time.RFC3339), e.Uptime.Round(time.Millisecond), e.Cause)
		}
	}
	if s := d.LastSwap; s != nil {
		row("last swap", "%s, from %s to %s, %s%s", s.At.UTC().Format(time.RFC3339), s.From.Version, cmp.Or(s.To.Version, "none"),
			strings.ReplaceAll(string(s.Outcome), "_", " "), because(s.Reason))
	}
	if m := d.Module; m != nil {
		row("revision", "%s", m.Revision)
		row("stopped by", "%s, at most %d units a call, %d used at most", m.Stop, m.FuelLimit, m.FuelHigh)
		row("memory", "at most %d bytes, %d used at most", m.MemoryLimit, m.MemoryHigh)
		row("calls", "%d, %s", m.Calls, failures(m.Failures))
		row("instances", "%d, %d idle, %d discarded, %d refilled", m.Instances, m.Idle, m.Discards, m.Refills)
		row("waits", "%d, %v in all", m.Waits, m.Waited)
	}
	return tw.Flush()
}

// because appends a reason, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func failures(by map[string]uint64) string {
	var parts []string
	for reason, n := range by {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	if len(parts) == 0 {
		return "none failed"
	}
	slices.Sort(parts)
	return "failed: " + strings.Join(parts, ", ")
}
