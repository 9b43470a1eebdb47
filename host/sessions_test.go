package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/sdk/backend"
)

// sharedEngine is a memory that says replicas share it.
type sharedEngine struct{ binding.Engine }

func (e sharedEngine) Check(ctx context.Context) (binding.Report, error) {
	r, err := e.Engine.Check(ctx)
	r.Kind, r.Shared = "shared", true
	return r, err
}

func storeOn(t *testing.T, e binding.Engine) *binding.Store {
	t.Helper()
	s, err := binding.New(e, binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// existing knows every session.
type existing struct{}

func (existing) SessionExists(context.Context, binding.Key) (bool, error) { return true, nil }

func TestReplicasNeedSandboxesThatAllReach(t *testing.T) {
	for _, tt := range []struct {
		name    string
		caps    []backend.Capability
		change  func(*Options)
		fails   string
		managed bool
	}{
		{name: "one process", change: func(o *Options) { o.Sessions.Store = nil }, managed: true},
		{name: "sandboxes of one machine", fails: "its sandboxes live on this machine"},
		{name: "with peers", change: func(o *Options) { o.Node, o.Sessions.Peers = "a", map[string]string{"b": "http://b"} }},
		{name: "peers without a name", change: func(o *Options) { o.Sessions.Peers = map[string]string{"b": "http://b"} }, fails: "this node has no name"},
		{name: "shared, nobody knows the sessions", caps: []backend.Capability{backend.CapShared}},
		{name: "shared, and somebody does", caps: []backend.Capability{backend.CapShared}, change: func(o *Options) { o.Sessions.Exists = existing{} }, managed: true},
		{
			name: "shared and permissive", caps: []backend.Capability{backend.CapShared},
			change: func(o *Options) { o.Sessions.Exists = session.AlwaysExists{} }, fails: "Exists has to ask",
		},
		{
			name: "a store that is down", change: func(o *Options) {
				o.Sessions.Store = storeOn(t, &bindingtest.Faulty{Engine: memory.NewEngine(memory.Options{}), Before: func(context.Context, string) error {
					return &binding.Error{Reason: binding.Down, Err: errors.New("refused")}
				}})
			}, fails: "session store",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.install("fake", strings.Replace(fakeManifest, "[list]", "[list, shared]", 1), self(t), 0o755)
			f.instruct(script{Name: "fake", Version: "1.2.3", Capabilities: tt.caps})
			o := f.options()
			o.Sessions.Store = storeOn(t, sharedEngine{memory.NewEngine(memory.Options{})})
			if tt.change != nil {
				tt.change(&o)
			}
			h, err := Open(t.Context(), o)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("Open = %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			resolver, err := h.Managed()
			if (resolver != nil) != tt.managed || (err == nil) != tt.managed {
				t.Errorf("Managed = %v, %v; want %v", resolver, err, tt.managed)
			}
			if resolver != nil {
				if m, err := resolver.Resolve(t.Context(), "acme", ""); err != nil || m.Config() != "fake" {
					t.Errorf("Resolve = %v, %v", m, err)
				}
				if _, err := resolver.Resolve(t.Context(), "acme", "nope"); !errors.Is(err, session.ErrConfigNotFound) {
					t.Errorf("Resolve of no config = %v", err)
				}
			}
			if err := h.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
