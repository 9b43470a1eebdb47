package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Sandboxes that are deleted behind the servers' back are replaced once each, however
// many ask for them at the same time on both.
func TestVanishedSandboxesAreReplacedOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of processes")
	}
	t.Parallel()
	for name, named := range map[string]bool{"named": true, "nameless": false} {
		t.Run(name, func(t *testing.T) {
			const sessions, uses = 20, 200
			r := newReplicas(t, named)
			for i := range r.servers {
				r.start(i)
			}
			r.ready()
			for range sessions {
				r.write(t.Context(), r.servers[0].Load(), nil, "first")
			}
			if len(r.sessions) != sessions {
				t.Fatalf("%d sessions, want %d", len(r.sessions), sessions)
			}
			for _, b := range r.provider() {
				// At one moment, as a provider does.
				if err := os.Rename(b.dir, filepath.Join(r.boxes, ".vanished-"+filepath.Base(b.dir))); err != nil {
					t.Fatal(err)
				}
			}
			replies := make([]reply, uses)
			var wg sync.WaitGroup
			for i := range uses {
				wg.Go(func() {
					s := r.servers[i%2].Load()
					body := fmt.Sprintf(`{"lang":"bash","code":"echo x >>log; cat log","session_id":%q}`, r.sessions[i/2%sessions].id)
					var err error
					if replies[i], err = s.request(t.Context(), http.MethodPost, "/v1/exec", s.key, body); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			lines := map[string]int{}
			for _, reply := range replies {
				if reply.status != http.StatusOK {
					t.Errorf("%d %s", reply.status, reply.body)
					continue
				}
				a := decode(t, reply.body)
				lines[a.SessionID] = max(lines[a.SessionID], len(a.Stdout)/len("x\n"))
			}
			boxes := map[string]int{}
			for _, b := range r.provider() {
				boxes[b.Metadata.Session]++
			}
			for _, x := range r.sessions {
				// Every run of a session saw what those before it wrote: they shared one sandbox.
				if boxes[x.id] != 1 || lines[x.id] != uses/sessions {
					t.Errorf("session %s has %d sandboxes and %d lines, want one and %d", x.id, boxes[x.id], lines[x.id], uses/sessions)
				}
			}
			if len(boxes) != sessions {
				t.Errorf("sandboxes of %d sessions, want %d", len(boxes), sessions)
			}
			for i := range r.servers {
				r.servers[i].Load().stop(t)
			}
		})
	}
}
