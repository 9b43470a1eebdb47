package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
	"github.com/urfave/cli/v3"
)

// verifyBackend runs the conformance kit. It is made of Go tests, which end the
// process that runs them: that is a child.
func (a *app) verifyBackend(ctx context.Context, cmd *cli.Command, dir string) ([]host.VerifyCheck, error) {
	data, err := os.MkdirTemp("", "caisson-verify-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(data)
	exe, err := a.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"plugin", "conform", "--data", data, "--with", cmd.String("with"), "--probe", cmd.String("probe")}
	for _, name := range cmd.StringSlice("skip") {
		args = append(args, "--skip", name)
	}
	if file := cmd.String("config"); file != "" {
		args = append(args, "--config", file)
	}
	child := exec.CommandContext(ctx, exe, append(args, dir)...)
	var stderr bytes.Buffer
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	var checks []host.VerifyCheck
	rest, readErr := readKit(out, func(c host.VerifyCheck) {
		checks = append(checks, c)
		if !cmd.Bool("json") {
			printCheck(a.Stdout, c)
		}
	})
	_, _ = io.Copy(io.Discard, out) // a child is not held up by what nobody reads
	err = child.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if slices.ContainsFunc(checks, func(c host.VerifyCheck) bool { return !c.OK }) {
		return checks, nil
	}
	// The kit says so itself: an exit code of 0 is also what no tests would leave.
	if _, missing := os.Stat(filepath.Join(data, kitPassed)); err != nil || missing != nil {
		said := strings.TrimSpace(rest + stderr.String())
		return checks, fmt.Errorf("the conformance kit did not run to its end: %w\n%s", cmp.Or(err, readErr, missing), said)
	}
	return checks, nil
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
	dir := cmd.Args().First()
	skip := make(map[string]string)
	for _, name := range cmd.StringSlice("skip") {
		skip[name] = "left out by --skip"
	}
	kit := testing.InternalTest{Name: "conformance", F: func(t *testing.T) {
		passed := t.Run("kit", func(t *testing.T) {
			probe, lacks := a.probe(ctx, t, cmd, o)
			backendtest.Run(t, backendtest.Harness{
				New: func(t *testing.T) (backend.Backend, json.RawMessage) {
					trial, err := host.TryBackend(ctx, dir, o)
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
				Probe: probe, Lacks: lacks, Skip: skip,
				ShortRun: 3 * time.Second, Patience: kitPatience,
			})
		})
		if passed {
			if err := os.WriteFile(filepath.Join(s.Data, kitPassed), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}}
	os.Args = []string{os.Args[0], "-test.v=test2json"} // the flags of tests are not ours
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{kit}, nil, nil)
	return nil
}

// probe asks the backend what it runs, for a moment, and its manifest what it lacks.
func (a *app) probe(ctx context.Context, t *testing.T, cmd *cli.Command, o host.TrialOptions) (backendtest.Probe, []backendtest.Lack) {
	trial, err := host.TryBackend(ctx, cmd.Args().First(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Close(context.WithoutCancel(ctx))
	languages := trial.Info.Languages
	if r, err := trial.Backend.Probe(ctx, trial.Config); err == nil && len(r.Languages) > 0 {
		languages = r.Languages // those of this config
	}
	p, err := probeFor(languages, cmd.String("probe"))
	if err != nil {
		t.Fatal(err)
	}
	if err := firstSandbox(ctx, trial.Backend, trial.Config); err != nil {
		t.Fatalf("it could not make a sandbox with this configuration, so that nothing else was looked at: %v", err)
	}
	var lacks []backendtest.Lack
	for _, l := range trial.Lacks {
		lacks = append(lacks, backendtest.Lack(l))
	}
	return p, lacks
}

// kitPatience is how long something that takes a moment may take.
const kitPatience = time.Minute

// firstSandbox makes a sandbox and deletes it: without one every test would fail, each
// for the same reason.
func firstSandbox(ctx context.Context, b backend.Backend, config json.RawMessage) error {
	ctx, cancel := context.WithTimeout(ctx, kitPatience)
	defer cancel()
	for {
		h, err := b.Health(ctx)
		if err == nil && h.Ready {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("it is not ready after %v: %s", kitPatience, cmp.Or(h.Reason, fmt.Sprint(err)))
		}
	}
	const id = "first"
	if err := b.OpenConfig(ctx, id, config); err != nil {
		return err
	}
	sb, err := b.Create(ctx, backend.CreateSpec{
		Config: id, Session: "kit-first",
		Metadata: backend.Metadata{Deployment: "kit", Config: id, Session: "kit-first", Tenant: "tenant", User: "user", Origin: "exec"},
	})
	if err == nil {
		err = b.Delete(ctx, sb.Ref)
	}
	return errors.Join(err, b.CloseConfig(ctx, id))
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
