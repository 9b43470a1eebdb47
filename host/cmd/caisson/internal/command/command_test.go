package command

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// invocation is one run of the command line inside the test process.
type invocation struct {
	env   map[string]string
	stdin string
	// exe is where the program is said to be.
	exe string
}

type result struct {
	code           int
	stdout, stderr string
}

func (i invocation) run(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), Env{
		Args:   append([]string{"caisson"}, args...),
		Stdin:  strings.NewReader(i.stdin),
		Stdout: &stdout, Stderr: &stderr,
		LookupEnv: func(name string) (string, bool) { v, ok := i.env[name]; return v, ok },
		Executable: func() (string, error) {
			if i.exe == "" {
				return "", errors.New("unknown")
			}
			return i.exe, nil
		},
	})
	return result{code, stdout.String(), stderr.String()}
}

// golden compares got with a file under testdata, after what differs between
// machines is replaced: pairs of old and new.
func golden(t *testing.T, name, got string, replace ...string) {
	t.Helper()
	got = strings.NewReplacer(replace...).Replace(got)
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to accept):\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"serve"},
		{"run"},
		{"files"},
		{"files", "list"},
		{"files", "get"},
		{"files", "put"},
		{"mcp"},
		{"plugin"},
		{"plugin", "list"},
		{"plugin", "inspect"},
		{"plugin", "logs"},
		{"plugin", "swap"},
		{"plugin", "accept"},
		{"plugin", "reset"},
		{"plugin", "new"},
		{"plugin", "lint"},
		{"plugin", "verify"},
		{"plugin", "install"},
		{"reload"},
		{"policy"},
		{"policy", "decisions"},
		{"policy", "replay"},
		{"doctor"},
		{"session"},
		{"session", "list"},
		{"session", "show"},
		{"session", "end"},
		{"session", "sweep"},
		{"ledger"},
		{"ledger", "credit"},
		{"ledger", "cap"},
		{"ledger", "balance"},
		{"ledger", "usage"},
		{"version"},
	} {
		name := strings.Join(append([]string{"caisson"}, args...), "-")
		t.Run(name, func(t *testing.T) {
			r := invocation{}.run(t, append(args, "--help")...)
			if r.code != 0 || r.stderr != "" {
				t.Errorf("exit %d, stderr %q", r.code, r.stderr)
			}
			golden(t, "help/"+name+".txt", r.stdout)
		})
	}
}

func TestVersion(t *testing.T) {
	want := regexp.MustCompile(`^caisson \S+ go1\.\S+ \w+/\w+\n$`)
	for _, arg := range []string{"version", "--version"} {
		if r := (invocation{}).run(t, arg); r.code != 0 || !want.MatchString(r.stdout) {
			t.Errorf("%s: %+v", arg, r)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args, want string
	}{
		{"", "no command given"},
		{"bogus", `unknown command "bogus"; see caisson --help`},
		{"plugin", "no command given; see caisson plugin --help"},
		{"plugin bogus", `unknown command "bogus"`},
		{"serve --bogus", "-bogus; see caisson serve --help"},
		{"serve extra", "got 1 arguments, want no arguments"},
		{"serve --addr 8080", "must be HOST:PORT"},
		{"serve --log-level loud", `--log-level "loud" is no level`},
		{"run", "no FILE given"},
		{"run -", "the language is not known: name it with --lang"},
		{"run Makefile", "the language is not known"},
		{"run --timeout soon x.py", "-timeout"},
		{"ledger credit acme", "got 1 arguments, want WALLET CENTS"},
		{"ledger credit acme -5", "-5"},
		{"ledger credit acme five", `CENTS must be a positive whole number, not "five"`},
		{"ledger cap acme some", "CENTS must be a whole number or none"},
		{"ledger balance", "want WALLET"},
		{"files", "no command given; see caisson files --help"},
		{"files list", "want SESSION"},
		{"files get s", "want SESSION FILE"},
		{"files put", "no PATH given"},
		{"files put x=../y", "is no name for a file"},
		{"mcp now", "want no arguments"},
		{"mcp --url ftp://x", "--url: the server's address must be an http or https URL"},
		{"version now", "want no arguments"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			exe := filepath.Join(t.TempDir(), "caisson")
			if err := os.WriteFile(exe, nil, 0o700); err != nil {
				t.Fatal(err)
			}
			r := invocation{exe: exe}.run(t, strings.Fields(tt.args)...)
			if r.code != exitUsage || r.stdout != "" {
				t.Errorf("exit %d, stdout %q; want %d and nothing", r.code, r.stdout, exitUsage)
			}
			if !strings.HasPrefix(r.stderr, "caisson: ") || !strings.Contains(r.stderr, tt.want) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("stderr = %q, want one line with %q", r.stderr, tt.want)
			}
		})
	}
}

// Failures are one line each and say what to do.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	bad := write("bad.yaml", "lissten: x\n")
	unset := write("unset.yaml", "admission: {service_keys: [{id: a, key_env: NO_SUCH}]}\nbilling: {ledger: none}\n")
	noLedger := write("noledger.yaml", "billing: {ledger: none}\n")
	data := filepath.Join(dir, "data")
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"bad key", "bad.yaml:1:1: lissten: unknown key", []string{"serve", "--config", bad}},
		{"no configuration", "no.yaml: no such file", []string{"doctor", "--config", filepath.Join(dir, "no.yaml")}},
		{"key not set", "NO_SUCH: not set", []string{"serve", "--config", unset, "--data", data, "--addr", "127.0.0.1:0"}},
		{"dev for everybody", "--dev serves this machine only", []string{"serve", "--dev", "--addr", "0.0.0.0:0", "--data", data}},
		{"dev for everybody, no host", "--dev serves this machine only", []string{"serve", "--dev", "--addr", ":0", "--data", data}},
		{"no plugins", `no backend plugin "wasm" is installed`, []string{"serve", "--data", data, "--addr", "127.0.0.1:0"}},
		{"no such program", "none.py: no such file", []string{"run", filepath.Join(dir, "none.py")}},
		{"empty program", "the program is empty", []string{"run", write("empty.py", "")}},
		{"no ledger yet", "there is no ledger at", []string{"ledger", "balance", "acme", "--data", filepath.Join(dir, "other")}},
		{"no ledger at all", "keeps no ledger", []string{"ledger", "balance", "acme", "--config", noLedger}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := invocation{exe: write("caisson", "")}.run(t, tt.args...)
			lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
			last := lines[len(lines)-1] // logs may come before it
			if r.code != exitFailure || !strings.HasPrefix(last, "caisson: ") || !strings.Contains(last, tt.want) {
				t.Errorf("exit %d, stderr %q; want %d and a line with %q", r.code, r.stderr, exitFailure, tt.want)
			}
		})
	}
}

// A signal before anything runs is a clean stop.
func TestMainStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	exe := filepath.Join(dir, "caisson")
	if err := os.WriteFile(exe, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	code := Main(ctx, Env{
		Args:   []string{"caisson", "serve", "--addr", "127.0.0.1:0", "--data", filepath.Join(dir, "data")},
		Stderr: &stderr, Stdout: &stderr,
		LookupEnv:  func(string) (string, bool) { return "", false },
		Executable: func() (string, error) { return exe, nil },
	})
	if code != 0 {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}
