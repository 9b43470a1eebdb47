// Package backendtest is the conformance kit of backends: every rule of the
// contract in package backend as a test that any backend can run, ours and
// theirs, in process or over the real process boundary.
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, backendtest.Harness{
//			New:   func(t *testing.T) (backend.Backend, json.RawMessage) { return New(t.TempDir()), []byte("{}") },
//			Probe: backendtest.Python("python3"),
//		})
//	}
//
// What a backend can do is seen by a small program, the probe, which exists in
// the languages that backends commonly offer. The kit reads the declared
// capabilities: what is not declared must be refused, what is declared must work.
// It knows nothing of any provider, and it is no benchmark and no load test.
package backendtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Harness is what the kit needs to know of a backend.
type Harness struct {
	// New returns the backend and a config that it accepts. It is called once per
	// Run. Whatever ends the backend is registered with t.Cleanup.
	New func(t *testing.T) (backend.Backend, json.RawMessage)
	// Probe is the program that looks at sandboxes from within, in a language
	// that the backend runs.
	Probe Probe
	// BadConfig is a config that the backend refuses; nil leaves that out.
	BadConfig json.RawMessage
	// Lacks is what the backend's manifest says that it lacks.
	Lacks []Lack
	// Skip names tests that do not apply, by their path below Run, for example
	// "files/links", each with the reason, which is logged. A name that is no test
	// is an error.
	Skip map[string]string
	// Patience is how long something that takes a moment may take. It bounds
	// waiting, nothing is measured by it. Default 30 s.
	Patience time.Duration
	// ShortRun is a wall limit within which the probe starts and does something, and for
	// which tests can wait; where a machine is busy they try longer ones. Default 2 s.
	ShortRun time.Duration
}

// Run runs the kit as subtests of t.
func Run(t *testing.T, h Harness) {
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	if h.ShortRun == 0 {
		h.ShortRun = 2 * time.Second
	}
	before := goleak.IgnoreCurrent()
	t.Run("backend", func(t *testing.T) {
		b, config := h.New(t)
		k := &kit{Harness: h, b: b, config: config, configID: "conformance"}
		var err error
		if k.info, err = b.Info(t.Context()); err != nil {
			t.Fatalf("Info: %v", err)
		}
		k.await(t, "readiness", func() bool {
			health, err := b.Health(t.Context())
			return err == nil && health.Ready
		})
		if err := b.OpenConfig(t.Context(), k.configID, config); err != nil {
			t.Fatalf("OpenConfig: %v", err)
		}
		k.all(t)
	})
	// The backend is closed by now.
	if err := goleak.Find(before); err != nil && h.Skip["leaks"] == "" {
		t.Errorf("goroutines are left: %v", err)
	}
}

// check is one test of the kit.
type check struct {
	name string
	run  func(t *testing.T)
}

// all runs every check by group.
func (k *kit) all(t *testing.T) {
	groups := []struct {
		name   string
		checks []check
	}{
		{"info", k.infoChecks()},
		{"config", k.configChecks()},
		{"lifecycle", k.lifecycleChecks()},
		{"files", k.fileChecks()},
		{"tree", k.treeChecks()},
		{"refused", k.refusedChecks()},
		{"run", k.runChecks()},
		{"inputs", k.inputChecks()},
		{"changes", k.changeChecks()},
		{"stop", k.stopChecks()},
		{"exec", k.execChecks()},
		{"context", k.contextChecks()},
		{"control", k.controlChecks()},
		{"optional", k.optionalChecks()},
	}
	for _, l := range k.Lacks {
		if lacks[l] == "" {
			t.Errorf("Lacks names %q, which nothing in this kit depends on", l)
		}
	}
	stale := maps.Clone(k.Skip)
	delete(stale, "leaks")
	for _, g := range groups {
		for _, c := range g.checks {
			delete(stale, g.name+"/"+c.name)
		}
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.checks {
				t.Run(c.name, func(t *testing.T) {
					if why := k.Skip[g.name+"/"+c.name]; why != "" {
						t.Skip(why)
					}
					c.run(t)
				})
			}
		})
	}
	for name := range stale {
		t.Errorf("Skip names %q, which is no test of this kit", name)
	}
}

// kit is one run of the kit.
type kit struct {
	Harness
	b        backend.Backend
	info     backend.Info
	config   json.RawMessage
	configID string
	unique   atomic.Int64
}

// session returns a session id that nobody has.
func (k *kit) session() string {
	return fmt.Sprintf("kit-%d-%d", time.Now().UnixNano(), k.unique.Add(1))
}

func (k *kit) createSpec() backend.CreateSpec {
	s := k.session()
	return backend.CreateSpec{
		Config: k.configID, Session: s,
		Metadata: backend.Metadata{
			Deployment: "kit", Config: k.configID, Session: s, Tenant: "tenant", User: "user", Origin: "exec",
			Labels: map[string]string{"purpose": "conformance"},
		},
	}
}

// sandbox makes a sandbox that ends with the test.
func (k *kit) sandbox(t *testing.T) backend.Ref {
	t.Helper()
	return k.create(t, k.createSpec()).Ref
}

func (k *kit) create(t *testing.T, spec backend.CreateSpec) backend.Sandbox {
	t.Helper()
	sb, err := k.b.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := k.b.Delete(context.Background(), sb.Ref); err != nil {
			t.Errorf("Delete: %v", err)
		}
	})
	return sb
}

// ghost addresses a sandbox that does not exist.
func (k *kit) ghost() backend.Ref {
	return backend.Ref{Config: k.configID, ID: k.session()}
}

// await waits until a condition holds.
func (k *kit) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), k.Patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no %s within %v", what, k.Patience)
		}
	}
}

// within runs f and fails when it does not return in time. So f, which may return
// when the test is over, leaves what it found to be looked at behind within.
func (k *kit) within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(k.Patience):
		t.Fatalf("%s did not return within %v", what, k.Patience)
	}
}

// wantKind checks an error's kind, and that it proves nothing unless it may.
func wantKind(t *testing.T, what string, err error, kinds ...backend.Kind) {
	t.Helper()
	if err == nil {
		t.Errorf("%s succeeded, want one of %q", what, kinds)
		return
	}
	if !slices.Contains(kinds, backend.KindOf(err)) {
		t.Errorf("%s: kind %q (%v), want one of %q", what, backend.KindOf(err), err, kinds)
	}
}

// wantFileError checks an error about a file of a sandbox that exists.
func wantFileError(t *testing.T, what string, err error, kinds ...backend.Kind) {
	t.Helper()
	wantKind(t, what, err, kinds...)
	wantNoProof(t, what, err)
}

// wantNoProof checks that nobody would replace a sandbox because of err.
func wantNoProof(t *testing.T, what string, err error) {
	t.Helper()
	if backend.ProvesGone(err) {
		t.Errorf("%s: the error claims that the sandbox is gone: %v", what, err)
	}
}

// wantGone checks the proof that a sandbox does not exist.
func wantGone(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s of an absent sandbox succeeded", what)
	case !backend.ProvesGone(err):
		t.Errorf("%s of an absent sandbox: %v does not prove that it is gone: want kind not_found or terminal, subject sandbox, plane control", what, err)
	}
}

func show(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%q… (%d bytes)", s[:200], len(s))
	}
	return fmt.Sprintf("%q", s)
}

func data(segments ...string) string { return backend.DataDir + "/" + strings.Join(segments, "/") }
