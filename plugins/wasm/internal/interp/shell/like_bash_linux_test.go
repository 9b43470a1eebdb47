package shell

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// sections reads testdata/scripts.txt: "-- name --" and then a script.
func sections(t testing.TB) (names []string, scripts map[string]string) {
	t.Helper()
	b, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	scripts = map[string]string{}
	name := ""
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSuffix(line, " --\n"), "-- "); ok && strings.HasSuffix(line, " --\n") {
			name = n
			names = append(names, n)
			continue
		}
		scripts[name] += line
	}
	return names, scripts
}

// TestLikeBash runs scripts here and in the machine's own bash, and compares what
// they print and how they exit.
func TestLikeBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	in := newInterpreter(t, Config{})
	names, scripts := sections(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			script := scripts[name]
			for _, command := range []string{"jq", "bc", "xxd", "column"} {
				if _, err := exec.LookPath(command); err != nil && strings.Contains(script, command+" ") {
					t.Skipf("%s is not installed", command)
				}
			}
			dir, home := t.TempDir(), t.TempDir()
			if err := os.WriteFile(home+"/main.sh", []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bash, home+"/main.sh", "a b", "c")
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + home}
			var want bytes.Buffer
			cmd.Stdout = &want
			_ = cmd.Run()
			got := newSandbox(t, in).script(script, "a b", "c")
			if got.stdout != want.String() || got.Code != cmd.ProcessState.ExitCode() {
				t.Errorf("got code %d (%v)\n%s\n-- stderr:\n%s\nwant code %d\n%s", got.Code, got.Err, got.stdout, got.stderr, cmd.ProcessState.ExitCode(), want.String())
			}
		})
	}
}
