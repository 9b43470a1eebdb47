package command

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/plugindir"
	"github.com/caisson-run/caisson/manifest"
	"github.com/urfave/cli/v3"
)

// The commands for those who write plugins or are about to trust one. They need no
// server and no network.

func (a *app) pluginLintCommand() *cli.Command {
	return &cli.Command{
		Name: "lint", Usage: "check a plugin's files without running it", ArgsUsage: "DIR",
		Description: "Manifest, digest, signature where the configuration wants one, modes and owners,\n" +
			"and of a module its imports, its exports and whether it can be metered.",
		Flags: commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			d, _, err := a.lint(ctx, cmd)
			if err != nil {
				return err
			}
			if cmd.Bool("json") {
				err = printJSON(a.Stdout, d)
			} else {
				err = printDetail(a.Stdout, d)
			}
			if err == nil && d.State == host.PluginError {
				return exitCode(exitFailure)
			}
			return err
		},
	}
}

// lint looks at the directory that is the only argument.
func (a *app) lint(ctx context.Context, cmd *cli.Command) (host.PluginDetail, settings, error) {
	if err := exactArgs(cmd, "DIR"); err != nil {
		return host.PluginDetail{}, settings{}, err
	}
	dir, err := dirArg(cmd, 0)
	if err != nil {
		return host.PluginDetail{}, settings{}, err
	}
	s, err := a.settings(cmd)
	if err != nil {
		return host.PluginDetail{}, settings{}, err
	}
	trust, err := s.Trust()
	if err != nil {
		return host.PluginDetail{}, settings{}, err
	}
	return host.Lint(ctx, dir, trust), s, nil
}

// sound is lint of what is to be used: it must be right.
func (a *app) sound(ctx context.Context, cmd *cli.Command) (host.PluginDetail, settings, error) {
	d, s, err := a.lint(ctx, cmd)
	if err == nil && d.State == host.PluginError {
		err = &kindError{failedRefused, fmt.Errorf("%s: %s", d.Dir, d.Cause)}
	}
	return d, s, err
}

func (a *app) pluginInstallCommand() *cli.Command {
	return &cli.Command{
		Name: "install", Usage: "put a plugin into the plugin directory", ArgsUsage: "DIR",
		Description: "The plugin is checked as lint does, copied beside the place it goes to, and moved\n" +
			"there at once, over the version that is there. A running server takes it with\n" +
			"caisson reload.",
		Flags:  commonFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: a.pluginInstall,
	}
}

func (a *app) pluginInstall(ctx context.Context, cmd *cli.Command) error {
	d, s, err := a.sound(ctx, cmd)
	if kindOf(err) == failedRefused {
		err = fmt.Errorf("not installed: %w", err)
	}
	if err != nil {
		return err
	}
	to := filepath.Join(s.pluginDirs[0], d.Name)
	// What was checked may have been changed since: the copy is checked again.
	err = plugindir.Replace(ctx, d.Dir, to, func(copied string) error {
		trust, err := s.Trust()
		if err != nil {
			return err
		}
		if c := host.Lint(ctx, copied, trust); c.State == host.PluginError || c.Name != d.Name || c.Version != d.Version {
			return &kindError{failedRefused, fmt.Errorf("the copy is not what was checked: %s", c.Cause)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return printJSON(a.Stdout, installReport{d.Name, d.Kind, d.Version, d.SHA256, to})
	}
	_, err = fmt.Fprintf(a.Stdout, "installed %s %s in %s; a running server takes it with caisson reload\n", d.Name, d.Version, safe(to))
	return err
}

// installReport is what --json prints of an installation.
type installReport struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
	SHA256  string `json:"sha256,omitempty"`
	// Dir is where it is now.
	Dir string `json:"dir"`
}

func (a *app) pluginVerifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "run a plugin through everything it must hold to", ArgsUsage: "DIR",
		Description: "Of a policy or language table: files, imports, selftest, answers to sample\n" +
			"requests, the same fuel for the same calls, and memory that stays flat over\n" +
			"--calls. Of a backend: the conformance kit, in sandboxes of its own, with --with\n" +
			"as its configuration; what its manifest says that it lacks it must refuse.\n" +
			"Exits with 1 when anything fails.",
		Flags: commonFlags(
			&cli.IntFlag{Name: "calls", Usage: "watch the memory of a module for `N` calls", Value: host.DefaultVerifyCalls},
			&cli.StringFlag{Name: "with", Usage: "configure the plugin with this `JSON`", Value: "{}"},
			&cli.StringFlag{Name: "probe", Usage: "`LANGUAGE` of the kit's program: py, js or bash (default: the first of them that the backend runs)"},
			&cli.StringSliceFlag{Name: "skip", Usage: "leave the kit's `TEST` out, for example refused/links, may be repeated"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		),
		Action: a.pluginVerify,
	}
}

func (a *app) pluginVerify(ctx context.Context, cmd *cli.Command) error {
	with := json.RawMessage(cmd.String("with"))
	switch {
	case !json.Valid(with):
		return usagef(cmd, "--with: must be JSON")
	case cmd.Int("calls") < 1:
		return usagef(cmd, "--calls: must be a positive number")
	}
	d, s, err := a.sound(ctx, cmd)
	if err != nil {
		return err
	}
	m, err := manifest.Load(d.Dir)
	if err != nil {
		return err
	}
	if _, err := m.CompleteConfig(with); err != nil {
		return &kindError{failedRefused, fmt.Errorf("--with is not what the plugin is configured by:\n%w", err)}
	}
	var checks []host.VerifyCheck
	if d.Kind == "backend" {
		checks, err = a.verifyBackend(ctx, cmd, d.Dir)
	} else {
		checks, err = a.verifyModule(ctx, cmd, d.Dir, s)
	}
	if err != nil {
		return err
	}
	failed, skipped := 0, 0
	for _, c := range checks {
		switch {
		case !c.OK:
			failed++
		case c.Skipped:
			skipped++
		}
	}
	if cmd.Bool("json") {
		err = printJSON(a.Stdout, checks)
	} else {
		_, err = fmt.Fprintf(a.Stdout, "%s: %d passed, %d failed, %d left out\n", counted(len(checks), "check"), len(checks)-failed-skipped, failed, skipped)
	}
	if err == nil && failed > 0 {
		err = exitCode(exitFailure)
	}
	return err
}

// counted is a number of things, one or more.
func counted[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (a *app) verifyModule(ctx context.Context, cmd *cli.Command, dir string, s settings) ([]host.VerifyCheck, error) {
	trust, err := s.Trust()
	if err != nil {
		return nil, err
	}
	checks, err := host.VerifyModule(ctx, dir, host.VerifyOptions{
		Trust: trust, Config: json.RawMessage(cmd.String("with")), Calls: cmd.Int("calls"),
	})
	if err == nil && !cmd.Bool("json") {
		for _, c := range checks {
			printCheck(a.Stdout, c)
		}
	}
	return checks, err
}
