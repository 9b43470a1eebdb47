// Package remotetest is what the tests of the plugins of remote providers share: a
// provider on this machine, configs for it, and a backend whose waits move the
// provider's clock instead of passing.
package remotetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Key is the control plane's. It is looked for where it must not be.
const Key = "key_canary5d1f0c7a9b3e48d2"

// Domain is that of sandboxes.
const Domain = "sandbox.test"

// Need ends a test that cannot run for want of programs, which sandboxes of a fake
// provider share with this machine: skipped where somebody tries a package, failed
// where everything must be there.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		_, err := exec.LookPath(p)
		if err != nil && os.Getenv("CAISSON_CI") != "" {
			t.Fatal(err)
		}
		if err != nil {
			t.Skip(err)
		}
	}
}

// Stand starts a provider for one test, which fails when anything is asked of it that
// no contract allows.
func Stand(t testing.TB, provider controlfake.Provider, change ...func(*controlfake.Options)) *controlfake.Stand {
	t.Helper()
	probe, err := envdfake.New(t.TempDir(), envdfake.Options{})
	if errors.Is(err, envdfake.ErrUnable) && os.Getenv("CAISSON_CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	o := controlfake.Options{
		Provider: provider, Dir: t.TempDir(), APIKey: Key, Domain: Domain, Templates: []string{"base"},
		Violation: func(text string) { t.Errorf("violation: %s", text) },
	}
	for _, f := range change {
		f(&o)
	}
	s, err := controlfake.Listen(o, "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Config is one for a stand, with more members.
func Config(s *controlfake.Stand, more map[string]any) json.RawMessage {
	all := map[string]any{
		"api_key": Key, "template_id": "base", "api_url": s.API, "proxy_url": s.GatewayURL, "sandbox_domain": Domain, "allow_private": true,
	}
	maps.Copy(all, more)
	text, _ := json.Marshal(all) // strings and numbers always marshal
	return text
}

// Rig is a backend with the config "main" open on a stand.
type Rig struct {
	*remote.Backend
	*controlfake.Stand
	T      testing.TB
	Plugin remote.Plugin
	Raw    json.RawMessage
	// Log is what the backend logged, Slept how long it would have waited.
	Log *Buffer

	mu    sync.Mutex
	slept []time.Duration
}

// New starts a rig for a plugin, whose Name and Open are set.
func New(t testing.TB, provider controlfake.Provider, p remote.Plugin, more map[string]any, change ...func(*controlfake.Options)) *Rig {
	t.Helper()
	r := &Rig{T: t, Stand: Stand(t, provider, change...), Log: &Buffer{}}
	r.Raw = Config(r.Stand, more)
	p.Version = "0.0.0"
	p.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: r.Log})
	p.Sleep = func(ctx context.Context, d time.Duration) error {
		r.mu.Lock()
		r.slept = append(r.slept, d)
		r.mu.Unlock()
		r.Advance(d)
		return ctx.Err()
	}
	p.Now = r.Stand.Now
	r.Plugin = p
	r.Restart()
	t.Cleanup(func() {
		if err := r.Backend.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Kept is New for a plugin that keeps things in a directory of the test's.
func Kept(t testing.TB, provider controlfake.Provider, p remote.Plugin, more map[string]any, change ...func(*controlfake.Options)) *Rig {
	t.Helper()
	p.Dir = t.TempDir()
	return New(t, provider, p, more, change...)
}

// At is a fault for requests with that method and path.
func At(method, path string, f envdfake.Fault) envdfake.Fault {
	f.Method, f.Path = method, path
	return f
}

// Restart replaces the backend by another one, as after the process ended.
func (r *Rig) Restart() {
	r.T.Helper()
	if r.Backend != nil {
		if err := r.Backend.Close(); err != nil {
			r.T.Fatal(err)
		}
	}
	r.Backend = remote.New(r.Plugin)
	if err := r.OpenConfig(r.T.Context(), "main", r.Raw); err != nil {
		r.T.Fatal(err)
	}
}

// Slept returns the waits so far and forgets them.
func (r *Rig) Slept() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.slept
	r.slept = nil
	return list
}

// Spec is for a sandbox of a session.
func Spec(session string) backend.CreateSpec {
	return backend.CreateSpec{
		Config: "main", Session: session,
		Metadata: backend.Metadata{
			Deployment: "d", Config: "main", Session: session, Tenant: "tenant", Origin: "exec", Labels: map[string]string{"odd key": "a=b&c"},
		},
	}
}

// Make creates a sandbox.
func (r *Rig) Make(session string) backend.Ref {
	r.T.Helper()
	sb, err := r.Create(r.T.Context(), Spec(session))
	if err != nil {
		r.T.Fatalf("Create: %v", err)
	}
	return sb.Ref
}

// Calls are the requests since the last time, as "METHOD /path".
func (r *Rig) Calls() []string {
	var out []string
	for _, q := range r.Requests() {
		out = append(out, q.Method+" "+q.Path)
	}
	return out
}

// Said returns the body of the one request since the last time with that method and
// path.
func (r *Rig) Said(method, path string) map[string]any {
	r.T.Helper()
	all := r.Requests()
	found := slices.DeleteFunc(slices.Clone(all), func(q controlfake.Request) bool { return q.Method != method || q.Path != path })
	if len(found) != 1 {
		r.T.Fatalf("%d requests %s %s among %d", len(found), method, path, len(all))
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(found[0].Body), &body); err != nil {
		r.T.Fatal(err)
	}
	return body
}

// Kind checks an error, and whether it proves that a sandbox is gone.
func Kind(t testing.TB, what string, err error, kind backend.Kind, gone bool) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s succeeded, want %s", what, kind)
	case backend.KindOf(err) != kind || backend.ProvesGone(err) != gone:
		t.Errorf("%s: %s, proof %v (%v); want %s, %v", what, backend.KindOf(err), backend.ProvesGone(err), err, kind, gone)
	}
}

// Buffer collects text. It is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Holds reports whether the text contains one of the secrets.
func (b *Buffer) Holds(secrets ...string) bool {
	text := b.String()
	return slices.ContainsFunc(secrets, func(s string) bool { return s != "" && strings.Contains(text, s) })
}
