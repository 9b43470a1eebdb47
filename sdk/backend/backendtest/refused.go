package backendtest

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) refusedChecks() []check {
	return []check{
		{"paths", k.refusedPaths},
		{"inputs", k.refusedInputs},
		{"specs", k.refusedSpecs},
		{"links", k.refusedLinks},
		{"links_to_directories", k.refusedDirLinks},
		{"links_in_inputs", k.refusedInputLinks},
	}
}

// badPaths are refused before anything is touched.
var badPaths = []string{
	"", "relative", "./x", "../x", "mnt/data/x",
	backend.DataDir + "/../../etc/passwd", backend.DataDir + "/..", backend.DataDir + "/a/../b", "/..", "/../etc/passwd",
	backend.DataDir + "/nul\x00byte", backend.DataDir + "/" + strings.Repeat("long/", 1000),
}

func (k *kit) refusedPaths(t *testing.T) {
	ref := k.sandbox(t)
	ctx := t.Context()
	for _, p := range badPaths {
		refuse := func(what string, err error) {
			t.Helper()
			wantFileError(t, what+" "+show(p), err, backend.KindInvalidRequest)
		}
		r, _, err := k.b.ReadFile(ctx, ref, p)
		if err == nil {
			_ = r.Close()
		}
		refuse("ReadFile", err)
		_, err = k.b.WriteFile(ctx, ref, p, backend.WriteOptions{}, strings.NewReader("x"))
		refuse("WriteFile", err)
		_, err = k.b.Stat(ctx, ref, p)
		refuse("Stat", err)
		_, err = k.b.ListDir(ctx, ref, p)
		refuse("ListDir", err)
		refuse("MakeDir", k.b.MakeDir(ctx, ref, p))
		refuse("Remove", k.b.Remove(ctx, ref, p))
		if p != "" { // means the default
			_, err = k.b.Walk(ctx, backend.WalkRequest{Ref: ref, Root: p})
			refuse("Walk", err)
		}
	}
	if names := k.list(t, ref, backend.DataDir); len(names) != 0 {
		t.Errorf("refused paths left %q", names)
	}
}

func (k *kit) refusedInputs(t *testing.T) {
	ref := k.sandbox(t)
	for _, p := range append(slices.Clone(badPaths), backend.DataDir, "/etc/passwd", "/tmp/x", backend.DataDir+"2/x") {
		for _, optional := range []bool{false, true} {
			spec := k.runSpec(ref, "exit", "0")
			spec.Inputs = []backend.Input{{Path: p, Inline: []byte("x"), Optional: optional}}
			o, err := k.try(t, t.Context(), spec, nil)
			wantFileError(t, "an input at "+show(p), err, backend.KindInvalidRequest)
			if o.starts > 0 {
				t.Errorf("the program started although an input has the path %s", show(p))
			}
		}
	}
}

// refusedSpecs: what is wrong with a run is said before it starts.
func (k *kit) refusedSpecs(t *testing.T) {
	ref := k.sandbox(t)
	for name, change := range map[string]func(*backend.RunSpec){
		"no steps":            func(s *backend.RunSpec) { s.Steps = nil },
		"no command":          func(s *backend.RunSpec) { s.Steps[0].Argv = nil },
		"NUL in an argument":  func(s *backend.RunSpec) { s.Steps[0].Args = []string{"a\x00b"} },
		"no program file":     func(s *backend.RunSpec) { s.Program.File = "" },
		"program file a path": func(s *backend.RunSpec) { s.Program.File = "../x" },
		"program file dots":   func(s *backend.RunSpec) { s.Program.File = ".." },
		"negative limit":      func(s *backend.RunSpec) { s.Limits.Wall = -1 },
		"bad variable":        func(s *backend.RunSpec) { s.Env = map[string]string{"A=B": "x"} },
		"relative directory":  func(s *backend.RunSpec) { s.Dir = "sub" },
		"input with no source": func(s *backend.RunSpec) {
			s.Inputs = []backend.Input{{Path: data("x")}}
		},
		"input with two sources": func(s *backend.RunSpec) {
			s.Inputs = []backend.Input{{Path: data("x"), Inline: []byte{}, Chunked: true}}
		},
	} {
		spec := k.runSpec(ref, "exit", "0")
		change(&spec)
		o, err := k.try(t, t.Context(), spec, &recorder{inputs: map[int]io.Reader{0: eof{}}})
		wantFileError(t, name, err, backend.KindInvalidRequest)
		if o.starts > 0 {
			t.Errorf("%s: the program started", name)
		}
	}
}

// refusedLinks: links that a program makes lead nowhere.
func (k *kit) refusedLinks(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("target"), "secret")
	o := k.run(t, ref, "link", "target", "near", "link", "nowhere", "dangling")
	if len(o.Changed) > 0 {
		t.Errorf("links are reported as changed files: %q", o.changed())
	}
	made := []string{"near", "dangling"}
	for name, target := range map[string]string{"out": "/etc/passwd", "up": "../../../../../../../../etc/passwd"} {
		if k.linkOut(t, ref, target, name) {
			made = append(made, name)
		}
	}
	for _, name := range made {
		e, err := k.b.Stat(t.Context(), ref, data(name))
		if err != nil || e.Type != backend.EntryOther {
			t.Errorf("Stat of link %q = %+v, %v", name, e, err)
		}
		r, _, err := k.b.ReadFile(t.Context(), ref, data(name))
		if err == nil {
			b, _ := io.ReadAll(r)
			_ = r.Close()
			t.Errorf("ReadFile through link %q: %s", name, show(string(b)))
		}
		wantNoProof(t, "ReadFile of a link", err)
		// A write may replace the link or be refused; what it points at stays.
		if _, err := k.b.WriteFile(t.Context(), ref, data(name), backend.WriteOptions{}, strings.NewReader("overwritten")); err == nil {
			if got := k.read(t, ref, data(name)); got != "overwritten" {
				t.Errorf("WriteFile over link %q stored %s", name, show(got))
			}
		}
	}
	if got := k.read(t, ref, data("target")); got != "secret" {
		t.Errorf("a write went through a link: the target holds %q", got)
	}
	if names := k.list(t, ref, backend.DataDir); slices.Contains(names, "nowhere") {
		t.Error("a write went through a dangling link")
	}
}

func (k *kit) refusedDirLinks(t *testing.T) {
	ref := k.sandbox(t)
	k.run(t, ref, "link", ".", "loop")
	out := []string{data("up", "..", "etc", "passwd")} // what links could lead to
	listed := k.linkOut(t, ref, "/etc", "etc")
	if listed {
		out = append(out, data("etc", "passwd"), data("etc", "new"))
	}
	k.linkOut(t, ref, "..", "up")
	res, err := k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range res.Entries {
		if e.Type != backend.EntryOther || strings.Count(e.Path, "/") > 3 {
			t.Errorf("Walk went through a link: %+v", e)
		}
	}
	for _, p := range out {
		if r, _, err := k.b.ReadFile(t.Context(), ref, p); err == nil {
			_ = r.Close()
			t.Errorf("ReadFile %q went out of the sandbox", p)
		}
		if _, err := k.b.WriteFile(t.Context(), ref, p, backend.WriteOptions{}, strings.NewReader("x")); err == nil {
			t.Errorf("WriteFile %q went out of the sandbox", p)
		}
	}
	if _, err := k.b.ListDir(t.Context(), ref, data("etc")); listed && err == nil {
		t.Error("ListDir went through a link out of the sandbox")
	}
	if err := k.b.Remove(t.Context(), ref, data("loop")); err != nil {
		t.Errorf("Remove of a link: %v", err)
	}
	if names := k.list(t, ref, backend.DataDir); slices.Contains(names, "loop") {
		t.Error("a link cannot be removed")
	}
}

// refusedInputLinks: an input never lands where a link points.
func (k *kit) refusedInputLinks(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("target"), "secret")
	k.run(t, ref, "link", "target", "l", "mkdir", "real")
	out := k.linkOut(t, ref, "/etc", "out")
	spec := k.runSpec(ref, "exit", "0")
	spec.Inputs = []backend.Input{
		{Path: data("l"), Inline: []byte("input"), Optional: true},
		{Path: data("out", "new"), Inline: []byte("input"), Optional: true},
	}
	o := k.do(t, spec, nil)
	if got := k.read(t, ref, data("target")); got != "secret" {
		t.Errorf("an input went through a link: the target holds %q", got)
	}
	if out && !slices.Contains(o.MissingInputs, data("out", "new")) {
		t.Errorf("an input out of the sandbox is not missing: %q", o.MissingInputs)
	}
}
