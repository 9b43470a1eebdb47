package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/caisson-run/caisson/plugins/docker/internal/sandboxes"
	"github.com/caisson-run/caisson/sdk/backend"
)

const dataFile = backend.DataDir + "/kept.txt"

// TestStoppedSandboxWakes: whatever stops a container, the files are there.
func TestStoppedSandboxWakes(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		b := one(t, way, nil)
		sb := mustCreate(t, b, specOf(sessionName("wake")))
		write(t, b, sb.Ref, dataFile, "kept")
		id := inspect(t, cl, sb.ID).ID
		for what, stop := range map[string]func() error{
			"stopped":              func() error { return cl.ContainerStop(t.Context(), id, container.StopOptions{}) },
			"killed":               func() error { return cl.ContainerKill(t.Context(), id, "KILL") },
			"paused by the engine": func() error { return cl.ContainerPause(t.Context(), id) },
			"paused":               func() error { return b.(backend.Pauser).Pause(t.Context(), sb.Ref) },
		} {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			await(t, what, func() bool {
				got, err := b.Get(t.Context(), sb.Ref)
				return err == nil && got.State == backend.StatePaused
			})
			await(t, what+" and known to be", func() bool {
				_, err := b.Stat(t.Context(), sb.Ref, dataFile)
				return backend.KindOf(err) == backend.KindConflict && !backend.ProvesGone(err)
			})
			if got, err := b.Connect(t.Context(), sb.Ref); err != nil || got.State != backend.StateRunning {
				t.Fatalf("%s: Connect: %+v, %v", what, got, err)
			}
			if got := read(t, b, sb.Ref, dataFile); got != "kept" {
				t.Errorf("%s: the file holds %q", what, got)
			}
			if res, l := run(t, b, bash(sb.Ref, "echo on; cat kept.txt")); l.stdout.String() != "on\nkept" || res.ExitCode != 0 {
				t.Errorf("%s: then a run: %+v, %q", what, res, l.stdout.String())
			}
		}
	})
}

// TestFoundAgain: another process finds the sandboxes of the first, with its own
// records and without.
func TestFoundAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		dir := shortDir(t)
		config := testConfig(t, map[string]any{"agent": way, "pool": 1})
		open := func(dir string) *sandboxes.Backend {
			b := openBackend(t, dir, way != "off", nil)
			if err := b.OpenConfig(t.Context(), "c", config); err != nil {
				t.Fatal(err)
			}
			return b
		}
		first := open(dir)
		awaitPool(t, cl, 1)
		pooled, direct := specOf(sessionName("pooled")), specOf(sessionName("direct"))
		for _, s := range []*backend.CreateSpec{&pooled, &direct} {
			s.Metadata.Labels = map[string]string{"odd": "a=b \"c\"\n"}
			s.Metadata.User = "somebody"
			s.Env = map[string]string{"OF_SANDBOX": "env"}
			s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Hour, Action: backend.TimeoutKill}
		}
		direct.Limits.MemoryBytes = 64 << 20 // nothing that waits has so little
		var made []backend.Sandbox
		for _, s := range []backend.CreateSpec{pooled, direct} {
			sb, err := first.Create(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, sb)
			write(t, first, sb.Ref, dataFile, s.Session)
		}
		if _, err := first.KeepAlive(t.Context(), made[0].Ref, 2*time.Hour); err != nil {
			t.Fatal(err)
		}
		closeBackend(t, first)
		for _, dir := range []string{dir, shortDir(t)} {
			again := open(dir)
			for i, sb := range made {
				got, err := again.Get(t.Context(), sb.Ref)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got.Metadata, sb.Metadata) || !got.Created.Equal(sb.Created) {
					t.Errorf("found %+v, made %+v", got, sb)
				}
				if i == 0 && time.Until(got.Expires) < 90*time.Minute {
					t.Errorf("kept alive, and expires %v", got.Expires)
				}
				list, err := again.List(t.Context(), backend.ListFilter{Config: "c", Tenant: "t", Labels: sb.Metadata.Labels, Session: sb.ID})
				if err != nil || len(list) != 1 {
					t.Errorf("listed %+v, %v", list, err)
				}
				if got := read(t, again, sb.Ref, dataFile); got != sb.ID {
					t.Errorf("the file holds %q", got)
				}
				if _, l := run(t, again, bash(sb.Ref, "printf %s $OF_SANDBOX")); l.stdout.String() != "env" {
					t.Errorf("the environment is %q", l.stdout.String())
				}
			}
			closeBackend(t, again)
		}
		last := open(dir)
		defer closeBackend(t, last)
		for _, sb := range made {
			if err := last.Delete(t.Context(), sb.Ref); err != nil {
				t.Error(err)
			}
		}
	})
}

// awaitPool waits until so many containers wait for a session.
func awaitPool(t testing.TB, cl *client.Client, n int) (ids []string) {
	t.Helper()
	await(t, "containers that wait", func() bool {
		ids = nil
		for id, name := range listContainers(t, cl) {
			if !strings.HasPrefix(name, "/caisson-new_") {
				continue
			}
			if got, err := cl.ContainerInspect(context.Background(), id); err == nil && got.State.Running {
				ids = append(ids, id)
			}
		}
		return len(ids) >= n
	})
	return ids
}

// TestPool: a session gets a container that waited, another takes its place, and none
// is left when the plugin ends.
func TestPool(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		before := len(listContainers(t, cl))
		b := openBackend(t, shortDir(t), way != "off", nil)
		if err := b.OpenConfig(t.Context(), "c", testConfig(t, map[string]any{"agent": way, "pool": 2})); err != nil {
			t.Fatal(err)
		}
		waiting := awaitPool(t, cl, 2)
		// The second is in the pool a moment after the engine shows it.
		sb := mustCreate(t, b, specOf(sessionName("pool")))
		id := inspect(t, cl, sb.ID).ID
		if !strings.Contains(strings.Join(waiting, " "), id) {
			t.Errorf("the session got %s, waiting were %v", id, waiting)
		}
		if res, l := run(t, b, bash(sb.Ref, "echo hello")); l.stdout.String() != "hello\n" {
			t.Errorf("%+v, %q", res, l.stdout.String())
		}
		awaitPool(t, cl, 2)
		if n := len(listContainers(t, cl)); n > before+3 {
			t.Errorf("there are %d containers more than before, want 3", n-before)
		}
		if err := b.Delete(t.Context(), sb.Ref); err != nil {
			t.Error(err)
		}
		closeBackend(t, b)
		if n := len(listContainers(t, cl)); n != before {
			t.Errorf("after Close there are %d containers more", n-before)
		}
	})
}

// TestPoolForgetsTheDead: a container that stopped while it waited is nobody's; another
// takes its place, also when the engine could not tell.
func TestPoolForgetsTheDead(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		w := newWire(t)
		b := openBackend(t, shortDir(t), way != "off", func(o *sandboxes.Options) { o.SweepEvery = time.Second })
		t.Cleanup(func() { closeBackend(t, b) })
		if err := b.OpenConfig(t.Context(), "c", testConfig(t, map[string]any{"agent": way, "host": w.host(), "pool": 1})); err != nil {
			t.Fatal(err)
		}
		for _, silent := range []bool{false, true} {
			dead := awaitPool(t, cl, 1)[0]
			if silent {
				w.cut()
			}
			if err := cl.ContainerKill(t.Context(), dead, "KILL"); err != nil {
				t.Fatal(err)
			}
			if silent {
				w.mend()
				await(t, "engine again", func() bool { h, err := b.Health(t.Context()); return err == nil && h.Ready })
			}
			sb := mustCreate(t, b, specOf(sessionName("dead")))
			if res, l := run(t, b, bash(sb.Ref, "echo on")); l.stdout.String() != "on\n" || inspect(t, cl, sb.ID).ID == dead {
				t.Errorf("silent %v: %+v, %q", silent, res, l.stdout.String())
			}
			await(t, "its removal", func() bool { return listContainers(t, cl)[dead] == "" })
		}
	})
}

// TestCutCreate: whenever a caller leaves, nothing half-made is left.
func TestCutCreate(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	b := one(t, "off", nil)
	for _, after := range []time.Duration{0, 5, 20, 60, 120, 250, 400, 700} {
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		spec := specOf(sessionName("cut"))
		sb, err := b.Create(ctx, spec)
		cancel()
		if err == nil {
			if err := b.Delete(t.Context(), sb.Ref); err != nil {
				t.Error(err)
			}
		}
		for _, name := range listContainers(t, cl) {
			if strings.HasPrefix(name, "/caisson-new_") || strings.Contains(name, spec.Session) {
				t.Errorf("cut after %v: container %s is left", after*time.Millisecond, name)
			}
		}
	}
}

// TestAnonymousVolumes: what an image's volumes hold goes with the sandbox.
func TestAnonymousVolumes(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	made, err := cl.ContainerCreate(t.Context(), &container.Config{Image: testImage(), Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	const tag = "caisson-test-volume:test"
	_, err = cl.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: tag, Changes: []string{"VOLUME /vol"}})
	_ = cl.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cl.ImageRemove(context.Background(), tag, image.RemoveOptions{Force: true}) })
	count := func() int {
		got, err := cl.VolumeList(t.Context(), volume.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Volumes)
	}
	before := count()
	b := one(t, "off", map[string]any{"image": tag})
	sb := mustCreate(t, b, specOf(sessionName("volume")))
	if count() != before+1 {
		t.Fatalf("%d volumes, there were %d: the image's is not there", count(), before)
	}
	if err := b.Delete(t.Context(), sb.Ref); err != nil {
		t.Fatal(err)
	}
	if count() != before {
		t.Errorf("%d volumes, there were %d", count(), before)
	}
}

// TestClocks: a sandbox ends by its own end, its age and its rest, and a program that
// runs is no rest. Another installation's sandboxes are left alone.
func TestClocks(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	fast := func(o *sandboxes.Options) { o.SweepEvery = 100 * time.Millisecond }
	open := func(change map[string]any) backend.Backend {
		b := openBackend(t, shortDir(t), true, fast)
		t.Cleanup(func() { closeBackend(t, b) })
		if err := b.OpenConfig(t.Context(), "c", testConfig(t, change)); err != nil {
			t.Fatal(err)
		}
		return b
	}
	quiet := open(nil)
	strict := open(map[string]any{"idle_seconds": 3})
	other := mustCreate(t, quiet, specOf(sessionName("other")))
	idle := mustCreate(t, strict, specOf(sessionName("idle")))
	busy := mustCreate(t, strict, specOf(sessionName("busy")))
	done := make(chan backend.RunResult, 1)
	go func() {
		res, err := strict.Run(context.Background(), bash(busy.Ref, "sleep 6; echo still here"), &live{})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	gone := func(b backend.Backend, sb backend.Sandbox) func() bool {
		return func() bool { _, err := b.Get(t.Context(), sb.Ref); return backend.ProvesGone(err) }
	}
	await(t, "end of the one that rests", gone(strict, idle))
	if res := <-done; res.Stop != backend.StopExit || res.ExitCode != 0 {
		t.Errorf("a program was ended by its sandbox's rest: %+v", res)
	}
	await(t, "end of the one that rests after its run", gone(strict, busy))
	if gone(quiet, other)() {
		t.Error("a sandbox of another installation was swept")
	}
	spec := specOf(sessionName("expires"))
	spec.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: 0, Action: backend.TimeoutKill}
	now := mustCreate(t, quiet, spec)
	if !gone(quiet, now)() {
		t.Error("a sandbox whose time is over is there")
	}
	await(t, "removal of its container", func() bool {
		for _, name := range listContainers(t, cl) {
			if strings.Contains(name, spec.Session) {
				return false
			}
		}
		return true
	})
	aged := open(map[string]any{"ttl_seconds": 1})
	old := mustCreate(t, aged, specOf(sessionName("old")))
	await(t, "end of the old one", gone(aged, old))
}

// TestDeadMaker: what a killed process left half-made or waiting, the next one removes;
// what a living one makes it leaves.
func TestDeadMaker(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	dir := shortDir(t)
	fast := func(o *sandboxes.Options) { o.SweepEvery = 100 * time.Millisecond }
	config := testConfig(t, map[string]any{"agent": "off", "pool": 1})
	living := openBackend(t, dir, false, fast)
	defer closeBackend(t, living)
	if err := living.OpenConfig(t.Context(), "c", config); err != nil {
		t.Fatal(err)
	}
	mine := awaitPool(t, cl, 1)
	got, err := cl.ContainerInspect(t.Context(), mine[0])
	if err != nil {
		t.Fatal(err)
	}
	labels := got.Config.Labels
	labels["caisson.maker"] = "abcdefghijklmnop" // a process that is no more
	left, err := cl.ContainerCreate(t.Context(), &container.Config{Image: testImage(), Labels: labels, Cmd: []string{"true"}}, nil, nil, nil, "caisson-new_deadmaker")
	if err != nil {
		t.Fatal(err)
	}
	labels["caisson.owner"] = owner(t) + "else"
	foreign, err := cl.ContainerCreate(t.Context(), &container.Config{Image: testImage(), Labels: labels, Cmd: []string{"true"}}, nil, nil, nil, "caisson-new_foreign")
	if err != nil {
		t.Fatal(err)
	}
	defer cl.ContainerRemove(context.Background(), foreign.ID, container.RemoveOptions{Force: true})
	await(t, "removal of what a dead process left", func() bool { return listContainers(t, cl)[left.ID] == "" })
	all := listContainers(t, cl)
	if all[mine[0]] == "" || all[foreign.ID] == "" {
		t.Errorf("a living process's container, or another installation's, was removed: %v", all)
	}
}

// TestOffByDefault: without enabled nothing leads to an engine.
func TestOffByDefault(t *testing.T) {
	b := openBackend(t, shortDir(t), false, nil)
	defer closeBackend(t, b)
	for _, raw := range []string{``, `{}`, `{"enabled":false}`, `{"host":"unix:///var/run/docker.sock"}`} {
		wantKind(t, "OpenConfig "+raw, b.OpenConfig(t.Context(), "c", json.RawMessage(raw)), backend.KindInvalidRequest)
		if report, err := b.Probe(t.Context(), json.RawMessage(raw)); err == nil {
			t.Errorf("Probe %s: %+v", raw, report)
		}
	}
}
