package backendtest

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) inputChecks() []check {
	return []check{
		{"inline", k.inputInline},
		{"chunked", k.inputChunked},
		{"many_chunked", k.inputManyChunked},
		{"failing_reader", k.inputFailingReader},
		{"copy", k.inputCopy},
		{"copy_pinned", k.inputCopyPinned},
		{"copy_missing", k.inputCopyMissing},
		{"in_the_way", k.inputInTheWay},
		{"replace", k.inputReplace},
		{"large_source", k.inputLargeSource},
	}
}

func (k *kit) inputInline(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), "show", "a.txt", "show", "dir/two words.csv", "show", "empty")
	spec.Inputs = []backend.Input{
		{Path: data("a.txt"), Inline: []byte("A\x00\xff")},
		{Path: data("dir", "two words.csv"), Inline: []byte("B")},
		{Path: data("empty"), Inline: []byte{}},
	}
	o := k.do(t, spec, nil)
	if o.stdout != "A\x00\xffB" || o.ExitCode != 0 {
		t.Errorf("the program read %q, status %d %s", o.stdout, o.ExitCode, show(o.stderr))
	}
	if len(o.Changed) > 0 {
		t.Errorf("inputs that nobody changed are reported: %q", o.changed())
	}
}

// inputChunked: content that is streamed, more than any one buffer.
func (k *kit) inputChunked(t *testing.T) {
	const size = 7<<20 + 5
	ref := k.sandbox(t)
	spec := k.runSpec(ref, "out", "ran")
	spec.Inputs = []backend.Input{{Path: data("big"), Chunked: true}, {Path: data("none"), Chunked: true}}
	rec := &recorder{inputs: map[int]io.Reader{0: pattern(size), 1: eof{}}}
	o := k.do(t, spec, rec)
	if o.stdout != "ran" || len(o.Changed) > 0 {
		t.Errorf("stdout %q, changed %q", o.stdout, o.changed())
	}
	want, err := io.ReadAll(pattern(size))
	if err != nil {
		t.Fatal(err)
	}
	if got := k.read(t, ref, data("big")); got != string(want) {
		t.Errorf("%d bytes arrived as %d others", size, len(got))
	}
	if got := k.read(t, ref, data("none")); got != "" {
		t.Errorf("an empty input holds %q", got)
	}
}

// inputManyChunked: each is read once, in order, before the start; the recorder
// checks that.
func (k *kit) inputManyChunked(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), "show", "c/0", "show", "c/2", "show", "c/1")
	rec := &recorder{inputs: map[int]io.Reader{
		0: strings.NewReader("zero"), 2: strings.NewReader("one"), 3: strings.NewReader("two"),
	}}
	spec.Inputs = []backend.Input{
		{Path: data("c", "0"), Chunked: true},
		{Path: data("c", "x"), Inline: []byte("x")},
		{Path: data("c", "1"), Chunked: true},
		{Path: data("c", "2"), Chunked: true},
	}
	if o := k.do(t, spec, rec); o.stdout != "zerotwoone" {
		t.Errorf("the program read %q", o.stdout)
	}
	if !slices.Equal(rec.asked, []int{0, 2, 3}) {
		t.Errorf("inputs were asked for in the order %v", rec.asked)
	}
}

// inputFailingReader: a host that cannot read an input after all.
func (k *kit) inputFailingReader(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("in"), "before")
	cause := errors.New("the upload was cut")
	spec := k.runSpec(ref, "out", "ran")
	spec.Inputs = []backend.Input{{Path: data("in"), Chunked: true}}
	o, err := k.try(t, t.Context(), spec, &recorder{inputs: map[int]io.Reader{0: &failing{1000, cause}}})
	if err == nil || o.starts > 0 {
		t.Errorf("the program ran with half an input: %+v", o.RunResult)
	}
	wantNoProof(t, "Run", err)
	if got := k.read(t, ref, data("in")); got != "before" {
		t.Errorf("half an input replaced the file by %s", show(got))
	}
	spec.Inputs[0].Optional = true
	o = k.do(t, spec, &recorder{inputs: map[int]io.Reader{0: &failing{1000, cause}}})
	if o.stdout != "ran" || !slices.Equal(o.MissingInputs, []string{data("in")}) {
		t.Errorf("stdout %q, missing %q", o.stdout, o.MissingInputs)
	}
}

// inputInTheWay: an input whose place is below a file, or is a directory, spoils
// neither the run nor what is there.
func (k *kit) inputInTheWay(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("file"), "before")
	k.write(t, ref, data("dir", "f"), "inside")
	spec := k.runSpec(ref, "show", "file", "show", "dir/f", "show", "after")
	spec.Inputs = []backend.Input{
		{Path: data("file", "x"), Inline: []byte("x"), Optional: true},
		{Path: data("dir"), Chunked: true, Optional: true},
		{Path: data("after"), Chunked: true, Optional: true},
	}
	inputs := func() *recorder {
		return &recorder{inputs: map[int]io.Reader{1: strings.NewReader("y"), 2: strings.NewReader("z")}}
	}
	o := k.do(t, spec, inputs())
	if o.stdout != "beforeinsidez" || !slices.Equal(slices.Sorted(slices.Values(o.MissingInputs)), []string{data("dir"), data("file", "x")}) {
		t.Errorf("stdout %q, missing %q", o.stdout, o.MissingInputs)
	}
	for i := range 2 {
		spec.Inputs[i].Optional = false
		o, err := k.try(t, t.Context(), spec, inputs())
		if err == nil || o.starts > 0 {
			t.Errorf("the program ran without %s", spec.Inputs[i].Path)
		}
		wantNoProof(t, "Run", err)
		spec.Inputs[i].Optional = true
	}
}

func (k *kit) inputCopy(t *testing.T) {
	from, to := k.sandbox(t), k.sandbox(t)
	k.write(t, from, data("made", "t.csv"), "1,2")
	spec := k.runSpec(to, "show", "in/t.csv", "write", "in/t.csv", "changed")
	spec.Inputs = []backend.Input{{Path: data("in", "t.csv"), CopyFrom: &backend.CopySource{ID: from.ID, Path: data("made", "t.csv")}}}
	if o := k.do(t, spec, nil); o.stdout != "1,2" {
		t.Errorf("the program read %q", o.stdout)
	}
	if got := k.read(t, from, data("made", "t.csv")); got != "1,2" {
		t.Errorf("the run changed the source: it holds %q", got)
	}
}

// inputCopyPinned: another content than was asked for counts as missing, and
// replaces nothing.
func (k *kit) inputCopyPinned(t *testing.T) {
	from, to := k.sandbox(t), k.sandbox(t)
	k.write(t, from, data("f"), "right")
	k.write(t, to, data("f"), "before")
	spec := k.runSpec(to, "show", "f")
	src := &backend.CopySource{ID: from.ID, Path: data("f"), SHA256: digestOf("wrong")}
	spec.Inputs = []backend.Input{{Path: data("f"), CopyFrom: src, Optional: true}}
	if o := k.do(t, spec, nil); o.stdout != "before" || !slices.Equal(o.MissingInputs, []string{data("f")}) {
		t.Errorf("stdout %q, missing %q", o.stdout, o.MissingInputs)
	}
	src.SHA256 = digestOf("right")
	if o := k.do(t, spec, nil); o.stdout != "right" || len(o.MissingInputs) > 0 {
		t.Errorf("with the right digest: stdout %q, missing %q", o.stdout, o.MissingInputs)
	}
}

// inputCopyMissing: whatever is wrong with the source says nothing about the
// sandbox of the run.
func (k *kit) inputCopyMissing(t *testing.T) {
	from, to := k.sandbox(t), k.sandbox(t)
	if err := k.b.MakeDir(t.Context(), from, data("dir")); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]backend.CopySource{
		"absent sandbox": {ID: k.session(), Path: data("f")},
		"absent file":    {ID: from.ID, Path: data("f")},
		"directory":      {ID: from.ID, Path: data("dir")},
		"other digest":   {ID: from.ID, Path: data("f"), SHA256: digestOf("x")},
		"hostile id":     {ID: "../" + from.ID, Path: data("f")},
	} {
		spec := k.runSpec(to, "out", "ran", "exists", "here")
		spec.Inputs = []backend.Input{{Path: data("here"), CopyFrom: &src, Optional: true}}
		o := k.do(t, spec, nil)
		if o.stdout != "ranno" || !slices.Equal(o.MissingInputs, []string{data("here")}) {
			t.Errorf("%s, optional: stdout %q, missing %q", name, o.stdout, o.MissingInputs)
		}
		spec.Inputs[0].Optional = false
		o, err := k.try(t, t.Context(), spec, nil)
		if err == nil || o.starts > 0 {
			t.Errorf("%s: the program ran", name)
		}
		wantNoProof(t, name, err)
	}
	if _, err := k.b.Get(t.Context(), to); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// inputReplace: a later input of the same path wins, and so does an input over a
// file that was there.
func (k *kit) inputReplace(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "a long content from before")
	spec := k.runSpec(ref, "show", "f")
	spec.Inputs = []backend.Input{{Path: data("f"), Inline: []byte("first")}, {Path: data("f"), Inline: []byte("last")}}
	if o := k.do(t, spec, nil); o.stdout != "last" || len(o.Changed) > 0 {
		t.Errorf("the program read %q, changed %q", o.stdout, o.changed())
	}
}

// inputLargeSource: programs and inline inputs larger than one message.
func (k *kit) inputLargeSource(t *testing.T) {
	const size = 5 << 20
	spec := k.runSpec(k.sandbox(t), "show", "f")
	spec.Limits.StdoutBytes = 2 * size
	content := strings.Repeat("0123456789abcdef", size/16)
	spec.Inputs = []backend.Input{{Path: data("f"), Inline: []byte(content)}}
	if o := k.do(t, spec, nil); o.stdout != content {
		t.Errorf("%d bytes came back as %d", size, len(o.stdout))
	}
}
