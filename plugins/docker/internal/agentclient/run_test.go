package agentclient_test

import (
	"strings"
	"testing"

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
	goesOn(t, c)
}
