package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caisson-run/caisson/host"
)

// nextVersion is a plugin as `make build` wrote it, in another directory.
func nextVersion(t *testing.T, name string) string {
	t.Helper()
	from, to := filepath.Join(plugins, name), t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() { // packs: too large to copy
			err = os.Symlink(src, dst)
		} else {
			var b []byte
			if b, err = os.ReadFile(src); err == nil {
				err = os.WriteFile(dst, b, 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// Under load, ten swaps of the default backend and ten of a policy cost no
// request and no session.
func TestSwapsUnderLoad(t *testing.T) {
	swaps := 10
	if raceDetector {
		swaps = 2
	}
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0", "CODE_EXEC_API_KEY="+testKey)
	s := p.serve(t).ready(t)
	kept := s.python(t, "open('kept.txt','w').write('here')")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	var done atomic.Int64
	for i := range 32 {
		workers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				want := fmt.Sprint(i*1000000 + n)
				r, err := s.request(context.WithoutCancel(ctx), http.MethodPost, "/v1/exec", s.key, program("print("+want+")"))
				if err != nil || r.status != http.StatusOK || !strings.Contains(r.body, `"stdout":"`+want+`\n"`) {
					t.Errorf("request failed: %v, %+v", err, r)
					return
				}
				done.Add(1)
			}
		})
	}
	for i := range swaps {
		for _, name := range []string{"wasm", "limits"} {
			out := p.run(t, "", append(p.flags("plugin", "swap", "--json", "--watch", "200ms"), name, nextVersion(t, name))...)
			var r host.SwapReport
			if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || out.code != 0 || r.Outcome != host.SwapDone {
				t.Fatalf("swap %d of %s: %v, %+v", i, name, err, out)
			}
			if i == swaps-1 {
				t.Logf("%s: ready after %v, drained in %v, %d in flight", name, r.Prepare, r.Drain, r.InFlight)
			}
		}
	}
	cancel()
	workers.Wait()
	body, err := json.Marshal(map[string]string{"lang": "py", "code": "print(open('kept.txt').read())", "session_id": kept.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.must(t, http.MethodPost, "/v1/exec", s.key, string(body)); r.status != http.StatusOK || decode(t, r.body).Stdout != "here\n" {
		t.Errorf("the session was lost: %+v", r)
	}
	t.Logf("%d requests", done.Load())
	s.stop(t)
}
