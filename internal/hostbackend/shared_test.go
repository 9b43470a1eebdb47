package hostbackend

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// A backend over shared sandboxes is one like any other.
func TestSharedConformance(t *testing.T) {
	for name, named := range map[string]bool{"named": true, "nameless": false} {
		t.Run(name, func(t *testing.T) {
			skip := map[string]string{
				"run/directory":    "programs see the machine's own paths",
				"run/program_gone": "programs see the machine's own paths",
			}
			if !named {
				skip["lifecycle/conflict"] = "without names nothing collides"
				skip["lifecycle/race"] = skip["lifecycle/conflict"]
			}
			backendtest.Run(t, backendtest.Harness{
				New: func(t *testing.T) (backend.Backend, json.RawMessage) {
					b := NewShared(t.TempDir(), Shared{Named: named})
					t.Cleanup(func() { _ = b.Close() })
					return b, json.RawMessage(`{"label":"x"}`)
				},
				Probe:     backendtest.Shell("/bin/sh"),
				BadConfig: json.RawMessage(`{"unknown":1}`),
				Skip:      skip,
			})
		})
	}
}

// Several backends over one directory see the same sandboxes, at once.
func TestSharedIsShared(t *testing.T) {
	dir := t.TempDir()
	var all []*SharedBackend
	for range 4 {
		b := NewShared(dir, Shared{Named: true, Delay: time.Millisecond})
		defer b.Close()
		if err := b.OpenConfig(t.Context(), "main", json.RawMessage(`{}`)); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	made := make([]error, 20)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			_, made[i] = all[i%len(all)].Create(t.Context(), backend.CreateSpec{
				Config: "main", Session: "s", Metadata: backend.Metadata{Config: "main", Session: "s", Tenant: "acme", Deployment: "test", Origin: "x"},
			})
		})
	}
	wg.Wait()
	winners := 0
	for _, err := range made {
		switch {
		case err == nil:
			winners++
		case backend.KindOf(err) != backend.KindConflict:
			t.Error(err)
		}
	}
	if winners != 1 {
		t.Errorf("%d made the sandbox", winners)
	}
	ref := backend.Ref{Config: "main", ID: "s"}
	for _, b := range all {
		if sb, err := b.Connect(t.Context(), ref); err != nil || sb.Metadata.Tenant != "acme" {
			t.Errorf("Connect = %+v, %v", sb, err)
		}
	}
	if err := all[0].Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		_, err := b.Get(t.Context(), ref)
		var e *backend.Error
		if !errors.As(err, &e) || !backend.ProvesGone(err) {
			t.Errorf("Get = %v, want proof that it is gone", err)
		}
	}
}
