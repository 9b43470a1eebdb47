package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/plugindir"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
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
			d, err := a.lint(ctx, cmd)
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
func (a *app) lint(ctx context.Context, cmd *cli.Command) (host.PluginDetail, error) {
	if err := exactArgs(cmd, "DIR"); err != nil {
		return host.PluginDetail{}, err
	}
	s, err := a.settings(cmd)
	if err != nil {
		return host.PluginDetail{}, err
	}
	trust, err := s.Trust()
	if err != nil {
		return host.PluginDetail{}, err
	}
	dir, err := filepath.Abs(cmd.Args().First())
	if err != nil {
		return host.PluginDetail{}, err
	}
	return host.Lint(ctx, dir, trust), nil
}

func (a *app) pluginInstallCommand() *cli.Command {
	return &cli.Command{
		Name: "install", Usage: "put a plugin into the plugin directory", ArgsUsage: "DIR",
		Description: "The plugin is checked as lint does, copied beside the place it goes to, and moved\n" +
			"there at once, over the version that is there. A running server takes it with\n" +
			"caisson reload.",
		Flags:  commonFlags(),
		Action: a.pluginInstall,
	}
}

func (a *app) pluginInstall(ctx context.Context, cmd *cli.Command) error {
	d, err := a.lint(ctx, cmd)
	if err != nil {
		return err
	}
	if d.State == host.PluginError {
		return fmt.Errorf("not installed: %s", d.Cause)
	}
	s, err := a.settings(cmd)
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
			return fmt.Errorf("the copy is not what was checked: %s", c.Cause)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "installed %s %s in %s; a running server takes it with caisson reload\n", d.Name, d.Version, to)
	return nil
}

func (a *app) pluginVerifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "run a plugin through everything it must hold to", ArgsUsage: "DIR",
		Description: "Of a policy or language table: files, imports, selftest, answers to sample\n" +
			"requests, the same fuel for the same calls, and memory that stays flat over\n" +
			"--calls. Of a backend: the conformance kit, in sandboxes of its own, with --with\n" +
			"as its configuration. Exits with 1 when anything fails.",
		Flags: commonFlags(
			&cli.IntFlag{Name: "calls", Usage: "watch the memory of a module for `N` calls", Value: host.DefaultVerifyCalls},
			&cli.StringFlag{Name: "with", Usage: "configure the plugin with this `JSON`", Value: "{}"},
			&cli.StringFlag{Name: "probe", Usage: "`LANGUAGE` of the kit's program: py, js or bash (default: the first of them that the backend runs)"},
			&cli.StringSliceFlag{Name: "skip", Usage: "leave the kit's `TEST` out, for example refused/links, may be repeated"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON, of a module"},
		),
		Action: a.pluginVerify,
	}
}

func (a *app) pluginVerify(ctx context.Context, cmd *cli.Command) error {
	d, err := a.lint(ctx, cmd)
	if err != nil {
		return err
	}
	with := json.RawMessage(cmd.String("with"))
	switch {
	case d.State == host.PluginError:
		return fmt.Errorf("%s: %s", d.Dir, d.Cause)
	case !json.Valid(with):
		return usagef(cmd, "--with: must be JSON")
	case cmd.Int("calls") < 1:
		return usagef(cmd, "--calls: must be a positive number")
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	trust, err := s.Trust()
	if err != nil {
		return err
	}
	if d.Kind == "backend" {
		return a.verifyBackend(ctx, cmd, d.Dir)
	}
	checks, err := host.VerifyModule(ctx, d.Dir, host.VerifyOptions{Trust: trust, Config: with, Calls: cmd.Int("calls")})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		if err := printJSON(a.Stdout, checks); err != nil {
			return err
		}
	} else {
		for _, c := range checks {
			word := "ok"
			if !c.OK {
				word = "FAILED"
			}
			fmt.Fprintf(a.Stdout, "%-8s  %-6s  %s (%v)\n", c.Name, word, c.Detail, c.Took.Round(time.Millisecond))
		}
	}
	if slices.ContainsFunc(checks, func(c host.VerifyCheck) bool { return !c.OK }) {
		return exitCode(exitFailure)
	}
	return nil
}

// verifyBackend runs the conformance kit. It is made of Go tests, which end the
// process that runs them: that is a child.
func (a *app) verifyBackend(ctx context.Context, cmd *cli.Command, dir string) error {
	data, err := os.MkdirTemp("", "caisson-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	exe, err := a.Executable()
	if err != nil {
		return err
	}
	args := []string{"plugin", "conform", "--data", data, "--with", cmd.String("with"), "--probe", cmd.String("probe")}
	for _, name := range cmd.StringSlice("skip") {
		args = append(args, "--skip", name)
	}
	if file := cmd.String("config"); file != "" {
		args = append(args, "--config", file)
	}
	child := exec.CommandContext(ctx, exe, append(args, dir)...)
	child.Stdout, child.Stderr = a.Stdout, a.Stderr
	if err := child.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return errors.New("the backend does not conform")
		}
		return err
	}
	// The kit says so itself: an exit code of 0 is also what no tests would leave.
	if _, err := os.Stat(filepath.Join(data, kitPassed)); err != nil {
		return errors.New("the conformance kit did not run to its end")
	}
	fmt.Fprintln(a.Stdout, "the backend conforms")
	return nil
}

// kitPassed is the file that a whole run of the kit leaves in its data directory.
const kitPassed = "kit-passed"

// conformCommand is verifyBackend's child.
func (a *app) conformCommand() *cli.Command {
	return &cli.Command{
		Name: "conform", Hidden: true, ArgsUsage: "DIR",
		Flags:  commonFlags(&cli.StringFlag{Name: "with"}, &cli.StringFlag{Name: "probe"}, &cli.StringSliceFlag{Name: "skip"}),
		Action: a.conform,
	}
}

func (a *app) conform(ctx context.Context, cmd *cli.Command) error {
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	trust, err := s.Trust()
	if err != nil {
		return err
	}
	o := host.TrialOptions{Trust: trust, Config: json.RawMessage(cmd.String("with")), DataDir: s.Data}
	skip := make(map[string]string)
	for _, name := range cmd.StringSlice("skip") {
		skip[name] = "left out by --skip"
	}
	kit := testing.InternalTest{Name: "conformance", F: func(t *testing.T) {
		passed := t.Run("kit", func(t *testing.T) {
			backendtest.Run(t, backendtest.Harness{
				New: func(t *testing.T) (backend.Backend, json.RawMessage) {
					trial, err := host.TryBackend(ctx, cmd.Args().First(), o)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						if err := trial.Close(context.WithoutCancel(ctx)); err != nil {
							t.Error(err)
						}
					})
					return trial.Backend, trial.Config
				},
				Probe: a.probe(ctx, t, cmd, o), Skip: skip,
				ShortRun: 3 * time.Second, Patience: time.Minute,
			})
		})
		if passed {
			if err := os.WriteFile(filepath.Join(s.Data, kitPassed), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}}
	os.Args = os.Args[:1] // the flags of tests are not ours
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{kit}, nil, nil)
	return nil
}

// probe asks the backend what it runs, for a moment.
func (a *app) probe(ctx context.Context, t *testing.T, cmd *cli.Command, o host.TrialOptions) backendtest.Probe {
	trial, err := host.TryBackend(ctx, cmd.Args().First(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Close(context.WithoutCancel(ctx))
	p, err := probeFor(trial.Info.Languages, cmd.String("probe"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// probeFor chooses the kit's program.
func probeFor(languages []backend.LanguageSupport, want string) (backendtest.Probe, error) {
	probes := []struct {
		id    string
		probe backendtest.Probe
	}{
		{"py", backendtest.Python("python3")}, {"js", backendtest.JavaScript("node")}, {"bash", backendtest.Shell("bash")},
	}
	for _, p := range probes {
		runs := slices.ContainsFunc(languages, func(l backend.LanguageSupport) bool { return l.ID == p.id && l.Missing == "" })
		if p.id == want || want == "" && runs {
			return p.probe, nil
		}
	}
	return backendtest.Probe{}, errors.New("the kit's program is written in py, js and bash, and the backend runs none of them; name one with --probe")
}
