package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/starts"
	"github.com/caisson-run/caisson/internal/enginetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestStarts: functions start sandboxes from a snapshot on real backends: the work
// begins, sees its environment and nothing of the caller's, outlives whoever asked,
// and takes its sandbox with it when it ends or its time is up.
func TestStarts(t *testing.T) {
	need(t)
	backends := map[string]host.BackendConfig{"wasm": {Plugin: "wasm"}}
	if image := os.Getenv("CAISSON_TEST_DOCKER_IMAGE"); image != "" && os.Getenv("CAISSON_TEST_DOCKER_HOST") != "" {
		config, err := json.Marshal(map[string]any{"enabled": true, "host": os.Getenv("CAISSON_TEST_DOCKER_HOST"), "image": image, "pool": 0})
		if err != nil {
			t.Fatal(err)
		}
		backends["docker"] = host.BackendConfig{Plugin: "docker", Config: config}
	}
	for name, config := range backends {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			if name == "docker" {
				t.Cleanup(func() {
					if _, err := enginetest.Remove(os.Getenv("CAISSON_TEST_DOCKER_HOST"), data); err != nil {
						t.Error(err)
					}
				})
			}
			testStarts(t, config, data)
		})
	}
}

func testStarts(t *testing.T, config host.BackendConfig, data string) {
	keys, err := identity.NewKeys([]byte("a deployment secret of the tests"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(t.Context(), host.Options{
		Platform:   host.Platform{Billing: host.Free},
		Config:     host.Config{Backends: []host.BackendConfig{config}, Languages: []string{"languages"}},
		PluginDirs: []string{plugins}, DataDir: data, CacheDir: cache, Keys: keys, Deployment: "starts-" + fmt.Sprint(time.Now().UnixNano()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	snapshot := snapshotOf(t, h, `echo "$WHO|${CALLER-unset}|$(cat given.txt)" >seen.txt; while [ ! -e stop ] && [ -z "$SHORT" ]; do sleep 0.1; done
`)
	live := func() int {
		all, err := h.Sessions().List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := live(); n != 0 {
		t.Fatalf("%d sandboxes before anything was started", n)
	}
	service, err := h.Starts(starts.Options{TTL: time.Minute, PerInvocation: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	t.Setenv("CALLER", "secret") // of this process: no business of the work's
	ctx, leave := context.WithCancel(t.Context())
	invocation := service.Invoke("function")
	id, err := invocation.Start(ctx, "acme", fmt.Appendf(nil, `{"snapshot":%q,"env":{"WHO":"it"},"labels":{"mine":"x"}}`, snapshot))
	leave() // whoever asked is gone
	if err != nil {
		t.Fatal(err)
	}
	owner := session.Owner{Tenant: "acme"}
	seen := func() string {
		x, err := h.Sessions().Lookup(t.Context(), owner, id)
		if err != nil {
			t.Fatalf("the session of the work: %v", err)
		}
		defer x.Release()
		if x.Sandbox.Metadata.Labels["mine"] != "x" || x.Sandbox.Metadata.Origin != string(session.OriginStart) {
			t.Fatalf("its metadata is %+v", x.Sandbox.Metadata)
		}
		r, _, err := x.Backend.ReadFile(t.Context(), x.Sandbox.Ref, backend.DataDir+"/seen.txt")
		if err != nil {
			return ""
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	eventually(t, "what the work saw", func() bool { return seen() != "" })
	if got := seen(); got != "it|unset|given\n" {
		t.Errorf("the work saw %q", got)
	}
	if _, err := h.Sessions().Lookup(t.Context(), session.Owner{Tenant: "evil"}, id); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("another organisation's look: %v", err)
	}
	// It ends: its sandbox goes with it.
	x, err := h.Sessions().Lookup(t.Context(), owner, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Backend.WriteFile(t.Context(), x.Sandbox.Ref, backend.DataDir+"/stop", backend.WriteOptions{}, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	x.Release()
	eventually(t, "the end of the work's sandbox", func() bool { return live() == 0 })

	if _, err := invocation.Start(t.Context(), "acme", fmt.Appendf(nil, `{"snapshot":%q,"env":{"SHORT":"1"}}`, snapshot)); err != nil {
		t.Fatalf("a second start: %v", err)
	}
	if _, err := invocation.Start(t.Context(), "acme", fmt.Appendf(nil, `{"snapshot":%q}`, snapshot)); !errors.Is(err, starts.ErrTooMany) {
		t.Errorf("one more than an invocation may: %v", err)
	}
	if _, err := service.Invoke("other").Start(t.Context(), "acme", []byte(`{"snapshot":"no-such-snapshot"}`)); !errors.Is(err, starts.ErrNotStarted) {
		t.Errorf("a snapshot that is none: %v", err)
	}
	if _, err := service.Invoke("other").Start(t.Context(), "", fmt.Appendf(nil, `{"snapshot":%q}`, snapshot)); !errors.Is(err, starts.ErrUnowned) {
		t.Errorf("without an organisation: %v", err)
	}
	eventually(t, "the end of all sandboxes", func() bool { return live() == 0 })
}

// snapshotOf makes a snapshot whose work is a script, with a file beside it.
func snapshotOf(t *testing.T, h *host.Host, script string) string {
	t.Helper()
	target, err := h.Sessions().Default(t.Context(), session.Owner{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Release()
	snapshots, ok := backend.Optional[backend.Snapshotter](target.Backend, target.Info)
	if !ok {
		t.Fatal("the backend makes no snapshots")
	}
	name := fmt.Sprintf("origin-%d", time.Now().UnixNano())
	sb, err := target.Backend.Create(t.Context(), backend.CreateSpec{
		Config: target.Config, Session: name,
		Metadata: backend.Metadata{Deployment: "origin", Config: target.Config, Session: name, Tenant: "acme", Origin: "exec"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{host.StartEntry: script, "given.txt": "given"} {
		if _, err := target.Backend.WriteFile(t.Context(), sb.Ref, backend.DataDir+"/"+file, backend.WriteOptions{}, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	made, err := snapshots.Snapshot(t.Context(), sb.Ref, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	config := target.Config
	t.Cleanup(func() {
		again, err := h.Target(context.Background(), config)
		if err != nil {
			t.Error(err)
			return
		}
		defer again.Release()
		if err := errors.Join(again.Backend.Delete(context.Background(), sb.Ref), snapshots.DeleteSnapshot(context.Background(), config, made.ID)); err != nil {
			t.Error(err)
		}
	})
	return made.ID
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not yet: %s", what)
		}
	}
}
