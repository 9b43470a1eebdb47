package coreutils

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// noFiles is a file system in which there is nothing.
type noFiles struct{}

func (noFiles) Open(string, int, fs.FileMode) (File, error) { return nil, syscall.ENOENT }
func (noFiles) Stat(string) (fs.FileInfo, error)            { return nil, syscall.ENOENT }
func (noFiles) Lstat(string) (fs.FileInfo, error)           { return nil, syscall.ENOENT }
func (noFiles) ReadDir(string) ([]fs.FileInfo, error)       { return nil, syscall.ENOENT }
func (noFiles) Readlink(string) (string, error)             { return "", syscall.ENOENT }
func (noFiles) Mkdir(string, fs.FileMode) error             { return syscall.EROFS }
func (noFiles) Unlink(string) error                         { return syscall.ENOENT }
func (noFiles) Rmdir(string) error                          { return syscall.ENOENT }
func (noFiles) Rename(string, string) error                 { return syscall.ENOENT }
func (noFiles) Link(string, string) error                   { return syscall.ENOENT }
func (noFiles) Symlink(string, string) error                { return syscall.EROFS }
func (noFiles) Chmod(string, fs.FileMode) error             { return syscall.ENOENT }
func (noFiles) Chtimes(string, time.Time, time.Time) error  { return syscall.ENOENT }
func (noFiles) Usage() (used, limit int64, err error)       { return 0, 0, nil }

// call runs a command that finds no files.
func call(ctx context.Context, stdin string, argv ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	c := &Call{Argv: argv, Dir: "/mnt/data", Env: map[string]string{}, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, FS: noFiles{}}
	c.Has = func(string) string { return "" }
	c.Run = func(ctx context.Context, d *Call) int {
		cmd, ok := Lookup(d.Argv[0])
		if !ok {
			return 127
		}
		return cmd(ctx, d)
	}
	cmd, ok := Lookup(argv[0])
	if !ok {
		return 127, "", ""
	}
	return cmd(ctx, c), out.String(), errs.String()
}

func TestOptions(t *testing.T) {
	spec, long := "ab:c::", []string{"alpha=a", "beta=b", "beam=b", "gamma=c"}
	for _, tc := range []struct {
		args     string
		opts     string
		operands string
		wrong    bool
	}{
		{"x -a y -b v z", "a b=v", "x y z", false},
		{"-abv", "a b=v", "", false},
		{"-c -cx", "c c=x", "", false},
		{"-- -a", "", "-a", false},
		{"- x", "", "- x", false},
		{"--alpha --beta=v --bet w --gamma=u", "a b=v b=w c=u", "", false},
		{"--be v", "b=v", "", false},
		{"-d", "", "", true},
		{"-:", "", "", true},
		{"-b", "", "", true},
		{"--alpha=v", "", "", true},
		{"--beta", "", "", true},
		{"--nosuch", "", "", true},
		{"--g", "c", "", false},
	} {
		c := &Call{Argv: append([]string{"cmd"}, strings.Fields(tc.args)...)}
		opts, operands, err := c.options(spec, long...)
		var got []string
		for _, o := range opts {
			s := string(rune(o.name))
			if o.arg != "" {
				s += "=" + o.arg
			}
			got = append(got, s)
		}
		if (err != nil) != tc.wrong || !tc.wrong && (strings.Join(got, " ") != tc.opts || strings.Join(operands, " ") != tc.operands) {
			t.Errorf("%q: %q %q, %v", tc.args, got, operands, err)
		}
	}
	c := &Call{Argv: []string{"cmd", "-a", "x", "-a"}}
	if opts, operands, err := c.options("+a"); err != nil || len(opts) != 1 || !slices.Equal(operands, []string{"x", "-a"}) {
		t.Errorf("in order: %v %q, %v", opts, operands, err)
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1.0K", 1025: "1.1K", 10239: "10K", 10240: "10K", 1 << 20: "1.0M", 1<<20 - 1: "1.0M", 5 << 30: "5.0G"} {
		if got := human(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestDates(t *testing.T) {
	now := time.Date(2024, 2, 29, 13, 14, 15, 0, time.UTC) // a Thursday
	for s, want := range map[string]string{
		"": "2024-02-29T13:14:15", "now": "2024-02-29T13:14:15", "tomorrow": "2024-03-01T13:14:15", "yesterday": "2024-02-28T13:14:15",
		"midnight": "2024-02-29T00:00:00", "noon": "2024-02-29T12:00:00", "@0": "1970-01-01T00:00:00", "@1.5": "1970-01-01T00:00:01",
		"2024-01-31 +1 month": "2024-03-02T00:00:00", "+ 2 hours": "2024-02-29T15:14:15", "3 days ago": "2024-02-26T13:14:15",
		"next friday": "2024-03-01T00:00:00", "last thursday": "2024-02-22T00:00:00", "monday": "2024-03-04T00:00:00", "2 weeks": "2024-03-14T13:14:15",
		"10:30": "2024-02-29T10:30:00", "2023-05-06 07:08": "2023-05-06T07:08:00", "1 Jan 2020 1 day ago": "2019-12-31T00:00:00", "yesterday 10:00": "",
		"nonsense": "", "2024-13-01": "", "+": "", "next": "", "99999999999999999999 days": "",
	} {
		got, err := parseDate(s, now, time.UTC)
		if (err != nil) != (want == "") || err == nil && got.Format("2006-01-02T15:04:05") != want {
			t.Errorf("%q: %v, %v; want %s", s, got, err, want)
		}
	}
}

func TestModes(t *testing.T) {
	for spec, want := range map[string]string{"644": "rw-r--r--", "u+x": "rwxr--r--", "a-r": "-w-------", "go=": "rw-------", "u=rwx,go=rx": "rwxr-xr-x", "+x": "rwxr-xr-x", "g=u": "rw-rw-r--", "u-w+x": "r-xr--r--"} {
		m, err := parseMode(spec, 0o644, false)
		if err != nil || modeString(m)[1:] != want {
			t.Errorf("%s: %s, %v; want %s", spec, modeString(m)[1:], err, want)
		}
	}
	for _, spec := range []string{"", "x", "888", "u+q", "q+x", "77777"} {
		if m, err := parseMode(spec, 0, false); err == nil {
			t.Errorf("%q is %o", spec, m)
		}
	}
}

// What no limit but that of memory would stop is refused.
func TestLimits(t *testing.T) {
	for _, argv := range [][]string{
		{"printf", "%1000000000d", "1"},
		{"printf", "%.1000000000f", "1"},
		{"tr", "a", `[b*99999999999]`},
		{"seq", "1e1000000000"},
		{"seq", "-f", "%999999999f", "1"},
		append([]string{"find", "/"}, strings.Fields(strings.Repeat("( ", 10000))...), append([]string{"expr"}, strings.Fields(strings.Repeat("( ", 10000))...),
		{"nl", "-w", "999999999"},
		{"expand", "-t", "999999999"},
		{"dd", "bs=1000G"},
		{"shuf", "-i", "1-99999999999"},
		{"split", "-a", "99999999"},
		{"sleep", "-1"},
		{"head", "-n", "99999999999999999999"},
	} {
		if code, stdout, stderr := call(t.Context(), "", argv...); code == 0 || stderr == "" || len(stdout) > 100 {
			t.Errorf("%.60q: code %d, %.60q, %.60q", argv, code, stdout, stderr)
		}
	}
	for _, in := range []string{"9^9^9^9", strings.Repeat("(", 100000), "scale=99999999", strings.Repeat("-", 100000)} {
		if _, stdout, stderr := call(t.Context(), in+"\n", "bc"); stderr == "" || stdout != "" {
			t.Errorf("bc of %.20q: %.60q, %.60q", in, stdout, stderr)
		}
	}
}

// FuzzOperands gives arbitrary text to everything that parses a little language of
// its own. Nothing of it may panic, or take much longer than its input.
func FuzzOperands(f *testing.F) {
	for _, s := range []string{
		"[:alpha:]a-z\\n[x*3]", "1,3-5,7-", "2,3nr", "u+x,go=", "2024-01-31 +1 month", "%5.2f %s %q %(%F)T\\n", "( -name *.go -o -size +1k ) -printf %p\\n",
		"1 + ( 2 * 3 )", "scale=2; 10/3 ^ 2", "-la --color=auto x", "10M", "a\\x41\\0101\\u00e9\\c", "Jan 5, 2024 3:04pm", "%-5d|%+d|%#x|%*d", "[a-", "-f1 -d, --",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 300 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		words := strings.Fields(s)
		if set, err := parseTr(s); err == nil && len(set.runes) > maxTrSet {
			t.Errorf("tr %q: %d characters", s, len(set.runes))
		}
		_, _ = spans(s)
		_, _ = parseSortKey(s)
		_, _ = parseMode(s, 0o644, true)
		_, _ = parseDate(s, time.Unix(0, 0), time.UTC)
		_, _ = duration(s)
		_, _ = size(s)
		_ = awkSource(s)
		_ = unhex(s, false)
		_ = dateFormat(strings.ReplaceAll(s, "%9", ""), time.Unix(0, 0))
		if out, _, err := Printf(s, words, func(string) string { return "" }); err == nil && len(out) > maxPrintf+maxField+len(s)*8 {
			t.Errorf("printf %q: %d bytes", s, len(out))
		}
		_ = Echo(io.Discard, append([]string{"-e"}, words...))
		fi := &finder{c: &Call{Argv: []string{"find"}}, args: slices.Clone(words)}
		_, _ = fi.or()
		for _, name := range []string{"tr", "cut", "sort", "uniq", "head", "tail", "grep", "sed", "expr", "seq", "printf", "xargs", "fold", "nl", "paste", "column", "jq", "xxd", "od", "hexdump", "basename", "wc", "numfmt"} {
			if name == "seq" && len(s) > 12 {
				continue
			}
			call(ctx, "one two\nthree\n", append([]string{name}, words...)...)
		}
		call(ctx, s+"\n", "bc")
		call(ctx, s, "jq", ".")
		call(ctx, s, "xargs", "-n2", "echo")
		call(ctx, s, "base64", "-d")
		call(ctx, s, "gunzip")
		call(ctx, s, "tar", "tf", "-")
	})
}
