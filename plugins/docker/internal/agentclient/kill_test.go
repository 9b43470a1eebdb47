package agentclient_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/sdk/backend"
)

// late is how long after its deadline a run may be answered. The machine that runs tests
// may be busy: the bound of the contract is tighter, and what is measured is printed. What
// is not ended goes on for 1000 seconds.
const late = time.Minute

// TestKilling: whatever a program does, its end is answered at the deadline, and nothing
// of it is left.
func TestKilling(t *testing.T) {
	b, c := sandbox(t, options{})
	for name, text := range map[string]string{
		"ignores SIGTERM":        `trap '' TERM INT HUP QUIT; while :; do sleep 0.1; done`,
		"forks":                  `for i in 1 2 3 4 5; do sleep 1000 & done; wait`,
		"double forks":           `(sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000`,
		"a session of its own":   `setsid sleep 1000 & setsid sh -c 'trap "" TERM; sleep 1000' & wait`,
		"holds stdout elsewhere": `setsid sh -c 'exec 3>&1; sleep 1000' & sleep 1000`,
		"stops itself":           `kill -STOP $$`,
		"forks for ever":         `f() { while :; do (exit 0) & done; }; f & f & wait; sleep 1000`,
		"kills what it can":      `trap '' TERM; while :; do kill -TERM -1 2>/dev/null; sleep 0.01; done`,
		"vforks in python":       `exec python3 -c "import os,time,signal; signal.signal(15, signal.SIG_IGN); [os.fork() or (os.setsid(), time.sleep(1000)) for i in range(20)]; time.sleep(1000)"`,
	} {
		t.Run(name, func(t *testing.T) {
			var spec backend.RunSpec
			var res backend.RunResult
			var h *heard
			var took time.Duration
			for wall := 300 * time.Millisecond; wall < late && (h == nil || h.stdout.Len() == 0); wall *= 2 { // a busy machine may need longer to begin
				spec = script("echo begun; " + text)
				spec.Limits.Wall = wall
				began := time.Now()
				res, h = run(t, c, spec)
				took = time.Since(began)
			}
			if res.Stop != backend.StopTimeout || res.ExitCode != -1 || !strings.HasPrefix(h.stdout.String(), "begun\n") {
				t.Errorf("result %+v, stdout %q, stderr %q", res, h.stdout.String(), h.stderr.String())
			}
			t.Logf("answered %v after the deadline", took-spec.Limits.Wall)
			if took > spec.Limits.Wall+late {
				t.Errorf("answered after %v", took)
			}
			if left := b.left(t); left != "" {
				t.Errorf("left:\n%s", left)
			}
		})
	}
	goesOn(t, c)
}

// TestDaemonAfterTheEnd: a program that ends leaves nothing, and nobody waits for what it
// left holding its output.
func TestDaemonAfterTheEnd(t *testing.T) {
	b, c := sandbox(t, options{})
	for _, text := range []string{
		`sleep 1000 & echo done`,
		`setsid sh -c 'trap "" HUP TERM; sleep 1000' & echo done`,
		`python3 -c "
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(1000)
" ; echo done`,
	} {
		began := time.Now()
		res, h := run(t, c, script(text))
		if res.Stop != backend.StopExit || res.ExitCode != 0 || h.stdout.String() != "done\n" || time.Since(began) > late {
			t.Errorf("%q: %+v, stdout %q after %v", text, res, h.stdout.String(), time.Since(began))
		}
		if left := b.left(t); left != "" {
			t.Errorf("%q left:\n%s", text, left)
		}
	}
}

// TestForkBomb: the session and its agent live on.
func TestForkBomb(t *testing.T) {
	b, c := sandbox(t, options{pids: agentclient.MinPids})
	for range 3 {
		spec := script(`f() { f | f & f; }; f; sleep 1000`)
		spec.Limits.Wall = time.Second
		res, _ := run(t, c, spec)
		if res.Stop != backend.StopTimeout && res.Stop != backend.StopExit {
			t.Errorf("result %+v", res)
		}
		if left := b.left(t); left != "" {
			t.Errorf("left:\n%s", left)
		}
		goesOn(t, c)
	}
	counts := `exec python3 -c "
import os, time
n = 0
while True:
    try:
        if os.fork() == 0: time.sleep(1000)
        n += 1
    except OSError: break
print(n, flush=True)
time.sleep(1000)"`
	var res backend.RunResult
	var h *heard
	for wall := 3 * time.Second; wall < late && (h == nil || h.stdout.Len() == 0); wall *= 2 {
		spec := script(counts)
		spec.Limits.Wall, spec.Limits.Processes = wall, 10
		res, h = run(t, c, spec)
	}
	if res.Stop != backend.StopTimeout || strings.TrimSpace(h.stdout.String()) != "9" {
		t.Errorf("a limit of 10 processes: %+v, %q more were made", res, h.stdout.String())
	}
	goesOn(t, c)
}

// TestForkBombsBeside: programs of several users use up all that the container may have
// of processes, and the agent lives, and ends them.
func TestForkBombsBeside(t *testing.T) {
	b, c := sandbox(t, options{pids: 96})
	ctx := t.Context()
	started := c.Agent().Started
	bomb := `f() { while :; do f & done; }; f & f & f & sleep 1000`
	var ids []string
	for range 3 {
		spec := script(bomb)
		if err := c.StartRun(ctx, backend.DetachedStart{RunSpec: spec}, &heard{}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, spec.RunID)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for range 10 {
				name := data(fmt.Sprint("f", i))
				if _, err := c.WriteFile(ctx, name, backend.WriteOptions{}, strings.NewReader(name)); err != nil {
					t.Errorf("WriteFile: %v", err)
				}
				_, _ = c.Exec(ctx, backend.ExecRequest{Ref: ref(), Argv: []string{"true"}}) // there may be no room
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if err := c.KillRun(ctx, id); err != nil {
			t.Errorf("KillRun: %v", err)
		}
	}
	eventually(func() bool { n, err := c.Busy(ctx); return n == 0 && err == nil })
	goesOn(t, c)
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	if got := c.Agent().Started; !got.Equal(started) {
		t.Error("the agent was started again")
	}
}

// TestStrikingBack: a program that signals every thread of the agent while it is being
// ended does not hit the one that does it.
func TestStrikingBack(t *testing.T) {
	b, c := sandbox(t, options{})
	started := c.Agent().Started
	for range 15 {
		spec := script(`exec python3 -c "
import os, signal
for i in range(3): os.fork()
while True:
    for p in os.listdir('/proc'):
        if not p.isdigit(): continue
        try:
            if os.stat('/proc/' + p).st_uid == os.getuid(): continue
            tids = [int(t) for t in os.listdir('/proc/' + p + '/task')]
        except OSError: continue
        for n in range(50):
            for t in tids:
                try: os.kill(t, signal.SIGKILL)
                except OSError: pass
"`)
		spec.Limits.Wall = 250 * time.Millisecond
		if res, h := run(t, c, spec); res.Stop != backend.StopTimeout {
			t.Errorf("stop %q, status %d, stderr %q", res.Stop, res.ExitCode, h.stderr.String())
		}
	}
	goesOn(t, c)
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	if got := c.Agent().Started; !got.Equal(started) {
		t.Error("the agent was killed")
	}
}

// TestMemoryBomb: the kernel ends the program, not the agent, and it is said why.
func TestMemoryBomb(t *testing.T) {
	_, c := sandbox(t, options{memory: 96 << 20})
	started := c.Agent().Started
	for _, text := range []string{
		`exec python3 -c "x = []
while True: x.append(bytearray(1 << 20))"`,
		`python3 -c "x = []
while True: x.append(bytearray(1 << 20))"; exit $?`,
	} {
		res, h := run(t, c, script(text))
		if res.Stop != backend.StopMemory || res.ExitCode != -1 {
			t.Errorf("result %+v, stderr %q", res, h.stderr.String())
		}
		goesOn(t, c)
	}
	spec := script(`exec python3 -c "
import time
x = bytearray(40 << 20)
time.sleep(10)"`)
	spec.Limits.MemoryBytes = 20 << 20
	if res, _ := run(t, c, spec); res.Stop != backend.StopMemory {
		t.Errorf("a limit of its own: %+v", res)
	}
	goesOn(t, c)
	if got := c.Agent().Started; !got.Equal(started) {
		t.Error("the agent was started again")
	}
}

// TestDiskFiller: a full disk is the program's problem.
func TestDiskFiller(t *testing.T) {
	_, c := sandbox(t, options{tmpfs: "rw,size=8m,mode=0775"})
	res, h := run(t, c, script(`cat /dev/zero > big`))
	if res.Stop != backend.StopDisk || res.ExitCode <= 0 || !strings.Contains(res.Message, "disk") {
		t.Errorf("result %+v, stderr %q", res, h.stderr.String())
	}
	if err := c.Remove(t.Context(), backend.DataDir+"/big"); err != nil {
		t.Error(err)
	}
	goesOn(t, c)
	spec := script(`cat /dev/zero > big`)
	spec.Limits.DiskBytes = 1 << 20
	if res, _ := run(t, c, spec); res.Stop != backend.StopDisk || res.ExitCode != 128+25 {
		t.Errorf("a limit of its own: %+v", res)
	}
	spec = script(`for i in 1 2 3 4 5; do head -c 500000 /dev/zero > f$i; done; sleep 1000`)
	spec.Limits.DiskBytes = 1 << 20
	if res, _ := run(t, c, spec); res.Stop != backend.StopDisk || res.ExitCode != -1 {
		t.Errorf("files that are each within the limit: %+v", res)
	}
	goesOn(t, c)
}

// TestCPULimit: processor time of all processes counts together.
func TestCPULimit(t *testing.T) {
	_, c := sandbox(t, options{})
	for _, text := range []string{
		`while :; do :; done`,
		`while :; do :; done & while :; do :; done & wait`,
		`while :; do sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'; done`,
	} {
		spec := script(text)
		spec.Limits.CPU = 400 * time.Millisecond
		res, _ := run(t, c, spec)
		if res.Stop != backend.StopCPU || res.Usage.CPU < 300*time.Millisecond || res.Usage.CPU > 3*time.Second {
			t.Errorf("%q: %+v", text, res)
		}
	}
}

// TestOutputFlood: output beyond the caps is counted, and too much of it ends the run.
func TestOutputFlood(t *testing.T) {
	_, c := sandbox(t, options{})
	spec := script(`head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo after > f`)
	spec.Limits.StdoutBytes, spec.Limits.StderrBytes = 1000, 2000
	res, h := run(t, c, spec)
	if res.Stop != backend.StopExit || h.stdout.Len() != 1000 || res.StdoutBytes != 5_000_000 || !res.StdoutTruncated || h.stderr.Len() != 2000 || res.StderrBytes != 3_000_000 || len(res.Changed) != 1 {
		t.Errorf("result %+v, %d and %d bytes came", res, h.stdout.Len(), h.stderr.Len())
	}
	if testing.Short() {
		return
	}
	spec = script(`cat /dev/zero`)
	spec.Limits.Wall = time.Minute
	if res, _ := run(t, c, spec); res.Stop != backend.StopOutput && res.Stop != backend.StopTimeout {
		t.Errorf("an endless flood: %+v", res)
	}
	goesOn(t, c)
}

// TestCancel: who cancels gets what there was.
func TestCancel(t *testing.T) {
	b, c := sandbox(t, options{})
	ctx, cancel := context.WithCancel(t.Context())
	h := &heard{onOut: func(string) error { cancel(); return nil }}
	spec := script(`echo begun; echo x > partial; trap '' TERM; sleep 1000`)
	res, err := c.Run(ctx, spec, h)
	if err != nil || res.Stop != backend.StopCanceled || h.stdout.String() != "begun\n" {
		t.Errorf("Run = %+v, %v, stdout %q", res, err, h.stdout.String())
	}
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	goesOn(t, c)
}
