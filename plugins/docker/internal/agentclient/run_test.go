package agentclient_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestRun(t *testing.T) {
	_, c := sandbox(t, options{})
	a := c.Agent()
	if a.Build != build || a.Bounding != 0 || a.Caps != 0xe0 || !a.NoNewPrivs || a.Seccomp != 2 {
		t.Errorf("the agent is %+v", a)
	}
	spec := script("echo hello; echo oops >&2; pwd; echo made > made.txt; id -u; id -G; umask; grep -E 'Cap|NoNew' /proc/self/status; exit 4")
	res, h := run(t, c, spec)
	if lines := strings.Split(h.stdout.String(), "\n"); len(lines) < 5 || lines[2] != strconv.Itoa(a.UID) || lines[3] != strconv.Itoa(a.GID) || lines[4] != "0002" {
		t.Errorf("a program's user, groups and umask are not %d, %d and 0002: %q", a.UID, a.GID, lines)
	}
	if res.Stop != backend.StopExit || res.ExitCode != 4 || h.stderr.String() != "oops\n" || !strings.HasPrefix(h.stdout.String(), "hello\n/mnt/data\n") {
		t.Errorf("result %+v, stdout %q, stderr %q", res, h.stdout.String(), h.stderr.String())
	}
	if len(res.Changed) != 1 || res.Changed[0].Path != "/mnt/data/made.txt" || res.Changed[0].Size != 5 {
		t.Errorf("changed %+v", res.Changed)
	}
	for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(h.stdout.String(), want) {
			t.Errorf("a program's status lacks %q:\n%s", want, h.stdout.String())
		}
	}
	if res.Usage.CPU <= 0 || res.Usage.CPU > 5*time.Second || res.Usage.PeakMemoryBytes < 1<<20 || res.Usage.Wall <= 0 {
		t.Errorf("usage %+v", res.Usage)
	}
	goesOn(t, c)
}

// TestEnvironment: programs see what the container and the request say, and nothing of
// the agent.
func TestEnvironment(t *testing.T) {
	_, c := sandbox(t, options{})
	spec := script("env | sort; whoami; ls -l /proc/self/fd | wc -l; cat; ulimit -c; ps -o ni= -p $$ 2>/dev/null | tr -d ' '")
	spec.Env = map[string]string{"MINE": "a b", "DIR": "{dir}/x", "TMPDIR": "/tmp"}
	_, h := run(t, c, spec)
	lines := strings.Split(strings.TrimSpace(h.stdout.String()), "\n")
	env := make(map[string]string)
	rest := []string{}
	for _, l := range lines {
		if name, value, ok := strings.Cut(l, "="); ok {
			env[name] = value
		} else {
			rest = append(rest, l)
		}
	}
	if env["MINE"] != "a b" || env["HOME"] != "/tmp" || !strings.HasPrefix(env["USER"], "caisson") || env["PATH"] == "" || !strings.HasPrefix(env["DIR"], "/.caisson/run/") {
		t.Errorf("the environment is %q", env)
	}
	for name := range env {
		if strings.HasPrefix(name, "GO") {
			t.Errorf("a program sees %s", name)
		}
	}
	if len(rest) < 3 || rest[0] != env["USER"] || rest[1] != "5" || rest[2] != "0" { // a total, 0, 1, 2 and the directory itself
		t.Errorf("the rest is %q", rest)
	}
}
