package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) treeChecks() []check {
	return []check{
		{"list", k.treeList},
		{"empty", k.treeEmpty},
		{"make_dir", k.treeMakeDir},
		{"remove", k.treeRemove},
		{"walk", k.treeWalk},
		{"walk_limits", k.treeWalkLimits},
		{"walk_exclude", k.treeWalkExclude},
		{"many", k.treeMany},
	}
}

// treeList: direct children only, in order, with their types.
func (k *kit) treeList(t *testing.T) {
	ref := k.sandbox(t)
	for _, p := range []string{"b.txt", "a/inner", "c", "B"} {
		k.write(t, ref, data("d", p), p)
	}
	entries, err := k.b.ListDir(t.Context(), ref, data("d"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %s %d", strings.TrimPrefix(e.Path, data("d")+"/"), e.Type, e.Size))
	}
	if want := []string{"B file 1", "a dir 0", "b.txt file 5", "c file 1"}; !slices.Equal(got, want) {
		t.Errorf("ListDir = %q, want %q", got, want)
	}
}

func (k *kit) treeEmpty(t *testing.T) {
	ref := k.sandbox(t)
	if names := k.list(t, ref, backend.DataDir); len(names) != 0 {
		t.Errorf("a new sandbox holds %q", names)
	}
	res, err := k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref})
	if err != nil || len(res.Entries) != 0 || res.Truncated {
		t.Errorf("Walk of a new sandbox = %+v, %v", res, err)
	}
}

func (k *kit) treeMakeDir(t *testing.T) {
	ref := k.sandbox(t)
	for range 2 {
		if err := k.b.MakeDir(t.Context(), ref, data("a", "b", "c")); err != nil {
			t.Fatalf("MakeDir: %v", err)
		}
	}
	e, err := k.b.Stat(t.Context(), ref, data("a", "b", "c"))
	if err != nil || e.Type != backend.EntryDir || e.Size != 0 {
		t.Errorf("Stat = %+v, %v", e, err)
	}
	if err := k.b.MakeDir(t.Context(), ref, backend.DataDir); err != nil {
		t.Errorf("MakeDir of the working directory: %v", err)
	}
}

func (k *kit) treeRemove(t *testing.T) {
	ref := k.sandbox(t)
	for _, p := range []string{"f", "d/x", "d/e/y", "dd", "keep"} {
		k.write(t, ref, data(p), p)
	}
	for _, p := range []string{"f", "d", "d", "dd/not/there", "d/x"} {
		if err := k.b.Remove(t.Context(), ref, data(p)); err != nil {
			t.Errorf("Remove %q: %v", p, err)
		}
	}
	if names := k.list(t, ref, backend.DataDir); !slices.Equal(names, []string{"dd", "keep"}) {
		t.Errorf("what is left is %q", names)
	}
}

// treeWalk: everything below the root, depth first, without the root. A directory's
// content comes right after it, before names that merely begin with its own.
func (k *kit) treeWalk(t *testing.T) {
	ref := k.sandbox(t)
	for _, p := range []string{"a.txt", "a/x", "a/b/y", "z", "a-b"} {
		k.write(t, ref, data(p), p)
	}
	paths := func(req backend.WalkRequest) []string {
		t.Helper()
		req.Ref = ref
		res, err := k.b.Walk(t.Context(), req)
		if err != nil || res.Truncated {
			t.Fatalf("Walk: truncated %v, %v", res.Truncated, err)
		}
		var got []string
		for _, e := range res.Entries {
			got = append(got, strings.TrimPrefix(e.Path, backend.DataDir+"/")+" "+string(e.Type))
			if want := digestOf(strings.TrimPrefix(e.Path, backend.DataDir+"/")); e.Type == backend.EntryFile && req.Digests && e.SHA256 != want {
				t.Errorf("%q has digest %q, want %q", e.Path, e.SHA256, want)
			}
			if !req.Digests && e.Type != backend.EntryFile && e.SHA256 != "" {
				t.Errorf("%q has a digest", e.Path)
			}
		}
		return got
	}
	want := []string{"a dir", "a/b dir", "a/b/y file", "a/x file", "a-b file", "a.txt file", "z file"}
	if got := paths(backend.WalkRequest{}); !slices.Equal(got, want) {
		t.Errorf("Walk = %q, want %q", got, want)
	}
	if got := paths(backend.WalkRequest{Root: backend.DataDir, Digests: true}); !slices.Equal(got, want) {
		t.Errorf("Walk with digests = %q, want %q", got, want)
	}
	if got, want := paths(backend.WalkRequest{Root: data("a")}), []string{"a/b dir", "a/b/y file", "a/x file"}; !slices.Equal(got, want) {
		t.Errorf("Walk of a subdirectory = %q, want %q", got, want)
	}
}

func (k *kit) treeWalkLimits(t *testing.T) {
	ref := k.sandbox(t)
	for _, p := range []string{"a", "b", "c", "d/1", "d/e/2"} {
		k.write(t, ref, data(p), p)
	}
	res, err := k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref, MaxEntries: 2})
	if err != nil || len(res.Entries) != 2 || !res.Truncated {
		t.Errorf("at most 2 entries: %d, truncated %v, %v", len(res.Entries), res.Truncated, err)
	}
	res, err = k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref, MaxDepth: 1})
	if err != nil || !res.Truncated {
		t.Errorf("at most one level: truncated %v, %v", res.Truncated, err)
	}
	for _, e := range res.Entries {
		if strings.Contains(strings.TrimPrefix(e.Path, backend.DataDir+"/"), "/") {
			t.Errorf("%q is deeper than one level", e.Path)
		}
	}
	res, err = k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref, MaxEntries: 100, MaxDepth: 10})
	if err != nil || len(res.Entries) != 7 || res.Truncated {
		t.Errorf("within the limits: %d entries, truncated %v, %v", len(res.Entries), res.Truncated, err)
	}
}

func (k *kit) treeWalkExclude(t *testing.T) {
	ref := k.sandbox(t)
	for _, p := range []string{"__pycache__/m.pyc", "a.pyc", "pyc", "sub/__pycache__/x", "sub/y", "my__pycache__"} {
		k.write(t, ref, data(p), p)
	}
	res, err := k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref, Exclude: []string{"__pycache__", "*.pyc"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range res.Entries {
		got = append(got, strings.TrimPrefix(e.Path, backend.DataDir+"/"))
	}
	if want := []string{"my__pycache__", "pyc", "sub", "sub/y"}; !slices.Equal(got, want) {
		t.Errorf("Walk = %q, want %q", got, want)
	}
}

// treeMany: a listing longer than any one message.
func (k *kit) treeMany(t *testing.T) {
	const n = 300
	ref := k.sandbox(t)
	for i := range n {
		k.write(t, ref, data("many", fmt.Sprintf("%s-%03d", strings.Repeat("n", 180), i)), "")
	}
	if names := k.list(t, ref, data("many")); len(names) != n || !slices.IsSorted(names) {
		t.Errorf("ListDir found %d of %d, sorted %v", len(names), n, slices.IsSorted(names))
	}
}
