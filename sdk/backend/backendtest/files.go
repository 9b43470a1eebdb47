package backendtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) fileChecks() []check {
	return []check{
		{"names", k.fileNames},
		{"entry", k.fileEntry},
		{"empty", k.fileEmpty},
		{"mode", k.fileMode},
		{"large", k.fileLarge},
		{"replace", k.fileReplace},
		{"failed_write", k.fileFailedWrite},
		{"max_bytes", k.fileMaxBytes},
		{"exclusive", k.fileExclusive},
		{"concurrent", k.fileConcurrent},
		{"read_part", k.fileReadPart},
		{"absent", k.fileAbsent},
		{"wrong_type", k.fileWrongType},
		{"seen_by_program", k.fileSeenByProgram},
	}
}

// write puts a file into a sandbox.
func (k *kit) write(t *testing.T, ref backend.Ref, path, content string) backend.Entry {
	t.Helper()
	e, err := k.b.WriteFile(t.Context(), ref, path, backend.WriteOptions{}, strings.NewReader(content))
	if err != nil {
		t.Fatalf("WriteFile %q: %v", path, err)
	}
	return e
}

// read gets a file out of a sandbox.
func (k *kit) read(t *testing.T, ref backend.Ref, path string) string {
	t.Helper()
	r, e, err := k.b.ReadFile(t.Context(), ref, path)
	if err != nil {
		t.Fatalf("ReadFile %q: %v", path, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("ReadFile %q: %v", path, err)
	}
	if e.Path != path || e.Type != backend.EntryFile || e.Size != int64(len(b)) {
		t.Errorf("ReadFile %q returned entry %+v and %d bytes", path, e, len(b))
	}
	return string(b)
}

// list returns the names in a directory.
func (k *kit) list(t *testing.T, ref backend.Ref, path string) []string {
	t.Helper()
	entries, err := k.b.ListDir(t.Context(), ref, path)
	if err != nil {
		t.Fatalf("ListDir %q: %v", path, err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, strings.TrimPrefix(e.Path, path+"/"))
	}
	return names
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// fileNames: any name that is one segment is a name.
func (k *kit) fileNames(t *testing.T) {
	ref := k.sandbox(t)
	for _, name := range []string{
		"plain.txt", "two words.txt", "a..b.csv", "...", ".hidden", "-rf", "--help", "ünïcödé 販売データ.csv", "emoji 🦀",
		"new\nline", "tab\there", `back\slash`, "quote'\"`$(x)`", "*?[a]", "{dir}", "%2e%2e%2f", "#hash;semi&amp", "~", strings.Repeat("n", 200),
		"deep/er/and/deeper/file", "deep/er/two words/ü",
	} {
		content := "content of " + name
		path := data(name)
		k.write(t, ref, path, content)
		if got := k.read(t, ref, path); got != content {
			t.Errorf("%q holds %q", name, got)
		}
		e, err := k.b.Stat(t.Context(), ref, path)
		if err != nil || e.Path != path || e.Type != backend.EntryFile || e.Size != int64(len(content)) {
			t.Errorf("Stat %q = %+v, %v", name, e, err)
		}
		dir, base := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
		if names := k.list(t, ref, dir); !slices.Contains(names, base) {
			t.Errorf("%q is not among %q", base, names)
		}
	}
}

// fileEntry: what WriteFile returns is what there is.
func (k *kit) fileEntry(t *testing.T) {
	ref := k.sandbox(t)
	const content = "some,csv\n1,2\n"
	path := data("dir", "t.csv")
	e := k.write(t, ref, path, content)
	if e.Path != path || e.Type != backend.EntryFile || e.Size != int64(len(content)) || e.SHA256 != digestOf(content) {
		t.Errorf("WriteFile returned %+v, want path %q, %d bytes, digest %s", e, path, len(content), digestOf(content))
	}
	if !e.Modified.IsZero() && (time.Since(e.Modified) > time.Hour || time.Until(e.Modified) > time.Hour) {
		t.Errorf("it was modified at %v", e.Modified)
	}
	res, err := k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref, Digests: true})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(res.Entries, func(w backend.Entry) bool { return w.Path == path })
	if i < 0 || res.Entries[i].SHA256 != e.SHA256 || res.Entries[i].Size != e.Size {
		t.Errorf("Walk found %+v", res.Entries)
	}
}

func (k *kit) fileEmpty(t *testing.T) {
	ref := k.sandbox(t)
	e := k.write(t, ref, data("empty"), "")
	if e.Size != 0 || e.SHA256 != digestOf("") {
		t.Errorf("an empty file is %+v", e)
	}
	if got := k.read(t, ref, data("empty")); got != "" {
		t.Errorf("an empty file holds %q", got)
	}
}

func (k *kit) fileMode(t *testing.T) {
	ref := k.sandbox(t)
	for _, c := range []struct{ ask, want uint32 }{{0, 0o644}, {0o755, 0o755}, {0o600, 0o600}} {
		path := data("mode")
		if _, err := k.b.WriteFile(t.Context(), ref, path, backend.WriteOptions{Mode: c.ask}, eof{}); err != nil {
			t.Fatal(err)
		}
		e, err := k.b.Stat(t.Context(), ref, path)
		if err != nil || e.Mode != c.want {
			t.Errorf("mode %#o became %#o: %v", c.ask, e.Mode, err)
		}
	}
}

// pattern yields n bytes that differ from block to block.
func pattern(n int64) io.Reader { return io.LimitReader(&patternReader{}, n) }

type patternReader struct{ n uint64 }

func (r *patternReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.n ^ r.n>>8 ^ r.n>>16)
		r.n++
	}
	return len(p), nil
}

// fileLarge: 10 MiB go in and out as streams.
func (k *kit) fileLarge(t *testing.T) {
	const size = 10<<20 + 3
	ref := k.sandbox(t)
	sum := sha256.New()
	if _, err := io.Copy(sum, pattern(size)); err != nil {
		t.Fatal(err)
	}
	want := hex.EncodeToString(sum.Sum(nil))
	e, err := k.b.WriteFile(t.Context(), ref, data("large"), backend.WriteOptions{}, pattern(size))
	if err != nil {
		t.Fatal(err)
	}
	if e.Size != size || e.SHA256 != want {
		t.Errorf("WriteFile returned %+v", e)
	}
	r, e, err := k.b.ReadFile(t.Context(), ref, data("large"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum.Reset()
	n, err := io.Copy(sum, r)
	if err != nil || n != size || e.Size != size || hex.EncodeToString(sum.Sum(nil)) != want {
		t.Errorf("read %d bytes of %d with another digest: %v", n, e.Size, err)
	}
}

func (k *kit) fileReplace(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "long first content")
	k.write(t, ref, data("f"), "second")
	if got := k.read(t, ref, data("f")); got != "second" {
		t.Errorf("the file holds %q", got)
	}
	if names := k.list(t, ref, backend.DataDir); !slices.Equal(names, []string{"f"}) {
		t.Errorf("replacing left %q", names)
	}
}

// failing reads some bytes and then fails, also in a way that looks like an end.
type failing struct {
	n   int
	err error
}

func (r *failing) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, r.err
	}
	n := min(r.n, len(p))
	clear(p[:n])
	r.n -= n
	return n, nil
}

// fileFailedWrite: content that ends early replaces nothing and leaves nothing.
func (k *kit) fileFailedWrite(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "kept")
	for _, err := range []error{errors.New("cut"), io.ErrUnexpectedEOF} {
		for _, n := range []int{0, 10, 1 << 20} {
			for _, path := range []string{data("f"), data("new")} {
				if e, werr := k.b.WriteFile(t.Context(), ref, path, backend.WriteOptions{}, &failing{n, err}); werr == nil {
					t.Errorf("a reader that failed with %q after %d bytes was stored as %+v", err, n, e)
				}
			}
		}
	}
	if got := k.read(t, ref, data("f")); got != "kept" {
		t.Errorf("a failed write replaced the file by %s", show(got))
	}
	if names := k.list(t, ref, backend.DataDir); !slices.Equal(names, []string{"f"}) {
		t.Errorf("failed writes left %q", names)
	}
}

func (k *kit) fileMaxBytes(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "kept")
	_, err := k.b.WriteFile(t.Context(), ref, data("f"), backend.WriteOptions{MaxBytes: 9}, strings.NewReader("0123456789"))
	wantFileError(t, "a file longer than allowed", err, backend.KindInvalidRequest)
	if got := k.read(t, ref, data("f")); got != "kept" {
		t.Errorf("a refused write replaced the file by %q", got)
	}
	if _, err := k.b.WriteFile(t.Context(), ref, data("f"), backend.WriteOptions{MaxBytes: 10}, strings.NewReader("0123456789")); err != nil {
		t.Errorf("a file just as long as allowed: %v", err)
	}
}

func (k *kit) fileExclusive(t *testing.T) {
	ref := k.sandbox(t)
	opts := backend.WriteOptions{Exclusive: true}
	if _, err := k.b.WriteFile(t.Context(), ref, data("f"), opts, strings.NewReader("first")); err != nil {
		t.Fatal(err)
	}
	_, err := k.b.WriteFile(t.Context(), ref, data("f"), opts, strings.NewReader("second"))
	wantFileError(t, "an exclusive write over a file", err, backend.KindConflict)
	if got := k.read(t, ref, data("f")); got != "first" {
		t.Errorf("the file holds %q", got)
	}
}

// fileConcurrent: who reads sees one whole content, never parts of two.
func (k *kit) fileConcurrent(t *testing.T) {
	ref := k.sandbox(t)
	const size = 256 << 10
	path := data("f")
	k.write(t, ref, path, strings.Repeat("0", size))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 3 {
				content := strings.Repeat(string(rune('a'+i)), size)
				if _, err := k.b.WriteFile(t.Context(), ref, path, backend.WriteOptions{}, strings.NewReader(content)); err != nil {
					t.Errorf("WriteFile: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range 3 {
				r, _, err := k.b.ReadFile(t.Context(), ref, path)
				if err != nil {
					t.Errorf("ReadFile: %v", err)
					return
				}
				b, err := io.ReadAll(r)
				_ = r.Close()
				if err != nil || len(b) != size || strings.Trim(string(b), string(b[:1])) != "" {
					t.Errorf("read %d bytes of a mixture: %v", len(b), err)
				}
			}
		})
	}
	wg.Wait()
}

// fileReadPart: a reader may be closed at any point.
func (k *kit) fileReadPart(t *testing.T) {
	ref := k.sandbox(t)
	if _, err := k.b.WriteFile(t.Context(), ref, data("f"), backend.WriteOptions{}, pattern(5<<20)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, 1, 1 << 20} {
		r, _, err := k.b.ReadFile(t.Context(), ref, data("f"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, r, n); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close after %d bytes: %v", n, err)
		}
	}
}

// fileAbsent: an absent file says nothing about its sandbox.
func (k *kit) fileAbsent(t *testing.T) {
	ref := k.sandbox(t)
	for _, path := range []string{data("absent"), data("absent", "deeper")} {
		_, _, err := k.b.ReadFile(t.Context(), ref, path)
		wantAbsentFile(t, "ReadFile", err)
		_, err = k.b.Stat(t.Context(), ref, path)
		wantAbsentFile(t, "Stat", err)
		_, err = k.b.ListDir(t.Context(), ref, path)
		wantAbsentFile(t, "ListDir", err)
		_, err = k.b.Walk(t.Context(), backend.WalkRequest{Ref: ref, Root: path})
		wantAbsentFile(t, "Walk", err)
		if err := k.b.Remove(t.Context(), ref, path); err != nil {
			t.Errorf("Remove of an absent path: %v", err)
		}
	}
}

func wantAbsentFile(t *testing.T, what string, err error) {
	t.Helper()
	what += " of an absent path"
	wantFileError(t, what, err, backend.KindNotFound)
	if e, ok := asError(err); ok && e.Subject != backend.SubjectFile {
		t.Errorf("%s: subject %q, want file", what, e.Subject)
	}
}

func (k *kit) fileWrongType(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("dir", "f"), "x")
	_, _, err := k.b.ReadFile(t.Context(), ref, data("dir"))
	wantFileError(t, "ReadFile of a directory", err, backend.KindInvalidRequest, backend.KindConflict)
	_, err = k.b.WriteFile(t.Context(), ref, data("dir"), backend.WriteOptions{}, eof{})
	wantFileError(t, "WriteFile over a directory", err, backend.KindInvalidRequest, backend.KindConflict)
	_, err = k.b.WriteFile(t.Context(), ref, data("dir", "f", "g"), backend.WriteOptions{}, eof{})
	wantFileError(t, "WriteFile below a file", err, backend.KindInvalidRequest, backend.KindConflict, backend.KindNotFound)
	_, err = k.b.ListDir(t.Context(), ref, data("dir", "f"))
	wantFileError(t, "ListDir of a file", err, backend.KindInvalidRequest, backend.KindConflict, backend.KindNotFound)
	err = k.b.MakeDir(t.Context(), ref, data("dir", "f"))
	wantFileError(t, "MakeDir over a file", err, backend.KindInvalidRequest, backend.KindConflict)
	if got := k.read(t, ref, data("dir", "f")); got != "x" {
		t.Errorf("the file holds %q", got)
	}
}

// fileSeenByProgram: files and programs are in one sandbox.
func (k *kit) fileSeenByProgram(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("in", "two words.txt"), "from outside")
	o := k.run(t, ref, "show", "in/two words.txt", "write", "out/made.txt", "from inside")
	if o.stdout != "from outside" {
		t.Errorf("the program read %q", o.stdout)
	}
	if got := k.read(t, ref, data("out", "made.txt")); got != "from inside" {
		t.Errorf("the program's file holds %q", got)
	}
}
