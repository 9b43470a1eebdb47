package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/urfave/cli/v3"
)

func (a *app) pluginCommand() *cli.Command {
	return &cli.Command{
		Name:  "plugin",
		Usage: "look at plugins, check and install them, and operate those of a running server",
		Commands: []*cli.Command{
			a.pluginListCommand(), a.pluginInspectCommand(), a.pluginLogsCommand(),
			a.pluginSwapCommand(), a.pluginAcceptCommand(), a.pluginResetCommand(),
			a.pluginNewCommand(), a.pluginLintCommand(), a.pluginVerifyCommand(), a.pluginInstallCommand(), a.conformCommand(),
		},
		Action: func(_ context.Context, cmd *cli.Command) error { return groupAction(cmd) },
	}
}

func (a *app) pluginListCommand() *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list the plugins that are installed",
		Description: "Nothing is started. Where a server holds the data directory, the states of its\n" +
			"plugins are told: ready, starting, degraded, backoff, quarantined, failed, unused,\n" +
			"skipped or error. Otherwise, and with --files, the state is that of the files: ok\n" +
			"(configured, and serve would take its manifest and artifact: digest, imports,\n" +
			"modes and owners), unused (the same, but nothing asks for it), skipped (another\n" +
			"plugin of the name comes first) or error. What a plugin needs beside these files,\n" +
			"doctor finds out.",
		Flags: commonFlags(
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "check", Usage: "exit with 1 when a plugin is broken or a configured one is missing"},
			&cli.BoolFlag{Name: "files", Usage: "look at the files, also where a server runs"},
		),
		Action: a.pluginList,
	}
}

// stateOK is the state of a plugin that is configured and found to be right.
const stateOK host.PluginState = "ok"

func (a *app) pluginList(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	err = admin.ErrNoServer
	var list []host.PluginStatus
	if !cmd.Bool("files") {
		err = a.withServer(cmd, func(c *admin.Client) (err error) {
			list, err = c.Plugins(ctx)
			return err
		})
	}
	if errors.Is(err, admin.ErrNoServer) {
		list, err = s.plugins(ctx)
	}
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		err = printJSON(a.Stdout, list)
	} else {
		err = printPlugins(a.Stdout, list, s.pluginDirs)
	}
	if err != nil {
		return err
	}
	broken := slices.ContainsFunc(list, func(p host.PluginStatus) bool {
		return slices.Contains([]host.PluginState{host.PluginError, host.PluginBackoff, host.PluginQuarantined, host.PluginFailed}, p.State)
	})
	if cmd.Bool("check") && broken {
		return &kindError{failedRefused, errors.New("a plugin is broken or missing")}
	}
	return nil
}

// plugins lists what is installed, and what is configured and is not.
func (s settings) plugins(ctx context.Context) ([]host.PluginStatus, error) {
	trust, err := s.Trust()
	if err != nil {
		return nil, err
	}
	list, err := host.Discover(ctx, s.pluginDirs, trust)
	if err != nil {
		return nil, err
	}
	wanted := s.wanted()
	for i, p := range list {
		if p.State == host.PluginUnused && wanted[p.Name] != "" {
			list[i].State = stateOK
			if want := wanted[p.Name]; want != p.Kind {
				list[i].State = host.PluginError
				list[i].Cause = fmt.Sprintf("is configured as a %s plugin", want)
				list[i].Fix = fmt.Sprintf("name a %s plugin in its place in the configuration", want)
			}
		}
	}
	var missing []string
	for name := range wanted {
		if !slices.ContainsFunc(list, func(p host.PluginStatus) bool { return p.Name == name }) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		list = append(list, host.PluginStatus{
			Name: name, Kind: wanted[name], State: host.PluginError, Cause: "is configured and not installed",
		})
	}
	return list, nil
}

// wanted is the kind of every plugin that the configuration names.
func (s settings) wanted() map[string]string {
	m := make(map[string]string)
	for _, b := range s.Backends {
		m[b.Plugin] = "backend"
	}
	for _, p := range s.Policies {
		m[p.Plugin] = "policy"
	}
	for _, l := range s.Languages {
		m[l] = "language"
	}
	return m
}

func printPlugins(w io.Writer, list []host.PluginStatus, dirs []string) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "no plugins in %s\n", safe(strings.Join(dirs, ", ")))
		return err
	}
	t := newTable(w, "NAME", "KIND", "RUNTIME", "VERSION", "STATE", "DIGEST", "CAUSE")
	for _, p := range list {
		digest := p.SHA256
		if len(digest) > 12 {
			digest = digest[:12]
		}
		cause, _, more := strings.Cut(p.Cause, "\n")
		if more {
			cause += " (and more: see --json)"
		}
		t.row(p.Name, dash(p.Kind), dash(p.Runtime), dash(p.Version), string(p.State), dash(digest), dash(cause))
	}
	return t.flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
