package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) changeChecks() []check {
	return []check{
		{"made", k.changeMade},
		{"entry", k.changeEntry},
		{"once", k.changeOnce},
		{"same_content", k.changeSameContent},
		{"same_size", k.changeSameSize},
		{"old_times", k.changeOldTimes},
		{"inputs", k.changeInputs},
		{"uploads", k.changeUploads},
		{"deleted", k.changeDeleted},
		{"renamed", k.changeRenamed},
		{"odd_names", k.changeOddNames},
		{"exclude", k.changeExclude},
		{"limits", k.changeLimits},
		{"root", k.changeRoot},
		{"skip", k.changeSkip},
	}
}

func wantChanged(t *testing.T, o outcome, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := o.changed(); !slices.Equal(got, want) {
		t.Errorf("changed %q, want %q", got, want)
	}
}

func wantDeleted(t *testing.T, o outcome, want ...string) {
	t.Helper()
	var got []string
	for _, p := range o.Deleted {
		got = append(got, strings.TrimPrefix(p, backend.DataDir+"/"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("deleted %q, want %q", got, want)
	}
}

func (k *kit) changeMade(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("before.txt"), "x")
	o := k.run(t, ref, "write", "b.txt", "b", "write", "out/a.txt", "a", "write", "empty", "", "mkdir", "only_a_directory",
		"append", "before.txt", "y", "write", "/tmp/elsewhere", "x")
	wantChanged(t, o, "b.txt", "out/a.txt", "empty", "before.txt")
	wantDeleted(t, o)
	if o.Skipped != 0 || o.CollectFailed {
		t.Errorf("skipped %d, failed %v", o.Skipped, o.CollectFailed)
	}
}

// changeEntry: what is reported is what can be read afterwards.
func (k *kit) changeEntry(t *testing.T) {
	ref := k.sandbox(t)
	o := k.run(t, ref, "write", "f.txt", "content")
	if len(o.Changed) != 1 {
		t.Fatalf("changed %q", o.changed())
	}
	e := o.Changed[0]
	if e.Type != backend.EntryFile || e.Size != 7 || e.SHA256 != digestOf("content") {
		t.Errorf("entry %+v", e)
	}
	if got := k.read(t, ref, e.Path); got != "content" {
		t.Errorf("it holds %q", got)
	}
}

// changeOnce: a file that one run made is not announced by the next.
func (k *kit) changeOnce(t *testing.T) {
	ref := k.sandbox(t)
	wantChanged(t, k.run(t, ref, "write", "f", "x"), "f")
	wantChanged(t, k.run(t, ref, "show", "f"))
	wantChanged(t, k.run(t, ref, "append", "f", "y"), "f")
}

// changeSameContent: content decides, not times.
func (k *kit) changeSameContent(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "same")
	wantChanged(t, k.run(t, ref, "write", "f", "same"))
	wantChanged(t, k.run(t, ref, "rm", "f", "write", "f", "same"))
	wantChanged(t, k.run(t, ref, "write", "f", "other", "write", "f", "same"))
}

// changeSameSize: a rewrite within the same second, of the same size.
func (k *kit) changeSameSize(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "0")
	for i := range 5 {
		wantChanged(t, k.run(t, ref, "write", "f", fmt.Sprint(i+1)), "f")
	}
}

// changeOldTimes: a program may set any time, forwards and back.
func (k *kit) changeOldTimes(t *testing.T) {
	ref := k.sandbox(t)
	k.run(t, ref, "write", "old", "aaa", "touch", "1000000000", "old")
	wantChanged(t, k.run(t, ref, "write", "old", "bbb", "touch", "1000000000", "old", "write", "new", "x", "touch", "1000000000", "new"), "new", "old")
	wantChanged(t, k.run(t, ref, "touch", "1100000000", "old"))
}

// changeInputs: an input counts as unchanged as long as it is what was placed.
func (k *kit) changeInputs(t *testing.T) {
	ref := k.sandbox(t)
	spec := k.runSpec(ref, "append", "changed.csv", "!", "rm", "removed.csv", "write", "same.csv", "input")
	for _, name := range []string{"kept.csv", "changed.csv", "removed.csv", "same.csv"} {
		spec.Inputs = append(spec.Inputs, backend.Input{Path: data(name), Inline: []byte("input")})
	}
	o := k.do(t, spec, nil)
	wantChanged(t, o, "changed.csv")
	wantChanged(t, k.run(t, ref, "show", "kept.csv"))
}

// changeUploads: files that were put there from outside are nobody's changes.
func (k *kit) changeUploads(t *testing.T) {
	ref := k.sandbox(t)
	k.run(t, ref, "write", "first", "x")
	k.write(t, ref, data("uploaded"), "x")
	k.write(t, ref, data("first"), "replaced from outside")
	wantChanged(t, k.run(t, ref, "write", "second", "x"), "second")
}

func (k *kit) changeDeleted(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("gone"), "x")
	k.write(t, ref, data("d", "gone too"), "x")
	k.write(t, ref, data("kept"), "x")
	o := k.run(t, ref, "rm", "gone", "rm", "d/gone too", "write", "made and gone", "x", "rm", "made and gone")
	wantDeleted(t, o, "gone", "d/gone too")
	wantChanged(t, o)
	wantDeleted(t, k.run(t, ref, "show", "kept"))
}

func (k *kit) changeRenamed(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("old", "f"), "x")
	k.write(t, ref, data("file"), "y")
	o := k.run(t, ref, "mv", "old", "new", "mv", "file", "renamed")
	wantChanged(t, o, "new/f", "renamed")
	wantDeleted(t, o, "old/f", "file")
}

func (k *kit) changeOddNames(t *testing.T) {
	ref := k.sandbox(t)
	names := []string{"two words", "new\nline", "tab\there", "ünï 数", "-rf", "quote'\"", "a..b", "{dir}"}
	var ops []string
	for _, n := range names {
		ops = append(ops, "write", "./"+n, n)
	}
	wantChanged(t, k.run(t, ref, ops...), names...)
	for _, n := range names {
		if got := k.read(t, ref, data(n)); got != n {
			t.Errorf("%q holds %q", n, got)
		}
	}
}

func (k *kit) changeExclude(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("__pycache__", "old"), "x")
	spec := k.runSpec(ref, "write", "__pycache__/m.pyc", "x", "write", "a.pyc", "x", "write", "sub/__pycache__/deep/x", "x",
		"write", "a.py", "x", "write", "pyc", "x", "rm", "__pycache__/old")
	spec.Collect.Exclude = []string{"__pycache__", "*.pyc"}
	o := k.do(t, spec, nil)
	wantChanged(t, o, "a.py", "pyc")
	wantDeleted(t, o)
}

// changeLimits: what does not fit is counted.
func (k *kit) changeLimits(t *testing.T) {
	ref := k.sandbox(t)
	spec := k.runSpec(ref, "write", "a", "1", "write", "b", "1", "write", "c", "1", "writen", "big", "1001", "writen", "fits", "1000")
	spec.Collect.MaxFileBytes = 1000
	o := k.do(t, spec, nil)
	wantChanged(t, o, "a", "b", "c", "fits")
	if o.Skipped != 1 {
		t.Errorf("skipped %d, want the one that is too large", o.Skipped)
	}
	spec = k.runSpec(ref, "write", "a", "2", "write", "b", "2", "write", "c", "2")
	spec.Collect.MaxFiles = 2
	o = k.do(t, spec, nil)
	if len(o.Changed) != 2 || o.Skipped != 1 {
		t.Errorf("%d reported and %d skipped, want 2 and 1", len(o.Changed), o.Skipped)
	}
	spec = k.runSpec(ref, "write", "1/2/3/deep", "x", "write", "1/shallow", "x")
	spec.Collect.MaxDepth = 2
	o = k.do(t, spec, nil)
	wantChanged(t, o, "1/shallow")
	if o.Skipped != 1 {
		t.Errorf("skipped %d, want the one that is too deep", o.Skipped)
	}
}

func (k *kit) changeRoot(t *testing.T) {
	ref := k.sandbox(t)
	if err := k.b.MakeDir(t.Context(), ref, data("out")); err != nil {
		t.Fatal(err)
	}
	spec := k.runSpec(ref, "write", "outside", "x", "write", "out/inside", "x", "write", "outer", "x")
	spec.Collect.Root = data("out")
	wantChanged(t, k.do(t, spec, nil), "out/inside")
}

func (k *kit) changeSkip(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), "write", "f", "x")
	spec.Collect.Skip = true
	o := k.do(t, spec, nil)
	wantChanged(t, o)
	if o.CollectFailed {
		t.Error("collection that was not asked for failed")
	}
}
