package backendtest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) runChecks() []check {
	return []check{
		{"hello", k.runHello},
		{"streams", k.runStreams},
		{"exit_status", k.runExitStatus},
		{"arguments", k.runArguments},
		{"environment", k.runEnvironment},
		{"directory", k.runDirectory},
		{"no_stdin", k.runNoStdin},
		{"stdin", k.runStdin},
		{"large_stdin", k.runLargeStdin},
		{"unread_stdin", k.runUnreadStdin},
		{"steps", k.runSteps},
		{"failing_step", k.runFailingStep},
		{"no_such_command", k.runNoSuchCommand},
		{"program_gone", k.runProgramGone},
		{"fresh_tmp", k.runFreshTmp},
		{"live_output", k.runLiveOutput},
		{"large_output", k.runLargeOutput},
		{"output_caps", k.runOutputCaps},
		{"concurrent", k.runConcurrent},
		{"apart", k.runApart},
		{"usage", k.runUsage},
	}
}

func (k *kit) runHello(t *testing.T) {
	o := k.run(t, k.sandbox(t), "out", "hello\n")
	if o.stdout != "hello\n" || o.stderr != "" || o.StdoutBytes != 6 || o.StdoutTruncated {
		t.Errorf("stdout %q, stderr %q, %d bytes", o.stdout, o.stderr, o.StdoutBytes)
	}
	if o.Step != 0 || o.Signal != "" || len(o.Changed)+len(o.Deleted)+len(o.MissingInputs) > 0 || o.CollectFailed {
		t.Errorf("result %+v", o.RunResult)
	}
}

func (k *kit) runStreams(t *testing.T) {
	o := k.run(t, k.sandbox(t), "out", "1", "err", "a", "out", "2", "err", "b\nno newline")
	if o.stdout != "12" || o.stderr != "ab\nno newline" || o.StderrBytes != int64(len(o.stderr)) {
		t.Errorf("stdout %q, stderr %q", o.stdout, o.stderr)
	}
}

// runExitStatus: a program that fails is a result, and what it wrote is there.
func (k *kit) runExitStatus(t *testing.T) {
	ref := k.sandbox(t)
	for _, code := range []int{3, 1, 255} {
		name := fmt.Sprintf("by-%d.txt", code)
		o := k.do(t, k.runSpec(ref, "write", name, "x", "err", "failed", "exit", fmt.Sprint(code)), nil)
		if o.Stop != backend.StopExit || o.ExitCode != code || o.stderr != "failed" {
			t.Errorf("stop %q, status %d, stderr %q", o.Stop, o.ExitCode, o.stderr)
		}
		if got := o.changed(); len(got) != 1 || got[0] != name {
			t.Errorf("changed %q, want %q", got, name)
		}
	}
}

// oddArguments are passed as they are: there is no shell, and no marker.
var oddArguments = []string{
	"", " ", "a b", "  two  ", "$HOME", "`id`", "$(id)", `"`, "'", `\`, `\n`, "new\nline", "tab\t", "-c", "--", "--help", "-", "*", "?", "~", "#x",
	"a;b", "a|b", "a&b", ">x", "{dir}", "ünïcödé", "販売", "🦀", "=", "A=B", "%s", strings.Repeat("long", 5000),
}

func (k *kit) runArguments(t *testing.T) {
	o := k.run(t, k.sandbox(t), append([]string{"args"}, oddArguments...)...)
	checkArguments(t, o.stdout)
}

func checkArguments(t *testing.T, stdout string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(got) != len(oddArguments) {
		t.Fatalf("%d arguments arrived, want %d", len(got), len(oddArguments))
	}
	for i, want := range oddArguments {
		b, err := hex.DecodeString(got[i])
		if err != nil || string(b) != want {
			t.Errorf("argument %s arrived as %s: %v", show(want), show(string(b)), err)
		}
	}
}

func (k *kit) runEnvironment(t *testing.T) {
	t.Setenv("CAISSON_KIT_SECRET", "leaked")
	spec := k.runSpec(k.sandbox(t), "env", "PLAIN", "out", "|", "env", "ODD", "out", "|", "env", "EMPTY", "out", "|", "env", "CAISSON_KIT_SECRET")
	env := map[string]string{"PLAIN": "one", "ODD": "a b;$c\n\"ü", "EMPTY": ""}
	maps.Copy(env, spec.Env)
	spec.Env = env
	if got, want := k.do(t, spec, nil).stdout, "one|a b;$c\n\"ü||(unset)"; got != want {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

func (k *kit) runDirectory(t *testing.T) {
	k.seesPaths(t)
	ref := k.sandbox(t)
	if got := k.run(t, ref, "cwd").stdout; got != backend.DataDir {
		t.Errorf("the working directory is %q", got)
	}
	if err := k.b.MakeDir(t.Context(), ref, data("sub")); err != nil {
		t.Fatal(err)
	}
	spec := k.runSpec(ref, "cwd", "write", "here", "x")
	spec.Dir = data("sub")
	if k.lacks(LackDirectories) {
		o, err := k.try(t, t.Context(), spec, nil)
		wantFileError(t, "a run in a directory of its own", err, backend.KindUnsupported)
		if o.starts > 0 {
			t.Error("it started")
		}
		skipLack(t, LackDirectories)
	}
	o := k.do(t, spec, nil)
	if got := o.changed(); o.stdout != data("sub") || len(got) != 1 || got[0] != "sub/here" {
		t.Errorf("in a directory of its own: working directory %q, changed %q", o.stdout, got)
	}
}

// runNoStdin: without stdin a program that reads sees the end at once.
func (k *kit) runNoStdin(t *testing.T) {
	rec := &recorder{stdin: strings.NewReader("not for it")}
	if o := k.do(t, k.runSpec(k.sandbox(t), "cat", "out", "done"), rec); o.stdout != "done" {
		t.Errorf("stdout %q", o.stdout)
	}
}

func (k *kit) runStdin(t *testing.T) {
	ref := k.sandbox(t)
	for _, in := range []string{"", "line\n", "no newline", "ü\x00\xff binary"} {
		spec := k.runSpec(ref, "cat", "out", "|done")
		spec.Stdin = true
		if o := k.do(t, spec, &recorder{stdin: strings.NewReader(in)}); o.stdout != in+"|done" {
			t.Errorf("stdin %q came back as %q", in, o.stdout)
		}
	}
}

func (k *kit) runLargeStdin(t *testing.T) {
	const size = 5 << 20
	spec := k.runSpec(k.sandbox(t), "cat")
	spec.Stdin, spec.Limits.StdoutBytes = true, 2*size
	o := k.do(t, spec, &recorder{stdin: pattern(size)})
	want, err := io.ReadAll(pattern(size))
	if err != nil {
		t.Fatal(err)
	}
	if o.stdout != string(want) {
		t.Errorf("%d bytes of stdin came back as %d others", size, len(o.stdout))
	}
}

// runUnreadStdin: a program need not read what it is given.
func (k *kit) runUnreadStdin(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), "out", "done")
	spec.Stdin = true
	if o := k.do(t, spec, &recorder{stdin: pattern(8 << 20)}); o.stdout != "done" || o.ExitCode != 0 {
		t.Errorf("stdout %q, status %d", o.stdout, o.ExitCode)
	}
}

// runSteps: steps share files, and Started comes once.
func (k *kit) runSteps(t *testing.T) {
	spec := k.runSpec(k.sandbox(t))
	spec.Steps = []backend.Step{
		{Name: "build", Argv: k.Probe.Argv, Args: []string{"write", "built", "x", "out", "building|"}},
		{Name: "run", Argv: k.Probe.Argv, Args: []string{"show", "built", "out", "|running"}},
	}
	o := k.do(t, spec, nil)
	if o.stdout != "building|x|running" || o.Step != 1 || o.ExitCode != 0 {
		t.Errorf("stdout %q, step %d, status %d", o.stdout, o.Step, o.ExitCode)
	}
}

func (k *kit) runFailingStep(t *testing.T) {
	spec := k.runSpec(k.sandbox(t))
	spec.Steps = []backend.Step{
		{Name: "build", Argv: k.Probe.Argv, Args: []string{"err", "syntax error", "exit", "4"}},
		{Name: "run", Argv: k.Probe.Argv, Args: []string{"out", "ran"}},
	}
	o := k.do(t, spec, nil)
	if o.stdout != "" || o.stderr != "syntax error" || o.Step != 0 || o.ExitCode != 4 || o.Stop != backend.StopExit {
		t.Errorf("stdout %q, stderr %q, step %d, status %d", o.stdout, o.stderr, o.Step, o.ExitCode)
	}
}

// runNoSuchCommand: either the run is refused, or a command failed as in a shell.
func (k *kit) runNoSuchCommand(t *testing.T) {
	spec := k.runSpec(k.sandbox(t))
	spec.Steps[0].Argv = []string{"no-such-command-anywhere"}
	o, err := k.try(t, t.Context(), spec, nil)
	switch {
	case err != nil:
		wantFileError(t, "a command that does not exist", err, backend.KindInvalidRequest, backend.KindUnsupported, backend.KindNotFound)
		if o.starts > 0 {
			t.Error("it started")
		}
	case o.ExitCode == 0:
		t.Errorf("a command that does not exist succeeded: %+v", o.RunResult)
	}
}

// runProgramGone: the program is nowhere among the files, during and after.
func (k *kit) runProgramGone(t *testing.T) {
	k.seesPaths(t)
	ref := k.sandbox(t)
	o := k.run(t, ref, "exists", k.Probe.File)
	if o.stdout != "no" {
		t.Error("the program's source is in the working directory")
	}
	if names := k.list(t, ref, backend.DataDir); len(names) > 0 || len(o.Changed) > 0 {
		t.Errorf("after the run there are %q, changed %q", names, o.changed())
	}
	// Every run may see its program under the same path: the earlier one has a name of
	// its own.
	earlier := "earlier-" + k.Probe.File
	spec := k.runSpec(ref)
	spec.Program.File = earlier
	spec.Steps[0].Argv = nil
	for _, arg := range k.Probe.Argv {
		spec.Steps[0].Argv = append(spec.Steps[0].Argv, strings.ReplaceAll(arg, "{dir}/"+k.Probe.File, "{dir}/"+earlier))
	}
	spec.Env = maps.Clone(spec.Env)
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	spec.Env["PROGRAM_DIR"] = "{dir}"
	spec.Steps[0].Args = []string{"env", "PROGRAM_DIR"}
	dir := k.do(t, spec, nil).stdout
	if !strings.HasPrefix(dir, "/") || backend.Within(backend.DataDir, dir) {
		t.Fatalf("the program directory is %q", dir)
	}
	if got := k.run(t, ref, "exists", dir+"/"+earlier).stdout; got != "no" {
		t.Errorf("%s of an earlier run is still there", dir)
	}
}

func (k *kit) runFreshTmp(t *testing.T) {
	ref := k.sandbox(t)
	k.run(t, ref, "write", "/tmp/left", "x", "write", "/tmp/dir/left", "x")
	if got := k.run(t, ref, "exists", "/tmp/left", "exists", "/tmp/dir", "exists", "/tmp").stdout; got != "nonoyes" {
		t.Errorf("/tmp/left, /tmp/dir and /tmp exist in the next run: %q, want nonoyes", got)
	}
}

// runLiveOutput: output comes while the program runs.
func (k *kit) runLiveOutput(t *testing.T) {
	var first time.Time
	rec := &recorder{onStdout: func(all string) error {
		if first.IsZero() && strings.HasPrefix(all, "early") {
			first = time.Now()
		}
		return nil
	}}
	o := k.do(t, k.runSpec(k.sandbox(t), "out", "early", "sleep", "500", "out", "late"), rec)
	if o.stdout != "earlylate" {
		t.Fatalf("stdout %q", o.stdout)
	}
	if d := time.Since(first); d < 250*time.Millisecond {
		t.Errorf("what was printed half a second before the end came %v before it", d)
	}
}

// runLargeOutput: much output on both streams, and nobody waits for ever.
func (k *kit) runLargeOutput(t *testing.T) {
	const size = 3 << 20
	spec := k.runSpec(k.sandbox(t), "outn", fmt.Sprint(size), "errn", fmt.Sprint(size), "outn", fmt.Sprint(size))
	spec.Limits.StdoutBytes, spec.Limits.StderrBytes = 8<<20, 8<<20
	o := k.do(t, spec, nil)
	if len(o.stdout) != 2*size || len(o.stderr) != size || o.StdoutTruncated || o.StderrTruncated {
		t.Errorf("%d and %d bytes of output", len(o.stdout), len(o.stderr))
	}
}

// runOutputCaps: the head is kept, the rest is counted, the program goes on.
func (k *kit) runOutputCaps(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), "out", "head", "outn", "3000000", "err", "HEAD", "errn", "2000000", "write", "after", "x")
	spec.Limits.StdoutBytes, spec.Limits.StderrBytes = 1000, 2000
	o := k.do(t, spec, nil)
	if o.Stop == backend.StopOutput {
		return // more than the backend is willing to drain
	}
	if len(o.stdout) != 1000 || !strings.HasPrefix(o.stdout, "headx") || o.StdoutBytes != 3_000_004 || !o.StdoutTruncated {
		t.Errorf("stdout: %d bytes kept, %d counted, truncated %v", len(o.stdout), o.StdoutBytes, o.StdoutTruncated)
	}
	if len(o.stderr) != 2000 || !strings.HasPrefix(o.stderr, "HEADx") || o.StderrBytes != 2_000_004 || !o.StderrTruncated {
		t.Errorf("stderr: %d bytes kept, %d counted, truncated %v", len(o.stderr), o.StderrBytes, o.StderrTruncated)
	}
	if got := o.changed(); o.ExitCode != 0 || len(got) != 1 {
		t.Errorf("status %d, changed %q: the program did not go on", o.ExitCode, got)
	}
	spec = k.runSpec(spec.Ref, "outn", "1000")
	spec.Limits.StdoutBytes = 1000
	if o := k.do(t, spec, nil); len(o.stdout) != 1000 || o.StdoutTruncated {
		t.Errorf("just as much as allowed: %d bytes, truncated %v", len(o.stdout), o.StdoutTruncated)
	}
}

// runConcurrent: runs of one session do not get into each other's way, and each
// is told of its own files.
func (k *kit) runConcurrent(t *testing.T) {
	ref := k.sandbox(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprint("of-", i)
			rec := &recorder{t: t}
			res, err := k.b.Run(t.Context(), k.runSpec(ref, "out", name, "write", name, name, "sleep", "100", "show", name), rec)
			if err != nil {
				t.Errorf("run %d: %v", i, err)
				return
			}
			if got := rec.stdout.String(); got != name+name || res.ExitCode != 0 {
				t.Errorf("run %d: stdout %q, status %d", i, got, res.ExitCode)
			}
			if len(res.Changed) != 1 || res.Changed[0].Path != data(name) {
				t.Errorf("run %d is told of %q", i, outcome{RunResult: res}.changed())
			}
		})
	}
	wg.Wait()
}

// runApart: sandboxes share nothing.
func (k *kit) runApart(t *testing.T) {
	a, b := k.sandbox(t), k.sandbox(t)
	k.run(t, a, "write", "mine", "x", "write", "/tmp/mine", "x")
	if got := k.run(t, b, "exists", "mine", "exists", "/tmp/mine").stdout; got != "nono" {
		t.Errorf("files of one sandbox in another: %q", got)
	}
	_, err := k.b.Stat(t.Context(), b, data("mine"))
	wantAbsentFile(t, "Stat", err)
}

func (k *kit) runUsage(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), "out", "12345", "sleep", "200", "write", "f", "1234567890")
	spec.Inputs = []backend.Input{{Path: data("in"), Inline: []byte("123")}}
	o := k.do(t, spec, nil)
	if u := o.Usage; u.Wall < 150*time.Millisecond || u.Wall > k.Patience {
		t.Errorf("a run of more than 200 ms used %v", u.Wall)
	}
	if want := int64(len(k.Probe.Source) + 3); o.Usage.BytesIn != want {
		t.Errorf("%d bytes in, want %d", o.Usage.BytesIn, want)
	}
	if o.Usage.BytesOut != 15 {
		t.Errorf("%d bytes out, want 15", o.Usage.BytesOut)
	}
	if _, err := k.try(t, t.Context(), k.runSpec(k.ghost(), "exit", "0"), nil); !backend.ProvesGone(err) {
		t.Errorf("a run in an absent sandbox: %v", err)
	}
}

// errListener is what a listener that left says.
var errListener = errors.New("nobody listens")
