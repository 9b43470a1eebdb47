package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// hostileText is what a plugin may say to steer a terminal or to forge a line.
const hostileText = "\x1b]0;owned\x07 \u009b31m\r\nstate  ready"

// operable is a host with a backend and a policy.
type operable struct {
	two
	outcome host.Outcome
}

var forms = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

func (o *operable) Plugins() []host.PluginStatus {
	return []host.PluginStatus{
		{Name: "wasm", Kind: "backend", Runtime: "process", Version: "0.1.0", State: host.PluginQuarantined, Cause: "it printed " + hostileText, Dir: "/p/wasm", Since: forms, Restarts: 4},
		{Name: "limits", Kind: "policy", Runtime: "wasm", Version: "0.2.0", State: host.PluginReady, SHA256: strings.Repeat("ab", 32), Dir: "/p/limits"},
	}
}

func (o *operable) PluginDetail(name string) (host.PluginDetail, error) {
	switch name {
	case "wasm":
		return host.PluginDetail{
			PluginStatus: o.Plugins()[0], Description: "Runs programs " + hostileText, Path: "wasm", Protocol: []int{1}, Digest: strings.Repeat("cd", 32),
			Capabilities: []string{"list", "names"}, Lacks: []string{"links_out"}, StateSchema: []string{"1"}, Env: []string{"HOME"}, Configs: []string{"wasm"}, Warnings: []string{"beside " + hostileText},
			LastSwap: &host.LastSwap{At: forms, Outcome: host.SwapRolledBack, Reason: hostileText, From: host.PluginVersion{Version: "0.1.0"}, To: host.PluginVersion{Version: "0.1.1"}},
			Process: &host.ProcessDetail{
				PID: 7, Starts: 5, Calls: 12, Failed: 3, LogDropped: 2, MemoryHigh: 64 << 20,
				Generations: []host.GenerationUse{{Generation: 1, Calls: 2, Held: 1}},
				LastEnd:     &host.PluginEnd{At: forms, Uptime: time.Second, Cause: "exit status 3", Lines: []string{hostileText}},
			},
		}, nil
	case "limits":
		return host.PluginDetail{
			PluginStatus: o.Plugins()[1], Path: "limits.wasm", Protocol: []int{1}, ABI: "v1", Digest: strings.Repeat("ab", 32),
			Imports: []string{"log"}, Links: []string{"host_v1.log", "wasi_snapshot_preview1.fd_write"}, Hooks: []string{"admit"}, Needs: []string{"code"},
			Module: &host.ModuleDetail{
				Digest: strings.Repeat("ab", 32), Revision: "r1", Stop: "fuel", FuelLimit: 300_000_000, FuelHigh: 60_000, Calls: 9,
				Failures: map[string]uint64{"trap": 0, "unreadable": 2, "fuel": 1}, Discards: 1, Refills: 1, Waits: 3, Waited: time.Millisecond,
				MemoryLimit: 32 << 20, MemoryHigh: 7 << 20, Instances: 2, Idle: 2,
			},
		}, nil
	}
	return host.PluginDetail{}, absentPlugin(name)
}

// absentPlugin is an error as hosts say it.
type absentPlugin string

func (n absentPlugin) Error() string      { return fmt.Sprintf("no plugin is called %q", string(n)) }
func (absentPlugin) Is(target error) bool { return target == host.ErrNoPlugin }

func (o *operable) AcceptSwap(context.Context, string) error { return nil }

func (o *operable) ResetPlugin(string) error { return nil }

func (o *operable) PluginLog(name string) ([]string, error) {
	if name != "wasm" {
		return nil, absentPlugin(name)
	}
	return []string{"started", "\tat main.go:1 \"x\"", hostileText}, nil
}

func (o *operable) SwapPlugin(_ context.Context, name string, _ host.SwapOptions) (host.SwapReport, error) {
	if name != "limits" {
		return host.SwapReport{}, absentPlugin(name)
	}
	r := host.SwapReport{
		Plugin: name, Outcome: o.outcome, From: host.PluginVersion{Version: "0.2.0"}, To: host.PluginVersion{Version: "0.3.0"},
		Prepare: 12 * time.Millisecond, Drain: 3 * time.Millisecond, InFlight: 1, Staying: 2,
	}
	if o.outcome != host.SwapDone {
		r.Reason = "it said " + hostileText
	}
	return r, nil
}

func (o *operable) Reload(context.Context) ([]string, error) {
	return []string{`config "a" added`, "plugin " + hostileText}, nil
}

func (o *operable) Decisions(int) ([]*host.Decision, error) {
	return []*host.Decision{{
		At: forms, Hook: "admit", Request: policy.Request{Org: hostileText, Language: "py", CodeBytes: 3},
		Rulings: []host.PolicyRuling{{Policy: "limits", Mode: host.PolicyDeny, Verdict: policy.Verdict{Decision: policy.Deny, Reason: hostileText}}},
	}}, nil
}

// varying is what differs from one run to the next.
var varying = regexp.MustCompile(`\([0-9.]+[mµn]?s\)|"took_ns": [0-9]+`)

// Every command about plugins prints the same for people and for programs, errors
// included, and nothing that steers a terminal.
func TestPluginForms(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "caisson")
	if err := os.WriteFile(exe, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	install(t, filepath.Join(dir, "src"), "good", "policy", "right", 0o644)
	module, err := os.ReadFile("../../../../../sdk/assemblyscript/testdata/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	install(t, filepath.Join(dir, "src"), "answers", "policy", "", 0o644)
	if err := os.WriteFile(filepath.Join(dir, "src", "answers", "artifact"), module, 0o644); err != nil {
		t.Fatal(err)
	}
	manifest := "schema: 1\nname: answers\nversion: 1.2.3\nkind: policy\nruntime: wasm\nprotocol: [1]\npath: artifact\nimports: [log, now_ms, rand]\nneeds: [code, args, files, output]\nhooks: [admit, result]\n"
	if err := os.WriteFile(filepath.Join(dir, "src", "answers", "plugin.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, filepath.Join(dir, "src"), "tampered", "policy", "wrong", 0o644)
	if err := os.WriteFile(filepath.Join(dir, "src", "bad.yaml"), []byte("lissten: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "src", "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	socket, err := os.MkdirTemp("", "forms-") // a socket's name is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(socket)
	h := &operable{}
	s, err := admin.Serve(t.Context(), socket, h, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	src := func(name string) string { return filepath.Join(dir, "src", name) }

	const running = true
	for _, c := range []struct {
		name    string
		running bool
		code    int
		args    []string
		outcome host.Outcome
	}{
		{name: "list", running: running, args: []string{"list"}},
		{name: "list-check", running: running, code: exitFailure, args: []string{"list", "--check"}},
		{name: "inspect-backend", running: running, args: []string{"inspect", "wasm"}},
		{name: "inspect-policy", running: running, args: []string{"inspect", "limits"}},
		{name: "inspect-absent", running: running, code: exitFailure, args: []string{"inspect", "absent"}},
		{name: "inspect-absent-files", code: exitFailure, args: []string{"inspect", "absent"}},
		{name: "logs", running: running, args: []string{"logs", "wasm"}},
		{name: "logs-absent", running: running, code: exitFailure, args: []string{"logs", "absent"}},
		{name: "logs-no-server", code: exitFailure, args: []string{"logs", "wasm"}},
		{name: "accept", running: running, args: []string{"accept", "limits"}},
		{name: "accept-no-server", code: exitFailure, args: []string{"accept", "limits"}},
		{name: "reset", running: running, args: []string{"reset", "wasm"}},
		{name: "reset-no-server", code: exitFailure, args: []string{"reset", "wasm"}},
		{name: "swap", running: running, args: []string{"swap", "limits", src("good")}, outcome: host.SwapDone},
		{name: "swap-back", running: running, code: exitFailure, args: []string{"swap", "limits", src("good")}, outcome: host.SwapRolledBack},
		{name: "swap-refused", running: running, code: exitFailure, args: []string{"swap", "limits", src("good")}, outcome: host.SwapRefused},
		{name: "swap-absent", running: running, code: exitFailure, args: []string{"swap", "absent", src("good")}},
		{name: "lint", args: []string{"lint", src("good")}},
		{name: "lint-wrong", code: exitFailure, args: []string{"lint", src("tampered")}},
		{name: "lint-empty", code: exitFailure, args: []string{"lint", empty}},
		{name: "lint-nowhere", code: exitFailure, args: []string{"lint", src("nowhere")}},
		{name: "verify", args: []string{"verify", "--calls", "1000", src("answers")}},
		{name: "verify-fails", code: exitFailure, args: []string{"verify", "--calls", "10", src("good")}},
		{name: "verify-configuration", code: exitFailure, args: []string{"verify", "--with", `{"x":1}`, src("good")}},
		{name: "verify-wrong", code: exitFailure, args: []string{"verify", src("tampered")}},
		{name: "install", args: []string{"install", src("good")}},
		{name: "inspect-files", args: []string{"inspect", "good"}},
		{name: "install-wrong", code: exitFailure, args: []string{"install", src("tampered")}},
		{name: "install-usage", code: exitUsage, args: []string{"install"}},
		{name: "unknown-flag", code: exitUsage, args: []string{"install", "--bogus", src("good")}},
		{name: "configuration", code: exitFailure, args: []string{"list", "--config", src("bad.yaml")}},
		{name: "new-usage", code: exitUsage, args: []string{"new", "policy", "No"}},
		{name: "new-kind", code: exitFailure, args: []string{"new", "entry", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.outcome = c.outcome
			data := filepath.Join(dir, "data")
			if c.running {
				data = socket
			}
			for form, more := range map[string][]string{"txt": nil, "json": {"--json"}} {
				args := slices.Concat([]string{"plugin"}, c.args, more)
				if c.args[0] != "new" {
					args = append(args, "--data", data)
				}
				r := invocation{exe: exe}.run(t, args...)
				if r.code != c.code {
					t.Errorf("%s: exit %d, want %d: %s", form, r.code, c.code, r.stderr)
				}
				checkForm(t, form, r)
				out := varying.ReplaceAllString(r.stdout, "TOOK")
				golden(t, "plugin/"+c.name+"."+form, out+"-- stderr --\n"+r.stderr, socket, "DATA", dir, "DIR")
			}
		})
	}
}

// checkForm holds for the output of every command.
func checkForm(t *testing.T, form string, r result) {
	t.Helper()
	for _, c := range r.stdout + r.stderr {
		if unprintable(c) && c != '\n' {
			t.Errorf("%s: %U is printed", form, c)
			break
		}
	}
	if form != "json" {
		return
	}
	if d := json.NewDecoder(strings.NewReader(r.stdout)); r.stdout != "" {
		for d.More() {
			if err := d.Decode(new(any)); err != nil {
				t.Errorf("stdout is no JSON: %v\n%s", err, r.stdout)
				return
			}
		}
	}
	if r.stderr == "" {
		return
	}
	var e failureReport
	if err := json.Unmarshal([]byte(r.stderr), &e); err != nil || e.Error.Kind == "" || e.Error.Message == "" || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("the error is no object in a line: %s", r.stderr)
	}
}

// Commands about other things do the same.
func TestOtherForms(t *testing.T) {
	data, err := os.MkdirTemp("", "forms-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	s, err := admin.Serve(t.Context(), data, &operable{}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	away := filepath.Join(t.TempDir(), "away")
	for _, c := range []struct {
		args string
		data string
		kind failureKind
	}{
		{"reload", data, ""},
		{"reload", away, failedNoServer},
		{"policy decisions", data, ""},
		{"policy decisions", away, failedNoServer},
		{"policy replay limits /nowhere", data, failedNotFound},
		{"session list", data, ""},
		{"session list", away, failedNoServer},
		{"session show m_2", data, ""},
		{"session show nope", data, failedNotFound},
		{"session end abc m_2", data, ""},
		{"session end abc nope", data, failedNotFound},
		{"session end", data, failedUsage},
		{"session sweep", data, failedIncomplete},
		{"ledger balance acme", away, failedOther},
		{"ledger credit acme x", away, failedUsage},
		{"ledger credit acme 5 --ref r", away, ""},
		{"ledger credit acme 5 --ref r", away, ""},
		{"ledger cap acme 7", away, ""},
		{"ledger cap acme none", away, ""},
		{"ledger balance acme", away, ""},
		{"ledger usage", away, ""},
		{"run none.py", away, failedNotFound},
		{"files list s --url ftp://x", away, failedUsage},
		{"doctor more", away, failedUsage},
		{"session nonsense", "", failedUsage},
	} {
		args := append(strings.Fields(c.args), "--json")
		if args[0] == "run" { // what follows the program is its own
			args = []string{"run", "--json", "none.py"}
		} else if c.data != "" {
			args = append(args, "--data", c.data)
		}
		r := invocation{exe: os.Args[0]}.run(t, args...)
		checkForm(t, "json", r)
		if (c.kind == "") != (r.code == 0 && r.stderr == "") || c.kind != "" && !strings.HasPrefix(r.stderr, `{"error":{"kind":"`+string(c.kind)+`"`) {
			t.Errorf("%s: exit %d, %s %s", c.args, r.code, r.stdout, r.stderr)
		}
		if text := (invocation{exe: os.Args[0]}).run(t, slices.DeleteFunc(args, func(a string) bool { return a == "--json" })...); !strings.HasPrefix(c.args, "ledger credit") {
			checkForm(t, "txt", text)
			if text.code != r.code {
				t.Errorf("%s: exit %d in words, %d in JSON", c.args, text.code, r.code)
			}
		}
	}
}

// Odd names and directories are refused by one line that names the argument.
func TestOddArguments(t *testing.T) {
	dir := t.TempDir()
	exe := filepath.Join(dir, "caisson")
	if err := os.WriteFile(exe, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	install(t, dir, "good", "policy", "", 0o644)
	good := filepath.Join(dir, "good")
	sdk, err := filepath.Abs("../../../../..")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 300)
	odd := map[string]string{"empty": "", "parent": "..", "path": "a/b", "long": long, "newline": "a\nb", "colour": "\x1b[31m", "not text": "\xff"}
	commands := map[string][]string{ // what is odd is at NAME or DIR
		"inspect NAME": {"inspect", "NAME"}, "logs NAME": {"logs", "NAME"}, "reset NAME": {"reset", "NAME"}, "accept NAME": {"accept", "NAME"},
		"swap NAME": {"swap", "NAME", good}, "swap DIR": {"swap", "good", "DIR"}, "new NAME": {"new", "policy", "NAME"},
		"new --dir":      {"new", "policy", "good", "--sdk", sdk, "--dir=DIR"},
		"list --plugins": {"list", "--plugins=FLAG"}, "list --data": {"list", "--data=FLAG"}, "list --config": {"list", "--config=FLAG"},
		"lint DIR": {"lint", "DIR"}, "verify DIR": {"verify", "DIR"}, "install DIR": {"install", "DIR"},
	}
	t.Chdir(filepath.Join(dir))
	for _, command := range slices.Sorted(maps.Keys(commands)) {
		for name, value := range odd {
			_, argument, _ := strings.Cut(command, " ")
			flag := argument == "--plugins" || argument == "--data" || argument == "--config"
			if value == ".." && argument == "DIR" || flag && checkPath(value) == nil {
				continue // a directory like any other
			}
			args := []string{"plugin"}
			for _, a := range commands[command] {
				a = strings.Replace(a, "NAME", value, 1)
				a = strings.Replace(a, "FLAG", value, 1)
				args = append(args, strings.Replace(a, "DIR", value, 1))
			}
			for _, more := range [][]string{nil, {"--json"}} {
				r := invocation{exe: exe}.run(t, append(args, more...)...)
				if r.code == 0 || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, argument) || len(r.stderr) > 500 {
					t.Errorf("%s, %s: exit %d, %q %q", command, name, r.code, r.stdout, r.stderr)
				}
				if more == nil {
					checkForm(t, "txt", r)
				} else {
					checkForm(t, "json", r)
				}
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v %v", left, err)
	}
}

// The kind of an error does not depend on how often it was wrapped.
func TestFailureKinds(t *testing.T) {
	for want, err := range map[failureKind]error{
		failedUsage:      &usageError{"caisson", errors.New("x")},
		failedNoServer:   fmt.Errorf("%w: here", admin.ErrNoServer),
		failedNotFound:   errors.Join(errors.New("x"), admin.ErrNotFound),
		failedRefused:    fmt.Errorf("not installed: %w", &kindError{failedRefused, errors.New("x")}),
		failedIncomplete: errors.Join(nil, incomplete("x")),
		failedOther:      errors.New("x"),
	} {
		if got := kindOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
