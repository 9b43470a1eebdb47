package sandboxes

import (
	"archive/tar"
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

var testID = strings.Repeat("ab", 32)

func testRecord() record {
	return record{
		Container: testID, Metadata: backend.Metadata{Session: "s", Tenant: "t", Labels: map[string]string{"a": "b"}},
		Env: map[string]string{"A": "B"}, Created: time.Unix(1, 0).UTC(),
	}
}

// TestRecord: a record is one container's, and survives what keeps it.
func TestRecord(t *testing.T) {
	r := testRecord()
	got, ok := decodeRecord(r.encode(), testID)
	if !ok || got.Metadata.Tenant != "t" || !maps.Equal(got.Env, r.Env) || !got.Created.Equal(r.Created) {
		t.Errorf("decoded %+v, %v", got, ok)
	}
	if _, ok := decodeRecord(r.encode(), strings.Repeat("cd", 32)); ok {
		t.Error("a record is another container's")
	}
	for _, b := range []string{"", "{}", "null", `{"container":"x"}`, "not json"} {
		if _, ok := decodeRecord([]byte(b), testID); ok {
			t.Errorf("%q is a record", b)
		}
	}
	st, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.save(r); err != nil {
		t.Fatal(err)
	}
	if got, ok := st.load(testID); !ok || got.Metadata.Session != "s" || !slices.Equal(st.all(), []string{testID}) {
		t.Errorf("loaded %+v, %v", got, ok)
	}
	if _, ok := st.load("../" + testID[:61]); ok || st.save(record{Container: "../x"}) == nil {
		t.Error("an id is a path")
	}
	st.forget(testID)
	if _, ok := st.load(testID); ok || len(st.all()) > 0 {
		t.Error("a forgotten record is there")
	}
}

// file is a tar archive of one entry.
func file(h tar.Header, content string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h.Size = int64(len(content))
	if h.Typeflag != tar.TypeReg {
		h.Size = 0
	}
	_ = w.WriteHeader(&h)
	_, _ = w.Write([]byte(content))
	_ = w.Close()
	return b.Bytes()
}

// TestRecordArchive: what a container says that its record is is believed only of a
// plain file of root's that nobody else may touch.
func TestRecordArchive(t *testing.T) {
	text := string(testRecord().encode())
	good := tar.Header{Typeflag: tar.TypeReg, Name: "record.json", Mode: 0o600}
	if r, err := parseRecordArchive(bytes.NewReader(file(good, text)), testID); err != nil || r.Metadata.Tenant != "t" {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, change := range map[string]func(*tar.Header){
		"a link":             func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, "/mnt/data/mine" },
		"a hard link":        func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeLink, "mnt/data/mine" },
		"a device":           func(h *tar.Header) { h.Typeflag = tar.TypeChar },
		"a directory":        func(h *tar.Header) { h.Typeflag = tar.TypeDir },
		"a pipe":             func(h *tar.Header) { h.Typeflag = tar.TypeFifo },
		"a user's":           func(h *tar.Header) { h.Uid = 1000 },
		"writable by others": func(h *tar.Header) { h.Mode = 0o622 },
		"readable by others": func(h *tar.Header) { h.Mode = 0o644 },
		"of another name":    func(h *tar.Header) { h.Name = "../record.json" },
		"an absolute name":   func(h *tar.Header) { h.Name = "/record.json" },
	} {
		h := good
		change(&h)
		if r, err := parseRecordArchive(bytes.NewReader(file(h, text)), testID); err == nil {
			t.Errorf("%s is a record: %+v", name, r)
		}
	}
	if _, err := parseRecordArchive(bytes.NewReader(file(good, strings.Repeat("x", maxRecord+1))), testID); err == nil {
		t.Error("a record without end is one")
	}
}

// FuzzRecordArchive: a container's archive is foreign bytes.
func FuzzRecordArchive(f *testing.F) {
	f.Add(file(tar.Header{Typeflag: tar.TypeReg, Name: "record.json", Mode: 0o600}, string(testRecord().encode())))
	f.Add(file(tar.Header{Typeflag: tar.TypeSymlink, Name: "record.json", Linkname: "x"}, ""))
	f.Add([]byte("not tar"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecordArchive(bytes.NewReader(b), testID)
		if err == nil && (r.Container != testID || r.Metadata.Session == "") {
			t.Errorf("record %+v", r)
		}
	})
}

// TestNames: names of sessions and configs cannot be confused.
func TestNames(t *testing.T) {
	c := config{id: "one"}
	if got, ok := sessionOf("one", []string{"/" + c.name("abc_-9")}); !ok || got != "abc_-9" {
		t.Errorf("%q, %v", got, ok)
	}
	for _, names := range [][]string{nil, {"/abc"}, {"/" + newPrefix + "abc"}, {"/" + namePrefix("two") + "abc"}, {"/" + c.name("")}, {"/" + c.name("a.b")}} {
		if got, ok := sessionOf("one", names); ok {
			t.Errorf("%q is session %q", names, got)
		}
	}
	if !isNew([]string{"/" + newPrefix + "x"}) || isNew([]string{"/" + c.name("x")}) {
		t.Error("what is nobody's is not told apart")
	}
}

// TestOwner: a maker lives while its process does, and one installation has one name.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	a, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.installation != b.installation || a.maker == b.maker {
		t.Errorf("%+v and %+v", a, b)
	}
	if !a.lives(b.maker) || !a.lives(a.maker) {
		t.Error("who lives does not")
	}
	b.release()
	for _, maker := range []string{b.maker, "", "../makers", "neverwas"} {
		if a.lives(maker) {
			t.Errorf("%q lives", maker)
		}
	}
	a.release()
	c, err := claim(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	if c.installation == a.installation {
		t.Error("two installations have one name")
	}
}
