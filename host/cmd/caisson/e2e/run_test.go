package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// write makes a file in a new directory.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one user at a time")
	}
	p := newPlace(t)
	out := filepath.Join(t.TempDir(), "out")
	file := write(t, "prog.py", `import sys, os
print(sys.argv[1:], open("in.csv").read())
print("oops", file=sys.stderr)
os.makedirs("plots/a", exist_ok=True)
open("plots/a/x.txt", "w").write("plot")
sys.exit(7)
`)
	input := write(t, "data.csv", "1,2")
	args := p.flags("run", "--out", out, "--file", input+"=in.csv")
	r := p.run(t, "", append(args, file, "--lang", "a b", "$(id)")...)
	if r.code != 7 || r.stdout != "['--lang', 'a b', '$(id)'] 1,2\n" || !strings.HasPrefix(r.stderr, "oops\n") {
		t.Fatalf("exit %d\n--- stdout\n%s--- stderr\n%s", r.code, r.stdout, r.stderr)
	}
	saved := filepath.Join(out, "plots", "a", "x.txt")
	if b, err := os.ReadFile(saved); err != nil || string(b) != "plot" {
		t.Errorf("the changed file: %q, %v", b, err)
	}
	if !strings.Contains(r.stderr, "saved "+saved+"\n") || strings.Contains(r.stderr, "in.csv") {
		t.Errorf("stderr = %q, want the changed file and not the input", r.stderr)
	}

	// A file that is there already stays as it is.
	if err := os.WriteFile(saved, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = p.run(t, "", append(args, file)...)
	if r.code != 1 || !strings.Contains(r.stderr, "is not saved: it exists already; use --force") {
		t.Errorf("over an existing file: exit %d, %s", r.code, r.stderr)
	}
	if b, _ := os.ReadFile(saved); string(b) != "mine" {
		t.Errorf("the existing file is now %q", b)
	}
	r = p.run(t, "", append(args, "--force", file)...)
	if b, _ := os.ReadFile(saved); r.code != 7 || string(b) != "plot" {
		t.Errorf("--force: exit %d, file %q, %s", r.code, b, r.stderr)
	}
}

func TestRunVariants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one user at a time")
	}
	p := newPlace(t)
	t.Run("standard input", func(t *testing.T) {
		r := p.run(t, "console.log(6 * 7)", append(p.flags("run", "--lang", "js"), "-")...)
		if r.code != 0 || r.stdout != "42\n" || r.stderr != "" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("out of time", func(t *testing.T) {
		r := p.run(t, "while True: pass", append(p.flags("run", "--lang", "py", "--timeout", "1s"), "-")...)
		if r.code != 124 || !strings.Contains(r.stderr, "Time limit") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("hidden files stay out of the working directory", func(t *testing.T) {
		dir := t.TempDir()
		q := p
		q.dir = dir
		r := q.run(t, "open('.envrc', 'w').write('x'); open('y', 'w').write('y')", append(p.flags("run", "--lang", "py"), "-")...)
		entries, err := os.ReadDir(dir)
		if r.code != 1 || !strings.Contains(r.stderr, ".envrc is not saved") || err != nil || len(entries) != 1 || entries[0].Name() != "y" {
			t.Errorf("%+v, directory %v, %v", r, entries, err)
		}
	})
	t.Run("unknown language", func(t *testing.T) {
		r := p.run(t, "", append(p.flags("run"), write(t, "x.cob", "x"))...)
		if r.code != 1 || !strings.HasPrefix(r.stderr, "caisson: ") || !strings.Contains(r.stderr, "cob") || !strings.Contains(r.stderr, "py") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("beside a server", func(t *testing.T) {
		q := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
		s := q.serve(t).ready(t)
		r := q.run(t, "print(1)", append(q.flags("run", "--lang", "py"), "-")...)
		if r.code != 0 || r.stdout != "1\n" {
			t.Errorf("%+v", r)
		}
		if a := s.python(t, "print(2)"); a.Stdout != "2\n" {
			t.Errorf("the server afterwards: %+v", a)
		}
		s.stop(t)
	})
}

// languageRow is one row of the doctor's table of languages: id, name, what runs
// it, and why nothing does.
var languageRow = regexp.MustCompile(`(?m)^([a-z0-9]+) {2,}(\S.*?) {2,}(\S.*?) {2,}(\S.*)$`)

// languages splits the table off a report.
func languages(report string) (rest string, rows [][]string) {
	before, table, _ := strings.Cut(report, "\nLANGUAGE ")
	table, after, _ := strings.Cut(table, "\n\n")
	return before + "\n" + after, languageRow.FindAllStringSubmatch(table, -1)
}

// normal replaces what differs between machines and builds.
func normal(p place, s string) string {
	s = strings.NewReplacer(p.data, "DATA", plugins, "PLUGINS").Replace(s)
	s = regexp.MustCompile(`caisson \S+\n`).ReplaceAllString(s, "caisson VERSION\n")
	s = regexp.MustCompile(`\b[0-9a-f]{12}\b`).ReplaceAllString(s, "DIGEST")
	s = regexp.MustCompile(`(?m)^ +\d+ of \d+ languages installed.*$`).ReplaceAllString(s, " PROBE")
	s = regexp.MustCompile(`process \d+`).ReplaceAllString(s, "process PID")
	return regexp.MustCompile(` +`).ReplaceAllString(s, " ") // widths follow the values
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to accept):\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one user at a time")
	}
	p := newPlace(t, "GOMAXPROCS=2") // the queue's default goes by it
	r := p.run(t, "", p.flags("doctor")...)
	if r.code != 1 || r.stderr != "" {
		t.Errorf("nobody is let in: exit %d, stderr %q; want 1 and nothing", r.code, r.stderr)
	}
	rest, rows := languages(r.stdout)
	golden(t, "doctor.txt", normal(p, rest))
	if len(rows) < 13 {
		t.Errorf("%d languages are listed, want at least the 13 of the wire: %s", len(rows), r.stdout)
	}
	for _, row := range rows {
		id, runsOn, why := row[1], row[3], row[4]
		if (runsOn == "-") == (why == "-") {
			t.Errorf("%s: runs on %q and does not because of %q", id, runsOn, why)
		}
		if id == "py" && !strings.Contains(runsOn, "3.") {
			t.Errorf("py runs on %q, want CPython's version", runsOn)
		}
	}

	// Beside a server, with everything set.
	secret := strings.Repeat("s", 32)
	p.env = append(p.env, "CODE_EXEC_API_KEY="+testKey, "CAISSON_SECRET="+secret, "CODE_EXEC_FEE_CENTS=0")
	s := p.serve(t).ready(t)
	r = p.run(t, "", p.flags("doctor")...)
	if r.code != 0 || strings.Contains(r.stdout, testKey) || strings.Contains(r.stdout, secret) {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
	rest, _ = languages(r.stdout)
	golden(t, "doctor-beside-server.txt", normal(p, rest))
	r = p.run(t, "", p.flags("doctor", "--json")...)
	if !strings.Contains(r.stdout, `"ok": true`) || strings.Contains(r.stdout, testKey) || strings.Contains(r.stdout, secret) {
		t.Errorf("--json: %s", r.stdout)
	}
	s.stop(t)
}

// Without packs everything starts, what needs one does not run, the operator is told
// how to change that, and Bash, which needs none, is offered.
func TestWithoutInterpreters(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one user at a time")
	}
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	bare := t.TempDir()
	for _, name := range []string{"wasm", "languages", "limits"} {
		if err := os.Mkdir(filepath.Join(bare, name), 0o755); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(plugins, name, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if filepath.Base(file) == "packs" {
				continue
			}
			if err := os.Link(file, filepath.Join(bare, name, filepath.Base(file))); err != nil {
				copyFile(t, file, filepath.Join(bare, name, filepath.Base(file))) // another file system
			}
		}
	}
	const fix = `run "make packs"`
	r := p.run(t, "", "doctor", "--data", p.data, "--plugins", bare)
	if r.code != 0 || !strings.Contains(r.stdout, fix) {
		t.Errorf("doctor: %+v", r)
	}
	r = p.run(t, "print(1)", "run", "--lang", "py", "--data", p.data, "--plugins", bare, "-")
	if r.code != 1 || !strings.Contains(r.stderr, "Language py cannot run here. Supported: bash") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("run: %+v", r)
	}
	s := p.serve(t, "--plugins", bare)
	s.logs(t, "serving")
	s.ready(t)
	wantStatus(t, "a run", s.must(t, "POST", "/v1/exec", s.key, program("print(1)")), 400, "cannot run here")
	s.stop(t)
	if out := p.ledger(t, "usage"); strings.Count(out, "\n") != 1 {
		t.Errorf("something was charged: %s", out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Without plugins the doctor says what to do, and that it matters.
func TestDoctorWithoutPlugins(t *testing.T) {
	p := newPlace(t)
	none := t.TempDir()
	r := p.run(t, "", "doctor", "--data", p.data, "--plugins", none)
	if r.code != 1 || strings.Count(r.stdout, "make build") == 0 {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
}

func TestInstalledPlugins(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.run(t, "", p.flags("plugin", "list", "--check")...)
	if r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	golden(t, "plugin-list.txt", normal(p, r.stdout))
}

// run keeps compiled interpreters in the directory that --data names, even if it
// has to make it.
func TestRunKeepsItsCache(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles interpreters")
	}
	p := newPlace(t)
	fresh := filepath.Join(t.TempDir(), "fresh")
	r := p.run(t, "print(1)", "run", "--lang", "py", "--plugins", plugins, "--data", fresh, "-")
	if r.code != 0 || r.stdout != "1\n" {
		t.Errorf("%+v", r)
	}
	if entries, err := os.ReadDir(filepath.Join(fresh, "cache")); err != nil || len(entries) == 0 {
		t.Errorf("the cache below --data holds %v, %v", entries, err)
	}
}

// What operators are shown for the embedded backend is valid, and what is not is
// named.
func TestBackendConfig(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	example, err := os.ReadFile("testdata/wasm-clocks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(example): "the default backend can run programs",
		strings.ReplaceAll(string(example), "604800", "-1"):            "config /ttl_seconds: must be at least 0",
		strings.ReplaceAll(string(example), "ttl_seconds", "ttl_secs"): "ttl_secs",
	} {
		r := p.run(t, "", p.flags("doctor", "--config", p.config(t, text))...)
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s\n%+v, want %q", text, r, want)
		}
	}
}
