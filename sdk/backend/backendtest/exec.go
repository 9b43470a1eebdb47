package backendtest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) execChecks() []check {
	checks := []check{
		{"result", k.execResult},
		{"arguments", k.execArguments},
		{"environment", k.execEnvironment},
		{"stdin", k.execStdin},
		{"output_cap", k.execOutputCap},
		{"timeout", k.execTimeout},
		{"shell", k.execShell},
		{"refused", k.execRefused},
	}
	for i, c := range checks {
		checks[i].run = func(t *testing.T) {
			if k.Probe.Exec == nil {
				t.Skip("the harness says nothing of command lines")
			}
			c.run(t)
		}
	}
	return checks
}

func (k *kit) execRequest(ref backend.Ref, ops ...string) backend.ExecRequest {
	return backend.ExecRequest{Ref: ref, Argv: slices.Concat(k.Probe.Exec, ops), Env: k.Probe.Env, Timeout: k.Patience}
}

func (k *kit) exec(t *testing.T, req backend.ExecRequest) backend.ExecResult {
	t.Helper()
	res, err := k.b.Exec(t.Context(), req)
	if err != nil {
		t.Fatalf("Exec: %v", err)
	}
	return res
}

func (k *kit) execResult(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "content")
	res := k.exec(t, k.execRequest(ref, "show", "f", "err", "oops", "write", "made", "x", "exit", "7"))
	if res.Stop != backend.StopExit || res.ExitCode != 7 || string(res.Stdout) != "content" || string(res.Stderr) != "oops" || res.StdoutTruncated || res.StderrTruncated {
		t.Errorf("result %+v", res)
	}
	if res.Wall <= 0 {
		t.Error("Wall is missing")
	}
	if got := k.read(t, ref, data("made")); got != "x" {
		t.Errorf("the command's file holds %q", got)
	}
}

func (k *kit) execArguments(t *testing.T) {
	res := k.exec(t, k.execRequest(k.sandbox(t), append([]string{"args"}, oddArguments...)...))
	checkArguments(t, string(res.Stdout))
}

func (k *kit) execEnvironment(t *testing.T) {
	t.Setenv("CAISSON_KIT_SECRET", "leaked")
	req := k.execRequest(k.sandbox(t), "env", "ODD", "out", "|", "env", "CAISSON_KIT_SECRET")
	req.Env = map[string]string{"ODD": "a b;$c\n\"ü"}
	maps.Copy(req.Env, k.Probe.Env)
	if got := string(k.exec(t, req).Stdout); got != "a b;$c\n\"ü|(unset)" {
		t.Errorf("the environment is %q", got)
	}
}

func (k *kit) execStdin(t *testing.T) {
	ref := k.sandbox(t)
	for _, in := range []string{"", "two\nlines"} {
		req := k.execRequest(ref, "cat", "out", "|done")
		req.Stdin = []byte(in)
		if got := string(k.exec(t, req).Stdout); got != in+"|done" {
			t.Errorf("stdin %q came back as %q", in, got)
		}
	}
}

func (k *kit) execOutputCap(t *testing.T) {
	ref := k.sandbox(t)
	req := k.execRequest(ref, "out", "head", "outn", "2000000", "errn", "2000000", "write", "after", "x")
	req.MaxOutputBytes = 1000
	res := k.exec(t, req)
	if len(res.Stdout) != 1000 || string(res.Stdout[:4]) != "head" || !res.StdoutTruncated || len(res.Stderr) != 1000 || !res.StderrTruncated {
		t.Errorf("%d and %d bytes kept, truncated %v and %v", len(res.Stdout), len(res.Stderr), res.StdoutTruncated, res.StderrTruncated)
	}
	if res.Stop == backend.StopExit && res.ExitCode != 0 {
		t.Errorf("status %d: the command did not go on", res.ExitCode)
	}
	req = k.execRequest(ref, "outn", fmt.Sprint(1<<20))
	if res := k.exec(t, req); len(res.Stdout) != 1<<20 || res.StdoutTruncated {
		t.Errorf("by default %d bytes are kept, truncated %v", len(res.Stdout), res.StdoutTruncated)
	}
}

// execTimeout: a timeout is a result, with the output until then.
func (k *kit) execTimeout(t *testing.T) {
	req := k.execRequest(k.sandbox(t), "out", "begun", "write", "partial.txt", "x", "spin")
	var res backend.ExecResult
	k.shortly(func(limit time.Duration) bool {
		req.Timeout = limit
		var err error
		k.within(t, "Exec", func() { res, err = k.b.Exec(t.Context(), req) })
		if err != nil {
			t.Fatal(err)
		}
		return k.wrote(t, req.Ref)
	})
	if res.Stop != backend.StopTimeout || res.ExitCode != -1 || string(res.Stdout) != "begun" {
		t.Errorf("stop %q, status %d, stdout %q", res.Stop, res.ExitCode, res.Stdout)
	}
}

// execShell: a command line works, or is refused as unsupported.
func (k *kit) execShell(t *testing.T) {
	res, err := k.b.Exec(t.Context(), backend.ExecRequest{Ref: k.sandbox(t), Argv: []string{`a="x y"; printf '%s|' "$a" | tr x z`}, Shell: true})
	if err != nil {
		wantFileError(t, "a shell command line", err, backend.KindUnsupported)
		return
	}
	if string(res.Stdout) != "z y|" {
		t.Errorf("stdout %q", res.Stdout)
	}
}

func (k *kit) execRefused(t *testing.T) {
	ref := k.sandbox(t)
	for name, req := range map[string]backend.ExecRequest{
		"no command":            {Ref: ref},
		"empty command":         {Ref: ref, Argv: []string{""}},
		"shell with arguments":  {Ref: ref, Argv: []string{"echo", "x"}, Shell: true},
		"NUL in an argument":    {Ref: ref, Argv: append(slices.Clone(k.Probe.Exec), "a\x00b")},
		"relative directory":    {Ref: ref, Argv: k.Probe.Exec, Dir: "sub"},
		"directory out of here": {Ref: ref, Argv: k.Probe.Exec, Dir: backend.DataDir + "/../.."},
		"negative timeout":      {Ref: ref, Argv: k.Probe.Exec, Timeout: -1},
		"bad variable":          {Ref: ref, Argv: k.Probe.Exec, Env: map[string]string{"": "x"}},
	} {
		_, err := k.b.Exec(t.Context(), req)
		wantFileError(t, name, err, backend.KindInvalidRequest)
	}
}
