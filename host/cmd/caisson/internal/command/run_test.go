package command

import (
	"reflect"
	"testing"

	"github.com/caisson-run/caisson/plugins/exec"
)

func TestLanguageOf(t *testing.T) {
	for _, tt := range []struct{ flag, file, want string }{
		{"", "a.py", "py"},
		{"", "dir.d/A.PY", "py"},
		{"", "a.tar.mjs", "js"},
		{"", "a.cc", "cpp"},
		{"", "a.R", "r"},
		{"", "a.sh", "sh"}, // an alias that the language table knows
		{"ts", "a.py", "ts"},
		{"py", "-", "py"},
		{"", "-", ""},
		{"", "Makefile", ""},
		{"", "dir.py/Makefile", ""},
		{"", "a.", ""},
	} {
		got, err := languageOf(tt.flag, tt.file)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("languageOf(%q, %q) = %q, %v; want %q", tt.flag, tt.file, got, err, tt.want)
		}
	}
}

func TestInputFiles(t *testing.T) {
	got, err := inputFiles([]string{"/x/a,b.csv", "c=sub/./d", "e=f=g"})
	want := []input{{"/x/a,b.csv", "a,b.csv"}, {"c", "sub/d"}, {"e", "f=g"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("inputFiles = %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"a=../b", "a=/etc/passwd", "a=", "..", ".", "/", "a=x/../.."} {
		if got, err := inputFiles([]string{bad}); err == nil {
			t.Errorf("inputFiles(%q) = %v, want an error", bad, got)
		}
	}
}

func TestExit(t *testing.T) {
	code := func(n int) *int { return &n }
	status := func(s string) *string { return &s }
	r := runner{ctx: t.Context()}
	for _, tt := range []struct {
		name string
		res  exec.CodeResult
		want error
	}{
		{"success", exec.CodeResult{Code: code(0)}, nil},
		{"the program's own", exec.CodeResult{Code: code(3)}, exitCode(3)},
		{"output cut", exec.CodeResult{Code: code(0), Status: status("OL")}, nil},
		{"out of time", exec.CodeResult{Status: status("TO")}, exitCode(124)},
		{"killed", exec.CodeResult{Status: status("SG")}, exitCode(137)},
		{"lost", exec.CodeResult{Status: status("XX")}, exitCode(137)},
	} {
		if got := r.exit(&tt.res); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"a b/ü.txt": "a b/ü.txt", "\x1b[2J": `"\x1b[2J"`, "a\nsaved b": `"a\nsaved b"`, `q"`: `"q\""`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestHidden(t *testing.T) {
	for name, want := range map[string]bool{".a": true, "a/.git/x": true, "a/.b": true, "a.b": false, "a./b": false, "a/b": false} {
		if got := hidden(name); got != want {
			t.Errorf("hidden(%q) = %v, want %v", name, got, want)
		}
	}
}
