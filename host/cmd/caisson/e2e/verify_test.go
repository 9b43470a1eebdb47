package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// verifiedPlugin builds the plugin that is verified and returns its directory.
func verifiedPlugin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "verified"), "./testdata/verified").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	m := "schema: 1\nname: verified\nversion: 0.1.0\nkind: backend\nruntime: process\nprotocol: 1\npath: verified\nenv: [PATH]\ncapabilities: [metadata, list, names, fs_enum, shared, control]\n"
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
	t.Parallel() // it waits more than it computes
	need(t)
	p := newPlace(t)
	dir := verifiedPlugin(t)
	args := []string{"plugin", "verify", "--probe", "bash"}
	for _, name := range []string{
		"run/directory", "run/program_gone", "control/of_another_run", // its programs see the machine's own paths
		"control/beside", // computes for nine seconds
	} {
		args = append(args, "--skip", name)
	}
	r := p.run(t, "", append(args, dir)...)
	if r.code != 0 || !strings.Contains(r.stdout, "the backend conforms\n") {
		t.Errorf("verify ended with %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}

	if err := os.WriteFile(filepath.Join(dir, "wrong"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r = p.run(t, "", append(append(args, "--skip", "no/such"), dir)...)
	if r.code != 1 || !strings.Contains(r.stderr, "the backend does not conform") ||
		!strings.Contains(r.stdout, "--- FAIL: conformance/kit/backend/lifecycle/filter") || strings.Contains(r.stdout, "the backend conforms") {
		t.Errorf("a backend that lists too much: verify ended with %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	if !strings.Contains(r.stdout, `Skip names "no/such"`) {
		t.Errorf("a test that there is not: %s", r.stdout)
	}

	// What cannot be started says why.
	if err := os.WriteFile(filepath.Join(dir, "verified"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := p.run(t, "", append(args, dir)...); r.code != 1 || !strings.Contains(r.stdout+r.stderr, "is it a Caisson plugin? It printed") {
		t.Errorf("no plugin: verify ended with %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}
