package sed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// memory is files in memory.
type memory map[string]*bytes.Buffer

func (m memory) Read(name string) ([]byte, error) {
	if b, ok := m[name]; ok {
		return b.Bytes(), nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Create(name string) (io.Writer, error) {
	m[name] = &bytes.Buffer{}
	return m[name], nil
}

// run edits input and returns the output and the exit code.
func run(ctx context.Context, script, input string, o Options) (string, int, error) {
	s, err := Parse(script, o)
	if err != nil {
		return "", 1, err
	}
	var out bytes.Buffer
	in := Input{Name: "-", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(input)), nil }}
	code, err := s.Run(ctx, []Input{in}, &out, memory{"file": bytes.NewBufferString("from a file\n")}, func(string, error) {})
	return out.String(), code, err
}

const text = "one\ntwo two\n\nfour 4 four\nfive/5\n"

var scripts = []string{
	`s/o/0/`, `s/o/0/g`, `s/o/0/2`, `s/f\(.\)/\1f/g`, `s/x*/-/g`, `s/\w\+/[&]/g`, `s/^/> /`, `s/$/ </`, `s/four/FOUR/2`, `s/T/x/I`, `s,/,\,,`, `s/o/\n/`,
	`s/\(two\) \(two\)/\2-\1/;s/-/+/`, `s/[/5]/_/g`, `s/[]]/x/`, `s/./\U&/`, `s/.*/\L\u&/`, `s/\(.*\) \(.*\)/\U\1\E \2/`, `s/a\|o/_/g`, `s/\./x/`, `s/o\{1,\}/_/`,
	`2d`, `$d`, `2,3d`, `/two/d`, `/^$/d`, `2!d`, `/one/,/four/d`, `2,/four/d`, `/two/,+1d`, `2~2d`, `0~2d`, `1~3p`, `0,/o/d`, `/one/,1d`, `3,1d`, `$!d`, `2,~4d`, `/two/I!d`,
	`p`, `1p;$p`, `/o/{p;p}`, `/o/{s/o/0/;b};s/e/E/`, `=`, `$=`, `n;d`, `N;s/\n/+/`, `N;N;P;D`, `$!N;P;D`, `1!G;h;$!d`, `G`, `x;p;x`, `H;$!d;x;s/\n/,/g`, `h;s/o/0/;H;g`,
	`a added`, `i inserted`, `c changed`, "a\\\nadded", "2i\\\n  keeps spaces", `$a\  text`, `2,3c range`, `/one/a one\` + "\n" + `more`, `1i\a\tb`,
	`q`, `2q`, `2q5`, `2Q`, `3Q7`, `y/abcdef/ABCDEF/`, `y,/,|,`, `y/o\n/0x/`, `:a;s/^\(.\{1,9\}\)$/ \1/;ta`, `:a;N;$!ba;s/\n/,/g`, `/two/{n;n;s/4/x/}`, `/five/!{s/o/0/;t;s/$/!/}`,
	`s/o/0/;T;s/$/ replaced/`, `l`, `l 10`, `r nofile`, `/two/z`, `s/two/2/p;s/four/4/gp`, `s/o/0/w /dev/stdout`, `/[0-9]/s//N/`, `s/\(a\)\|b/x/`, `s/a/b/ ; s/b/c/ # comment`, `# comment`,
	`{2d;4d}`, `1{/one/{s/o/0/}}`, `s/[^ ]*$/(&)/`, `s/\s/_/g`, `s/\bf/F/g`, `s/e\?$/E/`, `/o$/!s/$/./`, `1,3{/two/!d}`, `s|[|/]|.|g`, `s/\//\\/`, `s/5/&&/`, `s/5/\&/`, `\,/,d`, `\|two|d`, `2{h;d};${G}`, `1d;n;d`, `$!{N;D}`,
}

var wrong = []string{
	`s/a/b`, `s/a`, `s`, `k`, `{p`, `p}`, `s/\(a/b/`, `s/a/\1/`, `y/ab/c/`, `b nowhere`, `2,`, `a`, `s/a/b/gq`, `s/a/b/0`, `:`, `1,2=x`, `p p`, `0p`, `s/a/b/e`, `e`, `e ls`, `r`, `/a`, `}`, `1!`, `s/*\(/x/`, `2:a`, `s/a/b/3 3`, `s/\(\(\)/x/`, "s\na\nb\n",
}

func TestLikeSed(t *testing.T) {
	path, err := exec.LookPath("sed")
	if err != nil {
		t.Skip("sed is not installed")
	}
	if out, _ := exec.Command(path, "--version").Output(); !bytes.Contains(out, []byte("GNU sed")) {
		t.Skip("sed is not that of GNU")
	}
	for _, script := range scripts {
		for _, quiet := range []bool{false, true} {
			for _, input := range []string{text, "last line\nhas no end", ""} {
				args := []string{script}
				if quiet {
					args = []string{"-n", script}
				}
				cmd := exec.Command(path, args...)
				cmd.Env, cmd.Dir = []string{"LC_ALL=C.UTF-8"}, t.TempDir()
				cmd.Stdin = strings.NewReader(input)
				want, _ := cmd.Output()
				got, code, err := run(t.Context(), script, input, Options{Quiet: quiet})
				if got != string(want) || code != cmd.ProcessState.ExitCode() || err != nil {
					t.Errorf("%q (quiet %v) on %q: got %d, %q, %v\nwant %d, %q", script, quiet, input, code, got, err, cmd.ProcessState.ExitCode(), want)
				}
			}
		}
	}
	for _, script := range wrong {
		cmd := exec.Command(path, script)
		cmd.Stdin = strings.NewReader("")
		// Commands that sed has and this does not are wrong here as well.
		if cmd.Run() == nil && !strings.Contains(script, "e") {
			t.Errorf("sed accepts %q", script)
		}
	}
}

func TestWrongScripts(t *testing.T) {
	for _, script := range append(wrong, strings.Repeat("{", maxDepth+1), strings.Repeat("p\n", MaxScript)) {
		_, err := Parse(script, Options{})
		if e := (*Error)(nil); !errors.As(err, &e) || e.Text == "" || e.Char > len(script) {
			t.Errorf("%.40q: %v", script, err)
		}
	}
}

func TestFiles(t *testing.T) {
	files := memory{"in": bytes.NewBufferString("inserted\n")}
	s, err := Parse("/two/r in\n/o/w out\ns/one/ONE/w changed", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	in := Input{Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
	if _, err := s.Run(t.Context(), []Input{in}, &out, files, nil); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "ONE\ntwo two\ninserted\n\nfour 4 four\nfive/5\n" {
		t.Errorf("output %q", got)
	}
	if got := files["out"].String(); got != "one\ntwo two\nfour 4 four\n" {
		t.Errorf("w wrote %q", got)
	}
	if got := files["changed"].String(); got != "ONE\n" {
		t.Errorf("s///w wrote %q", got)
	}
}

// Inputs that are edited in place, or separately, have line numbers of their own;
// one that cannot be opened is left out.
func TestInputs(t *testing.T) {
	s, err := Parse("1s/^/first /;$s/^/last /", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var outs [2]bytes.Buffer
	open := func(text string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	}
	var failed []string
	_, err = s.Run(t.Context(), []Input{
		{Name: "a", Open: open("1\n2\n"), Out: &outs[0]},
		{Name: "b", Open: func() (io.ReadCloser, error) { return nil, os.ErrNotExist }, Out: io.Discard},
		{Name: "c", Open: open("3\n4"), Out: &outs[1]},
	}, io.Discard, memory{}, func(name string, _ error) { failed = append(failed, name) })
	if err != nil || outs[0].String() != "first 1\nlast 2\n" || outs[1].String() != "first 3\nlast 4" || len(failed) != 1 || failed[0] != "b" {
		t.Errorf("%q %q, failed %v, %v", outs[0].String(), outs[1].String(), failed, err)
	}
}

func TestEndlessScript(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := run(ctx, ":a;ba", "x\n", Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// FuzzScript: whatever is accepted runs to its end or to its deadline, and prints
// no more than what its commands could.
func FuzzScript(f *testing.F) {
	for _, s := range append(scripts, wrong...) {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, script string, extended bool) {
		if len(script) > 200 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, code, err := run(ctx, script, text, Options{Extended: extended})
		if code < 0 || errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%q: %d, %v", script, code, err)
		}
	})
}
