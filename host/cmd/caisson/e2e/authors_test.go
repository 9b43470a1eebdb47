package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/internal/porttest"
)

// TestAuthorsTutorial does what docs/plugin-authors.md says, line by line, as a new
// author would: a policy is written, verified, served and swapped.
func TestAuthorsTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: a tutorial takes its time")
	}
	t.Parallel()
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	p := newPlace(t, "GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1], "GOFLAGS=", "GOTOOLCHAIN=local", "CODE_EXEC_FEE_CENTS=0")
	text, err := os.ReadFile("../../../../docs/plugin-authors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := bytes.Cut(text, []byte("## A policy in ten minutes\n"))
	chapter, _, more := bytes.Cut(text, []byte("\n## "))
	if !found || !more {
		t.Fatal("docs/plugin-authors.md has no tutorial")
	}
	work := t.TempDir()
	bin := filepath.Join(work, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(bin, "caisson")); err != nil {
		t.Fatal(err)
	}
	addr := porttest.Free(t)

	// Files and commands, in the order of the document.
	script := "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
	blocks := regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```$").FindAllSubmatch(chapter, -1)
	for _, b := range blocks {
		if string(b[1]) == "yaml" {
			script += "cat > caisson.yaml <<'FILE'\n" + string(b[2]) + "FILE\n"
		} else {
			script += string(b[2])
		}
	}
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks", len(blocks))
	}
	// The test's own port, and its data directory with compiled interpreters.
	script = strings.NewReplacer("127.0.0.1:8080", addr, "--data data", "--data "+p.data).Replace(script)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = work
	cmd.Env = append(p.env, "PATH="+bin+":"+os.Getenv("PATH"), "CAISSON_SRC="+filepath.Dir(filepath.Dir(plugins)))
	said, err := cmd.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(work, "noshell", "serve.log"))
		t.Fatalf("%v\n%s\n%s", err, said, log)
	}
	for _, want := range []string{
		"memory    ok", "installed noshell 0.1.0", "\nhello\n", "denied, as it should be", "noshell deny: shell scripts are not accepted here",
		"1 otherwise, 0 failed", "noshell 0.2.0 serves in the place of 0.1.0", "denied for another reason", "noshell deny: write it in Python, please", "installed noshell 0.2.0",
	} {
		if !strings.Contains(string(said), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", said)
	}
}
