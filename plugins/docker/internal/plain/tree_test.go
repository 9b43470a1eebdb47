package plain

import (
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// TestListing: names hold anything but NUL.
func TestListing(t *testing.T) {
	var l listing
	for _, r := range []string{
		"f 12 1700000000.1234567890 644 plain", "d 4096 1700000000.5 755 dir", "f 3 1.0 600 new\nline and\ttab", "l 5 1.0 777 link",
		"p 0 1.0 644 pipe", "f 1 1.0 644 two words  ./x", "f 1 1.0 644 \xff\xfe", "broken", "f x 1.0 644 size", "f -1 1.0 644 less", "= 0 0 0 ",
		strings.Repeat("a", 64) + "  ./plain", strings.Repeat("b", 64) + "  ./unknown", "short  ./dir",
	} {
		if err := l.take([]byte(r + "\x00")); err != nil {
			t.Fatal(err)
		}
	}
	got := l.entries("/mnt/data")
	want := []struct {
		path string
		kind backend.EntryType
		size int64
		mode uint32
	}{
		{"/mnt/data/plain", backend.EntryFile, 12, 0o644},
		{"/mnt/data/dir", backend.EntryDir, 0, 0o755},
		{"/mnt/data/new\nline and\ttab", backend.EntryFile, 3, 0o600},
		{"/mnt/data/link", backend.EntryOther, 0, 0o777},
		{"/mnt/data/pipe", backend.EntryOther, 0, 0o644},
		{"/mnt/data/two words  ./x", backend.EntryFile, 1, 0o644},
	}
	if len(got) != len(want) {
		t.Fatalf("%d entries: %+v", len(got), got)
	}
	for i, w := range want {
		if g := got[i]; g.Path != w.path || g.Type != w.kind || g.Size != w.size || g.Mode != w.mode {
			t.Errorf("entry %d is %+v, want %+v", i, g, w)
		}
	}
	if got[0].SHA256 != strings.Repeat("a", 64) || got[0].Modified.UnixNano() != 1700000000123456789 {
		t.Errorf("%+v", got[0])
	}
}

// FuzzListing: what find prints is names that a program chose.
func FuzzListing(f *testing.F) {
	f.Add("f 12 1700000000.1 644 a\x00= 0 0 0 \x00" + strings.Repeat("a", 64) + "  ./a\x00")
	f.Add("d 1 1 1 ../../etc\x00")
	f.Fuzz(func(t *testing.T, text string) {
		var l listing
		_ = l.take([]byte(text))
		for _, e := range l.entries("/mnt/data") {
			if e.Size < 0 || e.Type != backend.EntryFile && e.Size != 0 {
				t.Errorf("entry %+v", e)
			}
		}
	})
}
