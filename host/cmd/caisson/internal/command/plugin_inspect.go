package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/urfave/cli/v3"
)

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
	name, err := foundArg(cmd, 0)
	if err != nil {
		return err
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
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
		return host.PluginDetail{}, &kindError{failedNotFound, fmt.Errorf("no plugin is called %q in %s", name, strings.Join(s.pluginDirs, ", "))}
	}
	d := host.Lint(ctx, list[i].Dir, host.Trust{})
	d.PluginStatus = list[i]
	return d, nil
}

func printDetail(w io.Writer, d host.PluginDetail) error {
	t := newTable(w)
	row := func(name, format string, args ...any) {
		if v := fmt.Sprintf(format, args...); v != "" {
			t.row(name, v)
		}
	}
	list := func(items []string) string { return strings.Join(items, ", ") }
	row("name", "%s", d.Name)
	row("kind", "%s", d.Kind)
	row("version", "%s", d.Version)
	row("state", "%s", d.State)
	head := "cause"
	for line := range strings.SplitSeq(strings.TrimRight(d.Cause, "\n"), "\n") { // what is wrong may be several things
		row(head, "%s", line)
		head = ""
	}
	row("fix", "%s", d.Fix)
	for _, w := range d.Warnings {
		row("warning", "%s", w)
	}
	switch {
	case d.SHA256 != "":
		row("digest", "%s", d.SHA256)
	case d.Digest != "":
		row("digest", "%s, not pinned", d.Digest)
	}
	row("licence", "%s", d.Licence)
	row("description", "%s", d.Description)
	row("directory", "%s", d.Dir)
	row("artifact", "%s", d.Path)
	row("protocol", "%s", strings.Trim(fmt.Sprint(d.Protocol), "[]"))
	row("abi", "%s", d.ABI)
	row("capabilities", "%s", list(d.Capabilities))
	row("lacks", "%s", list(d.Lacks))
	row("state schema", "%s", list(d.StateSchema))
	row("host functions", "%s", list(d.Imports))
	row("imports", "%s", list(d.Links))
	row("needs", "%s", list(d.Needs))
	row("hooks", "%s", list(d.Hooks))
	row("environment", "%s", list(d.Env))
	row("configs", "%s", list(d.Configs))
	if p := d.Process; p != nil {
		printProcess(row, d, *p)
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
	return t.flush()
}

func printProcess(row func(name, format string, args ...any), d host.PluginDetail, p host.ProcessDetail) {
	if p.PID > 0 {
		row("process", "%d, since %s", p.PID, d.Since.UTC().Format(time.RFC3339))
	}
	if p.MemoryHigh > 0 {
		row("memory", "%d bytes used at most", p.MemoryHigh)
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
