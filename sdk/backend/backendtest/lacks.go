package backendtest

import (
	"slices"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Lack is a part of the contract that a backend cannot keep for what it is, and that
// its manifest declares under lacks. The kit holds it to the opposite.
type Lack string

const (
	// LackLinksOut: programs cannot make symbolic links that lead out of DataDir.
	LackLinksOut Lack = "links_out"
	// LackDirectories: programs start in DataDir, and a RunSpec.Dir below it is
	// refused as unsupported.
	LackDirectories Lack = "directories"
	// LackPaths: programs see the machine's own paths in the place of DataDir and the
	// program directory, as where nothing isolates them.
	LackPaths Lack = "paths"
)

// lacks is every Lack, with what it means.
var lacks = map[Lack]string{
	LackLinksOut:    "programs cannot make links that lead out of their directory",
	LackDirectories: "programs start in " + backend.DataDir + " only",
	LackPaths:       "programs see the machine's own paths",
}

func (k *kit) lacks(l Lack) bool { return slices.Contains(k.Lacks, l) }

// skipLack ends a test that does not hold for what the backend lacks.
func skipLack(t *testing.T, l Lack) {
	t.Helper()
	t.Skipf("%s: the manifest says that it lacks %s", lacks[l], l)
}

// seesPaths ends a test where programs see other paths than those of the contract,
// after it has looked whether they do.
func (k *kit) seesPaths(t *testing.T) {
	t.Helper()
	if !k.lacks(LackPaths) {
		return
	}
	if got := k.run(t, k.sandbox(t), "cwd").stdout; got == backend.DataDir {
		t.Fatalf("the backend lacks %s, and programs start in %s", LackPaths, got)
	}
	skipLack(t, LackPaths)
}

// linkOut has a program make a link to a place outside, and reports whether there is one:
// where links may lead out, there has to be.
func (k *kit) linkOut(t *testing.T, ref backend.Ref, target, name string) bool {
	t.Helper()
	o := k.do(t, k.runSpec(ref, "link", target, name), nil)
	if len(o.Changed) > 0 {
		t.Errorf("a link is reported as a changed file: %q", o.changed())
	}
	_, err := k.b.Stat(t.Context(), ref, data(name))
	made := o.ExitCode == 0 && err == nil
	switch {
	case k.lacks(LackLinksOut) && (o.ExitCode == 0 || err == nil):
		t.Fatalf("the backend lacks %s, and a program made a link to %s", LackLinksOut, target)
	case !k.lacks(LackLinksOut) && !made:
		t.Fatalf("a program could not make a link to %s: status %d, stderr %s, Stat: %v", target, o.ExitCode, show(o.stderr), err)
	}
	return made
}
