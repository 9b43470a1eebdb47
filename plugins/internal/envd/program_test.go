package envd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

// listener is a RunIO that keeps what it is told.
type listener struct {
	mu             sync.Mutex
	stdin          io.Reader
	starts         int
	stdout, stderr bytes.Buffer
	onStdout       func(string)
}

func (l *listener) Input(int) (io.Reader, error) { return nil, errors.New("no input") }
func (l *listener) Stdin() io.Reader             { return l.stdin }
func (l *listener) Started() error               { l.starts++; return nil }
func (l *listener) Stderr(p []byte) error        { l.stderr.Write(p); return nil }
func (l *listener) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, errors.New("no calls")
}

func (l *listener) Stdout(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stdout.Write(p)
	if l.onStdout != nil {
		l.onStdout(l.stdout.String())
	}
	return nil
}

// shellRun is a run of a shell script.
func shellRun(ref backend.Ref, text string) backend.RunSpec {
	return backend.RunSpec{
		Ref: ref, RunID: "r", Program: backend.Program{File: "main.sh", Source: []byte(text)},
		Steps: []backend.Step{{Argv: []string{"/bin/sh", "{dir}/main.sh"}}}, Limits: backend.Limits{Wall: 20 * time.Second},
	}
}

func (s *stand) exec(req backend.ExecRequest) backend.ExecResult {
	s.t.Helper()
	res, err := s.Exec(s.t.Context(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

// await waits until something holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// quiet waits until nothing runs in a sandbox any more.
func (s *stand) quiet(t *testing.T, ref backend.Ref) {
	t.Helper()
	m := s.box(ref).machine
	await(t, "end of every program", func() bool { return len(m.Processes()) == 0 })
}

// tree leaves grandchildren that hold the output, ignore what can be ignored, and tell
// that they are there.
const tree = `trap '' TERM HUP
(trap '' TERM HUP; sleep 600) & (sleep 600 & echo deep; wait) &
echo begun; wait`

// TestTreesDie: the deadline of a command is that of its descendants, whether they
// hold its output or not, and what was printed before is there.
func TestTreesDie(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	var res backend.ExecResult
	for d := 700 * time.Millisecond; d < time.Minute && len(res.Stdout) == 0; d *= 2 { // a busy machine may need longer to begin
		res = s.exec(backend.ExecRequest{Ref: ref, Shell: true, Argv: []string{tree}, Timeout: d})
	}
	if res.Stop != backend.StopTimeout || res.ExitCode != -1 || !strings.Contains(string(res.Stdout), "begun\n") {
		t.Errorf("%+v", res)
	}
	s.quiet(t, ref)

	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{onStdout: func(all string) {
		if strings.Contains(all, "begun") {
			cancel()
		}
	}}
	got, err := s.Run(ctx, shellRun(ref, tree), l)
	if err != nil || got.Stop != backend.StopCanceled || got.ExitCode != -1 || got.CollectFailed {
		t.Errorf("a cancelled run: %+v, %v", got, err)
	}
	s.quiet(t, ref)

	spec := shellRun(ref, tree)
	spec.Limits.Wall = 700 * time.Millisecond
	got, err = s.Run(t.Context(), spec, &listener{})
	if err != nil || got.Stop != backend.StopTimeout || got.CollectFailed {
		t.Errorf("a run out of time: %+v, %v", got, err)
	}
	s.quiet(t, ref)
	// A signal over the protocol would have silenced the programs and missed the tree.
	if n := len(s.requests("/SendSignal")); n > 0 {
		t.Errorf("%d signals were sent", n)
	}
}

// TestDaemons: what holds the output does not hold the call, and ends with a run.
func TestDaemons(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	began := time.Now()
	res := s.exec(backend.ExecRequest{Ref: ref, Shell: true, Argv: []string{"sleep 600 & echo done; exit 3"}, Timeout: time.Minute})
	if string(res.Stdout) != "done\n" || res.ExitCode != 3 || res.Stop != backend.StopExit || time.Since(began) > 30*time.Second {
		t.Errorf("%+v after %v", res, time.Since(began))
	}
	if n := len(s.box(ref).machine.Processes()); n == 0 {
		t.Error("the daemon of a command did not survive it")
	}
	l := new(listener)
	got, err := s.Run(t.Context(), shellRun(ref, "sleep 601 & echo done; exit 3"), l)
	if err != nil || got.ExitCode != 3 || l.stdout.String() != "done\n" {
		t.Errorf("%+v, %q, %v", got, l.stdout.String(), err)
	}
	out, _ := exec.Command("pgrep", "-f", "^sleep 601$").Output()
	if len(out) > 0 {
		t.Errorf("what a run left behind goes on: %s", out)
	}
}

// TestEnds: how programs end.
func TestEnds(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	for _, row := range []struct {
		argv   []string
		code   int
		signal string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"/bin/sh", "-c", "exit 7"}, 7, ""},
		{[]string{"/bin/sh", "-c", "kill -9 $$"}, 137, "SIGKILL"},
		{[]string{"/bin/sh", "-c", "kill -TERM $$"}, 143, "SIGTERM"},
		{[]string{"no-such-command"}, 127, ""},
		{[]string{"/etc/passwd"}, 126, ""},
		{[]string{"exit", "3"}, 127, ""}, // no shell reads it
		{[]string{"echo", "-n", "$HOME; `id`"}, 0, ""},
	} {
		res := s.exec(backend.ExecRequest{Ref: ref, Argv: row.argv})
		if res.Stop != backend.StopExit || res.ExitCode != row.code || res.Signal != row.signal {
			t.Errorf("%q: %+v", row.argv, res)
		}
		spec := shellRun(ref, "")
		spec.Steps = []backend.Step{{Argv: row.argv}}
		got, err := s.Run(t.Context(), spec, &listener{})
		if err != nil || got.Stop != backend.StopExit || got.ExitCode != row.code || got.Signal != row.signal {
			t.Errorf("a run of %q: %+v, %v", row.argv, got, err)
		}
	}
	res := s.exec(backend.ExecRequest{Ref: ref, Argv: []string{"no-such-command"}})
	if !strings.Contains(string(res.Stderr), "no-such-command") {
		t.Errorf("nothing says that there is no such command: %q", res.Stderr)
	}
	if strings.Contains(string(res.Stderr), "\x00") {
		t.Errorf("marks are shown: %q", res.Stderr)
	}
	_, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}, Dir: "/mnt/data/absent"})
	wantKind(t, "an absent directory", err, backend.KindInvalidRequest)
	_, err = s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}, User: "nobody"})
	wantKind(t, "another account", err, backend.KindUnsupported)
}

// TestCPU: processor time is counted and limited.
func TestCPU(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	spec := shellRun(ref, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	got, err := s.Run(t.Context(), spec, &listener{})
	if err != nil || got.ExitCode != 0 || got.Usage.CPU < 10*time.Millisecond || got.Usage.CPU > got.Usage.Wall+time.Second {
		t.Errorf("%+v, %v", got, err)
	}
	spec = shellRun(ref, "while :; do :; done")
	spec.Limits.CPU, spec.Limits.Wall = time.Second, time.Minute
	got, err = s.Run(t.Context(), spec, &listener{})
	if err != nil || got.Stop != backend.StopCPU || got.ExitCode != -1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestLost: a program whose stream is cut or falls silent is lost, which is a result
// once it had started, and is not left running.
func TestLost(t *testing.T) {
	for name, fault := range map[string]envdfake.Fault{
		"cut":     {Cut: 4000},
		"stalled": {Stall: 4000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, options{change: func(o *envd.Options) { o.Silence = time.Second }})
			ref := s.sandbox()
			fault.Path = "/process.Process/Start"
			s.gateway.Script.Add(fault)
			l := new(listener)
			got, err := s.Run(t.Context(), shellRun(ref, "while :; do echo 0123456789; done"), l)
			if err != nil || got.Stop != backend.StopLost || got.ExitCode != -1 || !got.CollectFailed || l.starts != 1 || l.stdout.Len() == 0 {
				t.Errorf("%+v, %v; %d starts, %d bytes", got, err, l.starts, l.stdout.Len())
			}
			s.quiet(t, ref)
			s.gateway.Script.Add(fault)
			_, err = s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Shell: true, Argv: []string{"while :; do echo 0123456789; done"}})
			wantKind(t, "a command whose stream is lost", err, backend.KindUnavailable)
			s.quiet(t, ref)
		})
	}
}

// TestLostBeforeStart: before the program started nothing ran, and it is an error.
func TestLostBeforeStart(t *testing.T) {
	for name, fault := range map[string]envdfake.Fault{
		"at once":       {Reset: true},
		"within start":  {Cut: 10},
		"before a scan": {Cut: 60},
	} {
		s := newStand(t, options{})
		ref := s.sandbox()
		fault.Path = "/process.Process/Start"
		s.gateway.Script.Add(fault)
		l := new(listener)
		_, err := s.Run(t.Context(), shellRun(ref, "echo ran"), l)
		wantKind(t, name, err, backend.KindUnavailable)
		if l.starts > 0 {
			t.Errorf("%s: it said that it started", name)
		}
		s.quiet(t, ref)
	}
}

// TestQuietProgram: keep-alives are life; short timeouts of calls are not for streams.
func TestQuietProgram(t *testing.T) {
	s := newStand(t, options{
		machine: envdfake.Options{KeepAlive: 100 * time.Millisecond},
		change:  func(o *envd.Options) { o.Silence = 3 * time.Second },
	})
	ref := s.sandbox()
	if res := s.exec(backend.ExecRequest{Ref: ref, Argv: []string{"sleep", "5"}}); res.ExitCode != 0 || res.Wall < 5*time.Second {
		t.Errorf("%+v", res)
	}
}

// TestPastDeadline: a deadline that has passed is no request: 0 ms would be sent.
func TestPastDeadline(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.forgetRequests()
	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	if _, err := s.Stat(ctx, ref, backend.DataDir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stat: %v", err)
	}
	if _, err := s.Exec(ctx, backend.ExecRequest{Ref: ref, Argv: []string{"true"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec: %v", err)
	}
	if n := len(s.requests("")); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestHugeArgument: what the system refuses is told without all of it.
func TestHugeArgument(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	_, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true", strings.Repeat("canary ", 30000)}})
	wantKind(t, "an argument that is too long", err, backend.KindInvalidRequest)
	if n := len(err.Error()); n > 800 {
		t.Errorf("the error has %d bytes", n)
	}
}

// TestHostileEnvironment: variables that shells and loaders obey reach the program,
// and nothing before it; names need not be words of a shell.
func TestHostileEnvironment(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	if _, err := s.WriteFile(t.Context(), ref, "/mnt/data/evil.sh", backend.WriteOptions{}, strings.NewReader("echo evil; exit 9\n")); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"BASH_ENV": "/mnt/data/evil.sh", "ENV": "/mnt/data/evil.sh", "IFS": "/mnt", "PS4": "$(echo evil >&2)", "SHELLOPTS": "xtrace",
		"LD_PRELOAD": "/mnt/data/absent.so", "PATH": "/mnt/data:/usr/bin:/bin", "CDPATH": "/mnt/data", "n": "nonce", "inner": "echo evil",
		"BASH_FUNC_printf%%": "() { echo evil; }", "odd-name.with:marks": "a b", "-u": "PATH", "PLAIN": "x\ny'\"$(echo evil)`", "EMPTY": "",
	}
	argv := []string{"/usr/bin/python3", "-c", "import os,sys\nfor k in sorted(os.environb): sys.stdout.write('%r=%r\\n' % (k, os.environb[k]))"}
	check := func(what, stdout, stderr string) {
		t.Helper()
		for k, v := range env {
			want := fmt.Sprintf("b%s=b", pythonQuoted(k))
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q=%q did not reach the program:\n%s", what, k, v, stdout)
			}
		}
		for _, want := range []string{"b'n'=b'nonce'", "b'inner'=b'echo evil'", "b'IFS'=b'/mnt'", "b'-u'=b'PATH'"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: not %s", what, want)
			}
		}
		if strings.Contains(strings.ReplaceAll(stdout, "evil.sh", ""), "evil\n") || strings.Contains(stderr, "evil") {
			t.Errorf("%s: something obeyed: %q, %q", what, stdout, stderr)
		}
	}
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		need(t, "python3 is missing: %v", err)
	}
	res := s.exec(backend.ExecRequest{Ref: ref, Argv: argv, Env: env})
	check("Exec", string(res.Stdout), string(res.Stderr))
	spec := shellRun(ref, "")
	spec.Steps, spec.Env = []backend.Step{{Argv: argv}}, env
	l := new(listener)
	if got, err := s.Run(t.Context(), spec, l); err != nil || got.ExitCode != 0 || got.CollectFailed {
		t.Errorf("%+v, %v", got, err)
	}
	check("Run", l.stdout.String(), l.stderr.String())
}

func pythonQuoted(s string) string { return "'" + s + "'" }

// TestStdin: daemons that cannot close a program's input get it as a file, and those
// of which nobody knows are asked.
func TestStdin(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20000)
	for _, row := range []struct {
		name, version string
		say           bool
		sends         bool
	}{
		{"current", "0.6.13", true, true},
		{"current, unknown", "0.6.13", false, true},
		{"old", "0.5.1", true, false},
		{"old, unknown", "0.5.1", false, false},
		{"very old", "0.2.0", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStand(t, options{machine: envdfake.Options{Version: row.version}})
			ref := s.sandbox()
			if !row.say {
				s.Forget(ref.ID)
				s.box(ref).where.Version = ""
			}
			for _, in := range []string{"", "one\n", large} {
				res := s.exec(backend.ExecRequest{Ref: ref, Argv: []string{"cat"}, Stdin: []byte(in), Timeout: 20 * time.Second})
				if string(res.Stdout) != in || res.Stop != backend.StopExit {
					t.Errorf("%d bytes came back as %d: %q", len(in), len(res.Stdout), res.Stop)
				}
				spec := shellRun(ref, "cat; echo '|end'")
				spec.Stdin = true
				l := &listener{stdin: strings.NewReader(in)}
				if got, err := s.Run(t.Context(), spec, l); err != nil || l.stdout.String() != in+"|end\n" || len(got.Changed) > 0 {
					t.Errorf("a run: %+v, %v; %d bytes came back as %d", got, err, len(in), l.stdout.Len())
				}
			}
			if got := len(s.requests("/SendInput")) > 0; got != row.sends {
				t.Errorf("input was sent: %v, want %v", got, row.sends)
			}
		})
	}
}

// TestJSON: without an exit code in the message, the program ended well.
func TestJSON(t *testing.T) {
	s := newStand(t, options{style: envdfake.Cube, change: func(o *envd.Options) { o.JSON = true }})
	ref := s.sandbox()
	if res := s.exec(backend.ExecRequest{Ref: ref, Shell: true, Argv: []string{"printf 'ü\\000\\377'"}}); res.ExitCode != 0 || string(res.Stdout) != "ü\x00\xff" {
		t.Errorf("%+v", res)
	}
	for _, r := range s.requests("/Start") {
		if got := r.Header.Get("Content-Type"); got != "application/connect+json" {
			t.Errorf("content type %q", got)
		}
	}
}

// TestOneRequest: a warm command is one request, whose answer is its output, as it is
// for who speaks the protocol without promising anything: no round trip can be saved.
func TestOneRequest(t *testing.T) {
	for name, style := range styles {
		s := newStand(t, options{style: style})
		ref := s.sandbox()
		s.exec(backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
		s.forgetRequests()
		s.exec(backend.ExecRequest{Ref: ref, Argv: []string{"echo", "hello"}})
		if all := s.requests(""); len(all) != 1 || !strings.HasSuffix(all[0].URL.Path, "/Start") {
			for _, r := range all {
				t.Logf("%s: %s", name, r.URL.Path)
			}
			t.Errorf("%s: %d requests", name, len(all))
		}
	}
}
