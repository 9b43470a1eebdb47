package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/sdk/policy"
)

func readManifest(tb testing.TB) *manifest.Manifest {
	tb.Helper()
	data, err := os.ReadFile(manifest.FileName)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := manifest.Parse(manifest.FileName, data)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// The module and its manifest's schema agree on what a configuration is, but that only
// the module knows the types.
func TestConfig(t *testing.T) {
	m := readManifest(t)
	for config, want := range map[string]string{
		`{}`: "", `{"ignore":["mines"],"warn":["reverse_shell","not_scanned"],"max_bytes":1024}`: "",
		`{"ignore":[]}`: "want at least one type", `{"warn":"mines"}`: "want an array", `{"deny":["mines"]}`: "unknown member",
		`{"max_bytes":1023}`: "want a number from", `{"max_bytes":131073}`: "want a number from", `{"max_bytes":1.5}`: "want a 64-bit integer",
		`{"warn":["Mines"]}`: `there are no findings of type "Mines"`, `{"ignore":["minez"]}`: `there are no findings of type "minez"`, `[]`: "want an object",
	} {
		_, err := parseConfig([]byte(config))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
		if bySchema := m.ValidateConfig([]byte(config)); (bySchema == nil) != (want == "" || strings.Contains(config, "minez")) {
			t.Errorf("%s: the schema says %v", config, bySchema)
		}
	}
}

func TestConfigDecides(t *testing.T) {
	r := policy.Request{Language: "bash", Code: "xmrig\n:(){ :|:& };:\nnmap x"}
	for config, want := range map[string][]string{ // denied by, then remarked on
		`{}`:                                        {"mines", "scans_network"},
		`{"ignore":["mines","scans_network"]}`:      {"fork_bomb"},
		`{"warn":["mines"]}`:                        {"fork_bomb", "mines", "scans_network"},
		`{"warn":["mines","fork_bomb"]}`:            {"", "mines", "fork_bomb", "scans_network"},
		`{"ignore":["mines"],"warn":["fork_bomb"]}`: {"", "fork_bomb", "scans_network"},
	} {
		c, err := parseConfig([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{c.admit(r).Code}
		for _, w := range c.result(policy.Outcome{Request: r}).Warnings {
			got = append(got, w.Code)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	if v := plain(t).admit(r); v.Reason != "line 1: it mines (xmrig), and 1 more" {
		t.Errorf("%q", v.Reason)
	}
}

// told is everything there is to tell of a program.
func told(language, code string, args []string, limit int) []Finding {
	return pick(scan(language, code, args, limit), func(Finding) bool { return true })
}

// What is certain is found among any number of things that are not.
func TestDecoys(t *testing.T) {
	const wipe = "rm -rf /"
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	for name, c := range map[string]struct{ language, code, kind string }{
		"odd lines":              {"bash", lines(500, "eval sudo nmap x") + wipe, "destroys_data"},
		"odd commands":           {"bash", lines(500, "sudo sudo su - x") + "bash -c '" + wipe + "'", "destroys_data"},
		"same type on a line":    {"bash", `sudo bash -c "chmod u+s /tmp/x"`, "gains_rights"},
		"commands":               {"bash", lines(1000, "eval true") + "eval '" + wipe + "'", "destroys_data"},
		"commands of a program":  {"py", lines(1000, "os.system('ls')") + "os.system('" + wipe + "')", "destroys_data"},
		"commands on a line":     {"bash", strings.Repeat("eval true; ", 500) + "eval '" + wipe + "'", "destroys_data"},
		"texts about it":         {"bash", lines(1000, "echo ' "+wipe+" '") + wipe, "destroys_data"},
		"texts about commands":   {"py", lines(1000, "print('os.system()')") + "os.system('" + wipe + "')", "destroys_data"},
		"text before a command":  {"py", "print('os.system('); os.system('" + wipe + "')", "destroys_data"},
		"text before code":       {"py", "x = 'socket'\nimport socket\nos.dup2(s.fileno(), 0)", "reverse_shell"},
		"text before a pipe":     {"bash", "echo 'curl ' x | cat & curl x | sh", "fetches_code"},
		"arguments of a command": {"bash", "eval '" + strings.Repeat("x", 2*maxCommand) + "'; eval '" + wipe + "'", "destroys_data"},
	} {
		t.Run(name, func(t *testing.T) {
			r := policy.Request{Language: c.language, Code: c.code}
			if v := plain(t).admit(r); v.Decision != policy.Deny || v.Code != c.kind {
				t.Errorf("%+v, want %s", v, c.kind)
			}
		})
	}
	// What the operator does not want to hear of takes no room either.
	c, err := parseConfig([]byte(`{"ignore":["gains_rights"],"warn":["mines"]}`))
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for range 100 {
		args = append(args, "xmrig")
	}
	if v := c.admit(policy.Request{Language: "bash", Code: "sudo x; chmod u+s x\n" + wipe, Args: args}); v.Code != "destroys_data" {
		t.Errorf("%+v", v)
	}
}

// Lines are those of the program also for what is in a command, and two commands are
// not one.
func TestCommandsKeepTheirPlaces(t *testing.T) {
	got := told("py", "import os\nos.system('ls')\n\nos.system('id'); os.system('xmrig')\n", nil, 1<<20)
	if len(got) != 1 || got[0].Line != 4 {
		t.Errorf("%+v", got)
	}
	for _, code := range []string{
		"os.system('rm -rf')\nos.system('/')", "os.system('rm -rf')\n\n\nos.system('/ x')", "os.system('curl x |')\nos.system('sh')",
		"os.system('echo >')\nos.system('/dev/sda')",
	} {
		if got := told("py", code, nil, 1<<20); len(got) > 0 {
			t.Errorf("%q: %+v", code, got)
		}
	}
}

// Lines and contexts are those of the text, whatever letters are before them.
func TestPlaces(t *testing.T) {
	text := "# İstanbul ẞ ﬁ \U0001F600\nx = 'İİİ'\n\n  print(open('/etc/shadow').read()) # é\u202e\x07"
	got := told("py", text, nil, 1<<20)
	if len(got) != 1 || got[0].Line != 4 || got[0].Context != "print(open('/etc/shadow').read())" || got[0].Pattern != "accounts" || !got[0].Certain {
		t.Errorf("%+v", got)
	}
	long := strings.Repeat("é", 1000) + " xmrig " + strings.Repeat("ü\u0085", 1000)
	got = told("bash", long, nil, 1<<20)
	if len(got) != 1 || utf8.RuneCountInString(got[0].Context) > maxContext || !strings.Contains(got[0].Context, "xmrig") {
		t.Errorf("%+v", got)
	}
}

func TestComments(t *testing.T) {
	for _, c := range []struct {
		language, code string
		found          bool
	}{
		{"py", "# xmrig", false},
		{"py", "x = '#'; xmrig", true},
		{"py", "'''\n# xmrig in a text\n'''", true},
		{"py", "\"\"\"it's\"\"\"\n# xmrig", false},
		{"py", `s = 'it\'s' # xmrig`, false},
		{"py", "s = 'open\n# xmrig", false},
		{"bash", "echo a#xmrig", true},
		{"bash", "echo a #xmrig", false},
		{"bash", `echo '\' # xmrig`, false},
		{"bash", "#!/bin/xmrig", true},
		{"bash", "echo \"a\n# xmrig\n\"", true},
		{"js", "// xmrig", false},
		{"js", "/* xmrig\nxmrig */ 1", false},
		{"js", "/* open xmrig", false},
		{"js", "`//` + xmrig", true},
		{"js", "'//' + xmrig", true},
		{"sql", "-- xmrig", false},
		{"f90", "! xmrig", false},
		{"rs", "fn f<'a>(x: &'a str) {} // xmrig", false},
		{"unheard-of", "// xmrig", false},
	} {
		if got := told(c.language, c.code, nil, 1<<20); (len(got) > 0) != c.found {
			t.Errorf("%s %q: %+v", c.language, c.code, got)
		}
	}
}

func TestBounds(t *testing.T) {
	got := told("py", strings.Repeat("x = 1\n", 1000)+"xmrig", nil, 2048)
	if len(got) != 1 || got[0].Type != unread || got[0].Certain || got[0].Context != "3957 bytes" {
		t.Errorf("%+v", got)
	}
	if got := told("py", strings.Repeat("os.system('xmrig | sh')\n", 500), nil, 1<<20); len(got) > maxFindings {
		t.Errorf("%d findings", len(got))
	}
	if got := told("py", "1", []string{"a", "http://169.254.169.254/latest"}, 1<<20); len(got) != 1 || got[0].Line != 0 || got[0].Type != "metadata_access" {
		t.Errorf("%+v", got)
	}
}

// Eight times the text takes about eight times as long, for texts made to be slow, of
// which both are long programs.
func TestTimeIsLinear(t *testing.T) {
	for _, piece := range []string{"socket os.dup2(", "/*", "'", "rm -rf ", "os.system('", "a(){a|a ", "for x in range(9): connect_ex", "fsockopen"} {
		cost := func(n int) time.Duration {
			text := strings.Repeat(piece, n)
			least := time.Hour
			for range 3 { // the collector may work meanwhile
				began := processorTime(t)
				for _, language := range []string{"py", "bash", "php"} {
					scan(language, text, nil, 1<<20)
				}
				least = min(least, processorTime(t)-began)
			}
			return least
		}
		n := 1 + longProgram/len(piece)
		if small, large := cost(n), cost(8*n); large > 40*small {
			t.Errorf("%q: %v, eight times as much %v", piece, small, large)
		}
	}
}

// processorTime is what the process has used: the machine may be busy with others.
func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func FuzzScan(f *testing.F) {
	for _, s := range append(corpus(f, "hostile.txt", true), corpus(f, "ordinary-other.txt", false)[:50]...) {
		f.Add(s.language, s.code)
	}
	c := plain(f)
	f.Fuzz(func(t *testing.T, language, code string) {
		if s := lex(language, code); len(s.text) != len(code) || strings.Count(s.text, "\n") != strings.Count(code, "\n") {
			t.Fatalf("%q became %q", code, s.text)
		}
		r := policy.Request{Language: language, Code: code, Args: []string{code}}
		v, m := c.admit(r), c.result(policy.Outcome{Request: r})
		if err := v.Validate(); err != nil {
			t.Fatalf("%q: %v", code, err)
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("%q: %v", code, err)
		}
	})
}
