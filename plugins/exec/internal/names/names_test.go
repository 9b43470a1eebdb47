package names_test

import (
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"golang.org/x/text/unicode/norm"
)

func TestRef(t *testing.T) {
	long := strings.Repeat("a", 255)
	for _, tt := range []struct{ in, want, err string }{
		{in: "a.csv", want: "a.csv"},
		{in: "dir/a b (1).csv", want: "dir/a b (1).csv"},
		{in: "/mnt/data/a.csv", want: "a.csv"},
		{in: "a..b.csv", want: "a..b.csv"},
		{in: "..a/b", want: "..a/b"},
		{in: ".env", want: ".env"},
		{in: "donne\u0301es 数据.csv", want: "données 数据.csv"},
		{in: long, want: long},
		{in: "", err: "empty"},
		{in: "/mnt/data/", err: "empty"},
		{in: "/etc/passwd", err: "relative"},
		{in: "/mnt/data//mnt/data/x", err: "relative"},
		{in: "/mnt/database/x", err: "relative"},
		{in: "../../etc/passwd", err: `".."`},
		{in: "a/../b", err: `".."`},
		{in: "./a", err: `"."`},
		{in: "a/", err: "relative"},
		{in: "a//b", err: "relative"},
		{in: `C:\x`, err: "backslash"},
		{in: "a\x00b", err: "control"},
		{in: "a\nb", err: "control"},
		{in: "a\xffb", err: "UTF-8"},
		{in: long + "a", err: "segment longer"},
		{in: strings.Repeat("a/", 16) + "b", err: "segments"},
		{in: strings.Repeat(long+"/", 5) + "b", err: "longer than 1024"},
	} {
		got, err := names.Ref(tt.in)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("Ref(%q) = %q, %v; want %q, error with %q", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestUpload(t *testing.T) {
	long := strings.Repeat("é", 200)
	for _, tt := range []struct{ in, want, err string }{
		{in: "a.csv", want: "a.csv"},
		{in: "skills/demo/SKILL.md", want: "skills/demo/SKILL.md"},
		{in: "my file (1).csv", want: "my file (1).csv"},
		{in: "my %22q%22.csv", want: "my %22q%22.csv"},
		{in: "donne\u0301es.csv", want: "données.csv"},
		{in: "販売データ_今週.xlsx", want: "販売データ_今週.xlsx"},
		{in: "a..b.csv", want: "a..b.csv"},
		{in: "./a//b.csv", want: "a/b.csv"},
		{in: "/mnt/data/sub/a.csv", want: "sub/a.csv"},
		{in: "/etc/passwd", want: "passwd"},
		{in: `C:\Users\x\file.csv`, want: "file.csv"},
		{in: "C:/Users/file.csv", want: "file.csv"},
		{in: `dir\file.csv`, want: "file.csv"},
		{in: "caf\xe9.txt", want: "caf_.txt"},
		{in: long + ".parquet", want: strings.Repeat("é", 123) + ".parquet"},
		{in: "." + strings.Repeat("x", 300), want: "." + strings.Repeat("x", 254)},
		{in: "", err: "empty"},
		{in: "/", err: "empty"},
		{in: ".", err: "empty"},
		{in: "..", err: `".."`},
		{in: "../../etc/passwd", err: `".."`},
		{in: "a/../b", err: `".."`},
		{in: `a\..\b`, err: `".."`},
		{in: "a\x00.csv", err: "control"},
		{in: "a\r\nb.csv", err: "control"},
		{in: strings.Repeat("a/", 16) + "b", err: "segments"},
	} {
		got, err := names.Upload(tt.in)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("Upload(%q) = %q, %v; want %q, error with %q", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestShow(t *testing.T) {
	for in, want := range map[string]string{
		"a b.csv":  "a b.csv",
		"数据.csv":   "数据.csv",
		"":         `""`,
		"a\nb":     `"a\nb"`,
		"a`b":      "\"a`b\"",
		"a\xff":    `"a\xff"`,
		"x\u202ey": `"x\u202ey"`,
	} {
		if got := names.Show(in); got != want {
			t.Errorf("Show(%q) = %s, want %s", in, got, want)
		}
	}
	if got := names.Show(strings.Repeat("é", 500)); len(got) > 140 || !utf8.ValidString(got) {
		t.Errorf("Show of a long name = %q", got)
	}
}

func TestRelative(t *testing.T) {
	if name, ok := names.Relative("/mnt/data/a/b"); name != "a/b" || !ok {
		t.Errorf("Relative = %q, %v", name, ok)
	}
	for _, p := range []string{"/mnt/data", "/mnt/data/", "/mnt/database/x", "/tmp/x"} {
		if name, ok := names.Relative(p); ok {
			t.Errorf("Relative(%q) = %q, want nothing", p, name)
		}
	}
}

// Whatever comes in, what comes out stays below the root, is stable and fits.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a.csv", "../x", "/mnt/data/a", `C:\x`, "a\x00", "e\u0301", strings.Repeat("ü", 400), "./..//."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, make := range []func(string) (string, error){names.Ref, names.Upload} {
			got, err := make(in)
			if err != nil {
				if got != "" {
					t.Errorf("%q with error %v", got, err)
				}
				continue
			}
			full := path.Join("/mnt/data", got)
			if !strings.HasPrefix(full, "/mnt/data/") || full != names.Absolute(got) {
				t.Errorf("%q became %q, which is not below the root in shortest form", in, got)
			}
			if again, err := names.Ref(got); err != nil || again != got {
				t.Errorf("%q became %q, which as a ref is %q, %v", in, got, again, err)
			}
		}
		if s := names.Show(in); strings.ContainsAny(s, "\n\r\x00") || !utf8.ValidString(s) {
			t.Errorf("Show(%q) = %q", in, s)
		}
	})
}

func TestParents(t *testing.T) {
	for name, want := range map[string][]string{"a": nil, "a/b": {"a"}, "é/b c/d": {"é", "é/b c"}} {
		if got := names.Parents(name); !slices.Equal(got, want) {
			t.Errorf("Parents(%q) = %q, want %q", name, got, want)
		}
	}
}

// What is announced can come back as an input.
func TestAnnounce(t *testing.T) {
	for name, want := range map[string]string{
		"a.csv": "a.csv", "d/é x": "d/é x", "a\xffb": "a\ufffdb", "a..b": "a..b",
		"a\nb": "", "a\x7fb": "", `a\b`: "", "d/\x1b[1m": "", strings.Repeat("d/", 20) + "x": "",
	} {
		got, err := names.Announce(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Announce(%q) = %q, %v, want %q", name, got, err, want)
		}
		if _, ref := names.Ref(got); err == nil && ref != nil {
			t.Errorf("%q is announced and refused: %v", name, ref)
		}
	}
}

// A name is refused for its length before it is normalised, and no name that would have
// been good is.
func TestLongNames(t *testing.T) {
	segment := strings.Repeat("\u1fbe\u0308\u0301", 127) // 889 bytes, 254 when normalised
	good := strings.Join([]string{segment, segment, segment, segment}, "/")
	want := norm.NFC.String(good)
	for _, f := range []func(string) (string, error){names.Ref, names.Upload} {
		if got, err := f(good); err != nil || got != want {
			t.Errorf("%d bytes: %d, %v", len(good), len(got), err)
		}
		long := strings.Repeat("\u1fbe\u0308\u0301", 1<<20)
		var err error
		if n := testing.AllocsPerRun(5, func() { _, err = f(long) }); n > 0 || err == nil {
			t.Errorf("%v allocations for a name that is too long, %v", n, err)
		}
	}
}
