package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host"
)

// verifiedPlugin builds the plugin that is verified and returns its directory.
func verifiedPlugin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "verified"), "./testdata/verified").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	m := "schema: 1\nname: verified\nversion: 0.1.0\nkind: backend\nruntime: process\nprotocol: 1\npath: verified\nenv: [PATH]\ncapabilities: [metadata, list, names, fs_enum, shared, control]\nlacks: [paths]\n"
	if err := os.WriteFile(filepath.Join(dir, "plugin.yaml"), []byte(m), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An author's backend is run through the conformance kit by one command, offline,
// and nothing of it is left.
func TestVerifyBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("the kit takes a minute")
	}
	t.Parallel()
	need(t)
	p := newPlace(t)
	dir := verifiedPlugin(t)
	args := []string{"plugin", "verify", "--probe", "bash"}
	args = append(args, "--skip", "control/beside") // it computes for nine seconds
	r := p.run(t, "", append(args, dir)...)
	if r.code != 0 || !strings.Contains(r.stdout, " 0 failed, ") || !strings.Contains(r.stdout, "\ncontrol/beside ") ||
		!strings.Contains(r.stdout, "programs see the machine's own paths: the manifest says that it lacks paths") {
		t.Errorf("verify ended with %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}

	if err := os.WriteFile(filepath.Join(dir, "wrong"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r = p.run(t, "", append(append(args, "--json", "--skip", "no/such"), dir)...)
	var checks []host.VerifyCheck
	if err := json.Unmarshal([]byte(r.stdout), &checks); err != nil || r.code != 1 || r.stderr != "" {
		t.Fatalf("a backend that lists too much: verify ended with %d, %v\n%s\n%s", r.code, err, r.stdout, r.stderr)
	}
	failed := make(map[string]string)
	skipped := 0
	for _, c := range checks {
		if !c.OK {
			failed[c.Name] = c.Detail
		}
		if c.Skipped {
			skipped++
		}
	}
	if failed["lifecycle/filter"] == "" || !strings.Contains(failed["backend"], `Skip names "no/such"`) || len(checks) < 100 || skipped == 0 || skipped > 40 {
		t.Errorf("a backend that lists too much, and a test that there is not: %d checks, %d left out, failed: %q", len(checks), skipped, failed)
	}

	// What can make no sandbox fails once, not in every test.
	if err := os.WriteFile(filepath.Join(dir, "full"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r = p.run(t, "", append(args, dir)...)
	if r.code != 1 || !strings.Contains(r.stdout, "there is no room") || !strings.Contains(r.stdout, "1 check: 0 passed, 1 failed, 0 left out\n") {
		t.Errorf("a backend without room: verify ended with %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}

	// What cannot be started says why.
	if err := os.WriteFile(filepath.Join(dir, "verified"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r = p.run(t, "", append(args, dir)...)
	if r.code != 1 || !strings.Contains(r.stdout+r.stderr, "is it a Caisson plugin? It printed") {
		t.Errorf("no plugin: verify ended with %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}
