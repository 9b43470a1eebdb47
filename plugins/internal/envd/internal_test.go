package envd

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// split feeds a stream to marks in pieces and returns output and marks.
func split(t *testing.T, stream []byte, size int) (string, []string) {
	t.Helper()
	var out bytes.Buffer
	var seen []string
	m := newMarks("nonce", func(p []byte) error { out.Write(p); return nil },
		func(verb, rest string) error { seen = append(seen, verb+"|"+rest); return nil })
	for p := range slices.Chunk(stream, size) {
		if err := m.write(bytes.Clone(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.finish(); err != nil {
		t.Fatal(err)
	}
	return out.String(), seen
}

func TestMarks(t *testing.T) {
	for _, row := range []struct {
		in, out string
		marks   []string
	}{
		{"plain\n", "plain\n", nil},
		{"a\x00nonce E 0 1\nb", "ab", []string{"E|0 1"}},
		{"\x00nonce B\n\x00nonce b 0\n", "", []string{"B|", "b|0"}},
		{"\x00\x00nonce X\n\x00", "\x00\x00", []string{"X|"}},
		{"\x00non", "\x00non", nil},
		{"\x00nonceX\n", "\x00nonceX\n", nil},
		{"\x00nonce never ends", "\x00nonce never ends", nil},
		{"\x00nonce " + strings.Repeat("x", maxMark+10) + "\ny", "\x00nonce " + strings.Repeat("x", maxMark+10) + "\ny", nil},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			out, seen := split(t, []byte(row.in), size)
			if out != row.out || !slices.Equal(seen, row.marks) {
				t.Errorf("%.40q in pieces of %d: %.40q, %q", row.in, size, out, seen)
			}
		}
	}
}

// FuzzMarks: how a stream is cut changes nothing, and what holds no mark passes.
func FuzzMarks(f *testing.F) {
	f.Add([]byte("a\x00nonce E 0\nb\x00non"), 3)
	f.Add([]byte("\x00nonce \x00nonce X\n\n"), 1)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		if size < 1 || len(stream) > 64<<10 {
			t.Skip()
		}
		whole, marks := split(t, stream, len(stream)+1)
		out, seen := split(t, stream, size)
		if out != whole || !slices.Equal(seen, marks) {
			t.Errorf("in pieces of %d: %q, %q; whole: %q, %q", size, out, seen, whole, marks)
		}
		if len(seen) == 0 && out != string(stream) {
			t.Errorf("without a mark, %q became %q", stream, out)
		}
	})
}

// FuzzScan: whatever a sandbox prints, what is taken from it is below the root, once,
// and well-formed.
func FuzzScan(f *testing.F) {
	line := "f\t5\t1700000000.1234567890\t1700000000.5\t644\t12\t/mnt/data/a b\x00"
	sum := strings.Repeat("0a", 32)
	f.Add([]byte(line+"d\t4096\t1\t1\t755\t1\t/mnt/data\x00"), []byte(sum+"  /mnt/data/a b\x00"))
	f.Add([]byte("81a4\t5\t1\t1\t644\t1\t/mnt/data/x\x00"), []byte(sum+" */mnt/data/x\x00"))
	f.Add([]byte("f\t-1\t1\t1\t9\t1\t../x\x00"), []byte("x"))
	f.Add([]byte("l\t1\t1\t1\t777\t1\t/etc/passwd\x00"), []byte{})
	f.Fuzz(func(t *testing.T, listing, digests []byte) {
		tree, err := parseScan(backend.DataDir, listing, digests)
		if err != nil {
			return
		}
		res := tree.walk(backend.DataDir, backend.WalkRequest{MaxEntries: 50}, 5)
		for _, e := range res.Entries {
			if backend.CheckPath(e.Path) != nil || !backend.Within(backend.DataDir, e.Path) || e.Path == backend.DataDir || backend.Within(stateDir, e.Path) ||
				e.Size < 0 || e.Mode > 0o777 || e.SHA256 != "" && len(e.SHA256) != 64 {
				t.Errorf("entry %+v", e)
			}
		}
		for path, file := range tree.snapshot().Files {
			if !backend.Within(backend.DataDir, path) || file.Size < 0 {
				t.Errorf("%q: %+v", path, file)
			}
		}
	})
}

// FuzzQuote: a quoted word is one word of the shell, byte for byte.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "'", "$(id)`id`", "\\", "\n", "販売", "-n", "\xff", "'; rm -rf /; '"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		word, err := quote(s)
		if (err != nil) != strings.Contains(s, "\x00") {
			t.Fatalf("quote(%q): %v", s, err)
		}
		if err != nil || len(s) > 1000 {
			return
		}
		out, err := exec.Command("/bin/sh", "-c", "set -- "+word+"; printf '%s|%s' \"$#\" \"$1\"").Output()
		if err != nil || string(out) != "1|"+s {
			t.Errorf("%q became %q, %v", s, out, err)
		}
	})
}

// TestPrune: patterns are names, whatever find reads into them.
func TestPrune(t *testing.T) {
	for _, row := range []struct {
		exclude []string
		want    string
	}{
		{nil, ""},
		{[]string{"__pycache__", "*.pyc"}, `-mindepth 1 \( -name '__pycache__' -o -name '*.pyc' \) -prune -o`},
		{[]string{"a*b", "*[x]?", `\`}, `-mindepth 1 \( -name 'a\*b' -o -name '*\[x]\?' -o -name '\\' \) -prune -o`},
		{[]string{"'; rm -rf /; '"}, ""}, // no name has a slash
		{[]string{"'$(id)'"}, `-mindepth 1 \( -name ''\''$(id)'\''' \) -prune -o`},
		{[]string{strings.Repeat("x", maxPrune+1)}, ""},
	} {
		if got := withPrune("PRUNE", row.exclude); got != row.want {
			t.Errorf("%q: %s", row.exclude, got)
		}
	}
}

func TestCPUTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0m0.010s 0m0.002s": 12 * time.Millisecond, "1m2.500s 0m0s": 62500 * time.Millisecond, "0m0,25s 0m0,25s": 500 * time.Millisecond,
		"": 0, "x y": 0, "-1m0s 0m0s": 0, "99999999h 0m": 0,
	} {
		if got := cpuTime(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestOrder(t *testing.T) {
	list := []string{"/d/z", "/d/a.txt", "/d/a/x", "/d/a", "/d/a-b", "/d/a/b/y", "/d/a/b"}
	slices.SortFunc(list, less)
	want := []string{"/d/a", "/d/a/b", "/d/a/b/y", "/d/a/x", "/d/a-b", "/d/a.txt", "/d/z"}
	if !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
}
