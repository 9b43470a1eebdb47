package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/caisson-run/caisson/sdk/backend"
)

// TestEngineStops: an engine that is down is unavailable, which proves nothing. When it
// is back the sandboxes are, with their files.
func TestEngineStops(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		w := newWire(t)
		b := one(t, way, map[string]any{"host": w.host(), "pool": 1})
		sb := mustCreate(t, b, specOf(sessionName("stops")))
		write(t, b, sb.Ref, dataFile, "kept")
		w.cut()
		await(t, "knowledge of it", func() bool { h, err := b.Health(t.Context()); return err == nil && !h.Ready })
		_, err := b.Get(t.Context(), sb.Ref)
		wantKind(t, "Get", err, backend.KindUnavailable)
		_, err = b.Connect(t.Context(), sb.Ref)
		wantKind(t, "Connect", err, backend.KindUnavailable)
		_, err = b.List(t.Context(), backend.ListFilter{Config: "c"})
		wantKind(t, "List", err, backend.KindUnavailable)
		_, err = b.Create(t.Context(), specOf(sessionName("never")))
		wantKind(t, "Create", err, backend.KindUnavailable)
		wantKind(t, "Delete", b.Delete(t.Context(), sb.Ref), backend.KindUnavailable)
		if way != "socket" { // which does not need the engine
			_, err = b.Stat(t.Context(), sb.Ref, dataFile)
			wantKind(t, "Stat", err, backend.KindUnavailable)
			_, err = b.Run(t.Context(), bash(sb.Ref, "true"), &live{})
			wantKind(t, "Run", err, backend.KindUnavailable)
		}
		if err != nil && (backend.ProvesGone(err) || strings.Contains(err.Error(), w.path)) {
			t.Errorf("the error says too much: %v", err)
		}
		w.mend()
		await(t, "engine again", func() bool { h, err := b.Health(t.Context()); return err == nil && h.Ready })
		if _, err := b.Connect(t.Context(), sb.Ref); err != nil {
			t.Fatal(err)
		}
		if got := read(t, b, sb.Ref, dataFile); got != "kept" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// TestEngineStopsDuringRun: whatever becomes of the run, it has a typed end in time, and
// the sandbox is there afterwards.
func TestEngineStopsDuringRun(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		w := newWire(t)
		b := one(t, way, map[string]any{"host": w.host()})
		sb := mustCreate(t, b, specOf(sessionName("midrun")))
		l := &live{}
		printed := make(chan struct{})
		l.onStdout = func(all string) {
			if all == "begun\n" {
				close(printed)
			}
		}
		spec := bash(sb.Ref, "echo begun; sleep 3; echo ended")
		spec.Limits.Wall = 20 * time.Second
		cut := make(chan struct{})
		go func() {
			defer close(cut)
			<-printed
			w.cut()
		}()
		res, err := b.Run(context.Background(), spec, l)
		if way == "socket" {
			if err != nil || res.Stop != backend.StopExit {
				t.Errorf("a run that does not need the engine: %+v, %v", res, err)
			}
		} else if err == nil && res.Stop != backend.StopLost && res.Stop != backend.StopTimeout || err != nil && backend.ProvesGone(err) {
			t.Errorf("got %+v, %v", res, err)
		}
		if err == nil && res.StdoutBytes < int64(l.stdout.Len()) {
			t.Errorf("%d bytes of output came, %d are counted", l.stdout.Len(), res.StdoutBytes)
		}
		if l.started != 1 || !strings.HasPrefix(l.stdout.String(), "begun\n") {
			t.Fatalf("started %d, stdout %q", l.started, l.stdout.String())
		}
		<-cut
		w.mend()
		await(t, "sandbox again", func() bool { _, err := b.Connect(t.Context(), sb.Ref); return err == nil })
		await(t, "run again", func() bool {
			l := &live{}
			res, err := b.Run(t.Context(), bash(sb.Ref, "echo on"), l)
			return err == nil && res.Stop == backend.StopExit && l.stdout.String() == "on\n"
		})
	})
}

// TestContainerVanishes: one that somebody removed is proven to be gone, one that
// somebody stopped during a run is not.
func TestContainerVanishes(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		b := one(t, way, nil)
		sb := mustCreate(t, b, specOf(sessionName("vanish")))
		id := inspect(t, cl, sb.ID).ID
		l := &live{}
		l.onStdout = func(string) { _ = cl.ContainerKill(context.Background(), id, "KILL") }
		res, err := b.Run(context.Background(), bash(sb.Ref, "echo begun; sleep 30"), l)
		if err != nil || res.Stop != backend.StopLost {
			t.Errorf("a run in a container that was killed: %+v, %v", res, err)
		}
		if res.StdoutBytes < int64(l.stdout.Len()) || l.stdout.Len() == 0 {
			t.Errorf("%d bytes of output came, %d are counted", l.stdout.Len(), res.StdoutBytes)
		}
		if got, err := b.Get(t.Context(), sb.Ref); err != nil || got.State != backend.StatePaused {
			t.Errorf("after that: %+v, %v", got, err)
		}
		if _, err := b.Connect(t.Context(), sb.Ref); err != nil {
			t.Fatal(err)
		}
		if err := cl.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		await(t, "proof", func() bool {
			_, err := b.Run(t.Context(), bash(sb.Ref, "true"), &live{})
			return backend.ProvesGone(err)
		})
		if _, err := b.Get(t.Context(), sb.Ref); !backend.ProvesGone(err) {
			t.Errorf("Get: %v", err)
		}
		if err := b.Delete(t.Context(), sb.Ref); err != nil {
			t.Errorf("Delete: %v", err)
		}
	})
}

// TestRefusals: what an engine refuses has the right kind and leaves nothing.
func TestRefusals(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	for name, c := range map[string]struct {
		change  map[string]any
		kind    backend.Kind
		subject backend.Subject
	}{
		"no image":          {map[string]any{"image": "caisson/nothing:test"}, backend.KindNotFound, backend.SubjectTemplate},
		"no such runtime":   {map[string]any{"runtime": "nothing"}, backend.KindInvalidRequest, backend.SubjectConfig},
		"no engine":         {map[string]any{"host": "unix:///nowhere.sock"}, backend.KindUnavailable, backend.SubjectSandbox},
		"no bounds to disk": {map[string]any{"disk_mib": 100}, backend.KindUnsupported, backend.SubjectSandbox},
	} {
		b := one(t, "off", c.change)
		sb, err := b.Create(t.Context(), specOf(sessionName("refused")))
		if err == nil {
			_ = b.Delete(t.Context(), sb.Ref)
		}
		wantKind(t, name, err, c.kind)
		var e *backend.Error
		if !asError(err, &e) || e.Subject != c.subject || backend.ProvesGone(err) {
			t.Errorf("%s: %v about %q", name, err, e.Subject)
		}
	}
}

// TestNameTaken: a container of somebody else's under a sandbox's name is in the way,
// and stays.
func TestNameTaken(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	b := one(t, "off", nil)
	sb := mustCreate(t, b, specOf(sessionName("name")))
	name := inspect(t, cl, sb.ID).Name
	if err := b.Delete(t.Context(), sb.Ref); err != nil {
		t.Fatal(err)
	}
	taken, err := cl.ContainerCreate(t.Context(), &container.Config{Image: testImage(), Cmd: []string{"true"}}, nil, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.ContainerRemove(context.Background(), taken.ID, container.RemoveOptions{Force: true})
	_, err = b.Create(t.Context(), specOf(sb.ID))
	wantKind(t, "Create", err, backend.KindConflict)
	if _, err := b.Get(t.Context(), sb.Ref); !backend.ProvesGone(err) {
		t.Errorf("Get: %v", err)
	}
	if err := b.Delete(t.Context(), sb.Ref); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if _, err := cl.ContainerInspect(t.Context(), taken.ID); err != nil {
		t.Errorf("somebody else's container was removed: %v", err)
	}
}
