package agentclient_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// TestFilledForEver: what a run left and a detached one goes on filling holds up neither
// the run after it nor whoever wants it removed.
func TestFilledForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: as long as the agent tries")
	}
	_, c := sandbox(t, options{})
	fill := script(`exec python3 -c "
import os
for i in range(3): os.fork()
n = 0
while True:
    n = (n + 1) % 2000
    d = '/dev/shm/p/%d.%d' % (os.getpid(), n)
    try:
        os.mkdir(d) # which takes more to remove than to make
        os.mknod(d + '/f')
    except OSError: pass
"`)
	fill.Limits.Wall, fill.Limits.CPU = 5*time.Minute, time.Hour
	if err := c.StartRun(t.Context(), backend.DetachedStart{RunSpec: fill}, &heard{}); err != nil {
		t.Fatal(err)
	}
	made := script(`mkdir -m 0777 /dev/shm/p && until [ -n "$(ls /dev/shm/p)" ]; do sleep 0.1; done`)
	if res, h := run(t, c, made); res.ExitCode != 0 {
		t.Fatalf("result %+v, stderr %q", res, h.stderr.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if res, err := c.Run(ctx, script("true"), &heard{}); err != nil || res.ExitCode != 0 {
		t.Errorf("the next run: %+v, %v", res, err)
	}
	brief, leave := context.WithTimeout(t.Context(), time.Second)
	defer leave()
	var wg sync.WaitGroup
	for range 16 { // more than the agent does at a time
		wg.Go(func() { _ = c.Remove(brief, "/dev/shm/p") })
	}
	wg.Wait()
	if _, err := c.Stat(ctx, backend.DataDir); err != nil {
		t.Errorf("after whoever wanted it removed left: %v", err)
	}
	if err := c.KillRun(t.Context(), fill.RunID); err != nil {
		t.Error(err)
	}
	goesOn(t, c)
}
