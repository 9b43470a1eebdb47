package main

import (
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestSlowPause: pausing goes on after it was answered.
func TestSlowPause(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Set(func(q *controlfake.Quirks) { q.PauseTime = 3 * time.Second })
	if err := r.Pause(t.Context(), ref); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if got := r.States()[ref.ID]; got != "paused" {
		t.Errorf("Pause returned while the sandbox was %s", got)
	}
	if err := r.Pause(t.Context(), ref); err != nil {
		t.Errorf("Pause of a paused sandbox: %v", err)
	}
	// One that is pausing is waited for before it is resumed, which would get stuck.
	if _, err := r.Connect(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	r.Park(ref.ID)
	r.Slept()
	if _, err := r.Connect(t.Context(), ref); err != nil {
		t.Errorf("Connect: %v", err)
	}
	if slept := r.Slept(); len(slept) == 0 || slices.Contains(slept, time.Second) {
		t.Errorf("it was not waited for, or was connected to too early: %v", slept)
	}
	// For ever is too long.
	r.Set(func(q *controlfake.Quirks) { q.PauseTime = time.Hour })
	remotetest.Kind(t, "Pause without an end", r.Pause(t.Context(), ref), backend.KindTimeout, false)
	_, err := r.Connect(t.Context(), ref)
	remotetest.Kind(t, "Connect without an end", err, backend.KindConflict, false)
}

// TestRelapse: a sandbox that is paused again right after it was resumed is resumed
// again, a few times, further and further apart.
func TestRelapse(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Park(ref.ID)
	r.Set(func(q *controlfake.Quirks) { q.Relapse = 2 })
	r.Slept()
	if sb, err := r.Connect(t.Context(), ref); err != nil || sb.State != backend.StateRunning {
		t.Errorf("Connect = %+v, %v", sb, err)
	}
	if got, want := r.Slept(), []time.Duration{500 * time.Millisecond, time.Second}; !slices.Equal(got, want) {
		t.Errorf("waited %v, want %v", got, want)
	}
	r.Set(func(q *controlfake.Quirks) { q.Relapse = 1 << 20 })
	_, err := r.Connect(t.Context(), ref)
	remotetest.Kind(t, "Connect of one that never stays", err, backend.KindUnavailable, false)
}

// TestIdleTTL: the timeout counts from the last activity, and a refresh for a moment's
// sake does not shorten it for good.
func TestIdleTTL(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	for _, c := range []struct{ ttl, want time.Duration }{{time.Minute, 30 * time.Minute}, {time.Hour, time.Hour}} {
		began := r.Now()
		if _, err := r.KeepAlive(t.Context(), ref, c.ttl); err != nil || r.End(ref.ID).Sub(began).Round(time.Minute) != c.want {
			t.Errorf("KeepAlive(%v): %v, %v; want %v", c.ttl, r.End(ref.ID).Sub(began), err, c.want)
		}
	}
	spec := remotetest.Spec("never")
	spec.Timeout.Mode = backend.TimeoutNever
	sb, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if ends, err := r.KeepAlive(t.Context(), sb.Ref, time.Minute); err != nil || !ends.IsZero() || !r.End(sb.ID).IsZero() {
		t.Errorf("one that never ends, ends at %v, %v", ends, err)
	}
	r.Restart() // the policy is read from its metadata
	if _, err := r.Connect(t.Context(), sb.Ref); err != nil || !r.End(sb.ID).IsZero() {
		t.Errorf("after Connect it ends at %v, %v", r.End(sb.ID), err)
	}
}

// TestDeletePaused: servers that cannot delete a paused sandbox get it resumed once.
func TestDeletePaused(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Park(ref.ID)
	r.Set(func(q *controlfake.Quirks) { q.KeepPaused = true })
	if err := r.Delete(t.Context(), ref); err != nil || len(r.States()) > 0 {
		t.Errorf("Delete: %v; left %v", err, r.States())
	}
}
