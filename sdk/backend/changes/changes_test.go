package changes

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// tree is a directory with an index, as a backend keeps one.
type tree struct {
	t     *testing.T
	dir   string
	root  *os.Root
	index Index
}

func newTree(t *testing.T) *tree {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &tree{t: t, dir: dir, root: root}
}

func (tr *tree) path(rel string) string { return filepath.Join(tr.dir, rel) }

func (tr *tree) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) write(rel, content string) {
	tr.t.Helper()
	tr.must(os.MkdirAll(filepath.Dir(tr.path(rel)), 0o755))
	tr.must(os.WriteFile(tr.path(rel), []byte(content), 0o644))
}

func (tr *tree) scan(exclude ...string) *Snapshot {
	tr.t.Helper()
	s, err := tr.index.Scan(context.Background(), tr.root, ScanOptions{Exclude: exclude})
	tr.must(err)
	return s
}

func names(entries []backend.Entry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, strings.TrimPrefix(e.Path, backend.DataDir+"/"))
	}
	return out
}

func TestDiff(t *testing.T) {
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, c := range []struct {
		name    string
		run     func(tr *tree)
		changed []string
		deleted []string
		skipped int
		spec    backend.CollectSpec
	}{
		{name: "nothing", run: func(*tree) {}},
		{name: "new file", run: func(tr *tree) { tr.write("out/a.txt", "x") }, changed: []string{"out/a.txt"}},
		{name: "empty file", run: func(tr *tree) { tr.write("empty", "") }, changed: []string{"empty"}},
		{name: "same content rewritten", run: func(tr *tree) { tr.write("keep.csv", "1,2") }},
		{name: "same size, same time", run: func(tr *tree) {
			st, err := os.Stat(tr.path("keep.csv"))
			tr.must(err)
			tr.write("keep.csv", "9,9")
			tr.must(os.Chtimes(tr.path("keep.csv"), st.ModTime(), st.ModTime()))
		}, changed: []string{"keep.csv"}},
		{name: "new file with an old time", run: func(tr *tree) {
			tr.write("unpacked.txt", "x")
			tr.must(os.Chtimes(tr.path("unpacked.txt"), old, old))
		}, changed: []string{"unpacked.txt"}},
		{name: "touched only", run: func(tr *tree) { tr.must(os.Chtimes(tr.path("keep.csv"), old, old)) }},
		{
			name: "renamed directory", run: func(tr *tree) { tr.must(os.Rename(tr.path("dir"), tr.path("moved"))) },
			changed: []string{"moved/in.txt"}, deleted: []string{"dir/in.txt"},
		},
		{name: "deleted", run: func(tr *tree) { tr.must(os.Remove(tr.path("keep.csv"))) }, deleted: []string{"keep.csv"}},
		{name: "file became a directory", run: func(tr *tree) {
			tr.must(os.Remove(tr.path("keep.csv")))
			tr.write("keep.csv/x", "")
		}, changed: []string{"keep.csv/x"}, deleted: []string{"keep.csv"}},
		{name: "file became a link", run: func(tr *tree) {
			tr.must(os.Remove(tr.path("keep.csv")))
			tr.must(os.Symlink("/etc/passwd", tr.path("keep.csv")))
		}, deleted: []string{"keep.csv"}},
		{name: "links and pipes", run: func(tr *tree) {
			tr.must(os.Symlink("keep.csv", tr.path("link")))
			tr.must(os.Symlink("../..", tr.path("up")))
			tr.must(syscall.Mkfifo(tr.path("pipe"), 0o644))
		}},
		{
			name: "odd names", run: func(tr *tree) { tr.write("a\nb\tc", "x"); tr.write(" ü 数 .txt", "y") },
			changed: []string{" ü 数 .txt", "a\nb\tc"},
		},
		{name: "a name that is not UTF-8", run: func(tr *tree) { tr.write("bad\xff", "x") }, skipped: 1},
		{
			name: "excluded", run: func(tr *tree) { tr.write("__pycache__/a.pyc", "x"); tr.write("b.pyc", "x"); tr.write("c.py", "x") },
			spec: backend.CollectSpec{Exclude: []string{"__pycache__", "*.pyc"}}, changed: []string{"c.py"},
		},
		{
			name: "too many", run: func(tr *tree) { tr.write("b", "1"); tr.write("a", "1"); tr.write("c", "1") },
			spec: backend.CollectSpec{MaxFiles: 2}, changed: []string{"a", "b"}, skipped: 1,
		},
		{
			name: "too large", run: func(tr *tree) { tr.write("big", "12345"); tr.write("fits", "1234") },
			spec: backend.CollectSpec{MaxFileBytes: 4}, changed: []string{"fits"}, skipped: 1,
		},
		{
			name: "too deep", run: func(tr *tree) { tr.write("1/2/3", "x"); tr.write("1/2x", "x") },
			spec: backend.CollectSpec{MaxDepth: 2}, changed: []string{"1/2x"}, skipped: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			tr.write("keep.csv", "1,2")
			tr.write("dir/in.txt", "in")
			before := tr.scan(c.spec.Exclude...)
			c.run(tr)
			r := Diff(before, tr.scan(c.spec.Exclude...), c.spec)
			deleted := []string{}
			for _, p := range r.Deleted {
				deleted = append(deleted, strings.TrimPrefix(p, backend.DataDir+"/"))
			}
			if !slices.Equal(names(r.Changed), c.changed) || !slices.Equal(deleted, c.deleted) || r.Skipped != c.skipped || r.Failed {
				t.Errorf("changed %q deleted %q skipped %d, want %q %q %d", names(r.Changed), deleted, r.Skipped, c.changed, c.deleted, c.skipped)
			}
		})
	}
}

func TestDiffOfAFailedSnapshot(t *testing.T) {
	for _, pair := range [][2]*Snapshot{{nil, {}}, {{}, nil}, {nil, nil}} {
		if r := Diff(pair[0], pair[1], backend.CollectSpec{}); !r.Failed || len(r.Changed)+len(r.Deleted) > 0 {
			t.Errorf("Diff(%v, %v) = %+v, want failed and empty", pair[0], pair[1], r)
		}
	}
}

// An index entry is believed only when the file was read long after it changed.
func TestIndexDoesNotBelieveFreshStamps(t *testing.T) {
	tr := newTree(t)
	tr.write("f", "aaa")
	tr.scan()
	ix := tr.index.files["f"]
	if new(Index).believable(ix) {
		t.Fatal("a file read right after its change is believed")
	}
	ix.Read = ix.Changed + int64(racy) + 1
	ix.SHA256 = "from the index"
	tr.index.files["f"] = ix
	if got := tr.scan().Files[backend.DataDir+"/f"].SHA256; got != "from the index" {
		t.Errorf("digest %q, want the believed one", got)
	}
	tr.write("f", "bbb") // the inode's own time moves whatever the program does
	if got := tr.scan().Files[backend.DataDir+"/f"].SHA256; got == "from the index" {
		t.Error("a changed file kept its old digest")
	}
}

func TestIndexSurvivesItsProcess(t *testing.T) {
	tr := newTree(t)
	tr.write("f", "aaa")
	want := tr.scan()
	b, err := json.Marshal(&tr.index)
	tr.must(err)
	var again Index
	tr.must(json.Unmarshal(b, &again))
	got, err := again.Scan(context.Background(), tr.root, ScanOptions{})
	tr.must(err)
	if got.Files[backend.DataDir+"/f"] != want.Files[backend.DataDir+"/f"] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := json.Unmarshal([]byte(`{"f":7}`), &again); err == nil {
		t.Error("garbage was accepted as an index")
	}
	if _, err := again.Scan(context.Background(), tr.root, ScanOptions{}); err != nil {
		t.Errorf("the index is unusable after garbage: %v", err)
	}
}

func TestScanIsBounded(t *testing.T) {
	tr := newTree(t)
	for _, n := range []string{"a", "b", "c"} {
		tr.write(n, n)
	}
	if _, err := tr.index.Scan(context.Background(), tr.root, ScanOptions{MaxEntries: 2}); !errors.Is(err, ErrTooMany) {
		t.Errorf("err = %v, want ErrTooMany", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tr.index.Scan(ctx, tr.root, ScanOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want the context's", err)
	}
	tr.write("1/2/in", "x")
	tr.write("1/2/3/beyond", "x")
	s, err := tr.index.Scan(context.Background(), tr.root, ScanOptions{MaxDepth: 2})
	tr.must(err)
	if _, in := s.Files[backend.DataDir+"/1/2/in"]; !in || len(s.Files) != 4 {
		t.Errorf("down to two levels of directories there are %v", s.Files)
	}
	s, err = tr.index.Scan(context.Background(), tr.root, ScanOptions{MaxDigestBytes: -1})
	tr.must(err)
	if f := s.Files[backend.DataDir+"/a"]; f.SHA256 != "" || f.Size != 1 {
		t.Errorf("a file above the digest limit is %+v", f)
	}
}

func TestDigestFollowsNoLink(t *testing.T) {
	tr := newTree(t)
	tr.write("f", "x")
	tr.must(os.Symlink("f", tr.path("link")))
	for _, name := range []string{"link", ".", "absent"} {
		if f, err := tr.index.Digest(context.Background(), tr.root, name, 10); err == nil {
			t.Errorf("Digest(%q) = %+v, want an error", name, f)
		}
	}
	if _, _, err := OpenRegular(tr.root, "link"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("opening a link: %v, want ErrNotRegular", err)
	}
}

func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	old := time.Now().Add(-time.Hour)
	for i := range 100 {
		p := filepath.Join(dir, "file"+string(rune('a'+i%26))+strings.Repeat("x", i/26))
		if err := os.WriteFile(p, make([]byte, 64<<10), 0o644); err != nil {
			b.Fatal(err)
		}
		if err := os.Chtimes(p, old, old); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		index func() *Index
	}{
		{"indexed", func() *Index { return believed(b, root) }},
		{"reading", func() *Index { return &Index{} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			x := c.index()
			for b.Loop() {
				if c.name == "reading" {
					x = &Index{}
				}
				if _, err := x.Scan(context.Background(), root, ScanOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// believed returns an index whose every stamp counts.
func believed(b *testing.B, root *os.Root) *Index {
	x := &Index{}
	if _, err := x.Scan(context.Background(), root, ScanOptions{}); err != nil {
		b.Fatal(err)
	}
	for p, ix := range x.files {
		ix.Read += int64(racy)
		x.files[p] = ix
	}
	return x
}

// writes is a Writes that a test tells what was written.
type writes struct {
	now     uint64
	written map[uint64]uint64
}

func (w *writes) Now() uint64                     { return w.now }
func (w *writes) Since(moment, inode uint64) bool { return w.written[inode] >= moment }

// Where every write is seen, digests hold as long as none was, however fresh the
// file is.
func TestIndexBelievesWrites(t *testing.T) {
	tr := newTree(t)
	w := &writes{now: 1, written: map[uint64]uint64{}}
	tr.index.Writes = w
	tr.write("f", "one")
	if got := tr.scan().Files[backend.DataDir+"/f"].SHA256; got != sum("one") {
		t.Fatalf("digest %s", got)
	}
	info, err := os.Stat(tr.path("f"))
	tr.must(err)
	// The very same stamp, and other content: what a write within one tick is.
	tr.must(os.WriteFile(tr.path("f"), []byte("two"), 0o644))
	tr.must(os.Chtimes(tr.path("f"), info.ModTime(), info.ModTime()))
	known := tr.index.files["f"]
	now, err := os.Stat(tr.path("f"))
	tr.must(err)
	known.Stamp = StampOf(now)
	tr.index.files["f"] = known
	if got := tr.scan().Files[backend.DataDir+"/f"].SHA256; got != sum("one") {
		t.Errorf("nothing was written, as far as is known, and the file was read again: %s", got)
	}
	w.now = 2
	w.written[StampOf(now).Inode] = 1
	if got := tr.scan().Files[backend.DataDir+"/f"].SHA256; got != sum("two") {
		t.Errorf("digest after a write: %s", got)
	}
	// A digest that came with the file is as good, until it is written.
	tr.write("g", "three")
	info, err = os.Stat(tr.path("g"))
	tr.must(err)
	tr.index.Note("g", info, sum("told"), 2)
	if got := tr.scan().Files[backend.DataDir+"/g"].SHA256; got != sum("told") {
		t.Errorf("digest %s", got)
	}
	w.written[StampOf(info).Inode] = 2
	if got := tr.scan().Files[backend.DataDir+"/g"].SHA256; got != sum("three") {
		t.Errorf("digest %s", got)
	}
}

// A tree full of new files is not read to the end when few of them can be reported.
func TestScanReadsNoMoreThanIsReported(t *testing.T) {
	tr := newTree(t)
	before := tr.scan()
	for i := range 30 {
		tr.write(fmt.Sprintf("f%02d", i), fmt.Sprint(i))
	}
	scan := func(before *Snapshot) *Snapshot {
		t.Helper()
		s, err := tr.index.Scan(context.Background(), tr.root, ScanOptions{Before: before, MaxNew: 10})
		tr.must(err)
		return s
	}
	after := scan(before)
	d := Diff(before, after, backend.CollectSpec{MaxFiles: 10})
	if len(d.Changed) != 10 || d.Skipped != 20 || d.Changed[9].Path != backend.DataDir+"/f09" {
		t.Errorf("changed %v, skipped %d", names(d.Changed), d.Skipped)
	}
	// The next run changes one that was left out.
	tr.write("f20", "changed")
	again := scan(after)
	d = Diff(after, again, backend.CollectSpec{MaxFiles: 10})
	if len(d.Changed) != 1 || d.Skipped != 0 || d.Changed[0].SHA256 != sum("changed") {
		t.Errorf("then changed %v, skipped %d", names(d.Changed), d.Skipped)
	}
}

func sum(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }
