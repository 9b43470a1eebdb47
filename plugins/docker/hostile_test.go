package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/plain"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// programs lists what runs in a container beside what the backend started there.
func programs(t testing.TB, cl *client.Client, id string) []string {
	t.Helper()
	top, err := cl.ContainerTop(t.Context(), id, []string{"-eo", "pid,args"})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range top.Processes {
		args := p[len(p)-1]
		if strings.Contains(args, "marked") {
			out = append(out, args)
		}
	}
	return out
}

// TestNothingSurvives: whatever a program does to stay, its run ends in time and it is
// gone afterwards. The next run is as any other.
func TestNothingSurvives(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		if way == "off" && testing.Short() {
			t.Skip("a command of the engine's takes its time: with the agent is enough in short mode")
		}
		b := one(t, way, nil)
		sb := mustCreate(t, b, specOf(sessionName("hostile")))
		id := inspect(t, cl, sb.ID).ID
		const (
			stay  = `python3 -c 'import time; time.sleep(1000)' marked`
			wall  = time.Second
			grace = 10 * time.Second // on a machine that does other things
		)
		for name, c := range map[string]struct {
			script string
			ends   bool // by itself
		}{
			"ignores signals":     {"trap '' TERM INT HUP; " + stay, false},
			"forks":               {stay + " & " + stay + " & wait", false},
			"double forks":        {"( ( " + stay + " & ) & ); sleep 1000", false},
			"leaves a session":    {"setsid " + stay + " & sleep 1000", false},
			"hides its variables": {"env -i PATH=$PATH setsid " + stay + " & sleep 1000", false},
			"leaves a daemon":     {"setsid " + stay + " </dev/null >/dev/null 2>&1 & echo done", true},
			"leaves its output":   {"setsid " + stay + " & echo done", true},
			"stops itself":        {"setsid " + stay + " & kill -STOP $$", false},
			"closes its output":   {"exec >&- 2>&-; " + stay, false},
			"floods its output":   {"echo done; exec -a marked yes", false},
			"kills what it can":   {"kill -9 -1; " + stay, false},
		} {
			spec := bash(sb.Ref, c.script)
			if spec.Limits.Wall = wall; c.ends {
				spec.Limits.Wall = time.Minute // on a busy machine a second may be over before it has begun
			}
			began := time.Now()
			res, l := run(t, b, spec)
			if took := time.Since(began); took > spec.Limits.Wall+grace {
				t.Errorf("%s: the reply took %v", name, took)
			}
			switch {
			case c.ends && res.Stop != backend.StopExit, !c.ends && res.Stop != backend.StopTimeout && res.Stop != backend.StopOutput:
				t.Errorf("%s: %+v, %q", name, res, l.stderr.String())
			case strings.HasPrefix(c.script, "setsid") && c.ends && l.stdout.String() != "done\n":
				t.Errorf("%s: stdout %q", name, l.stdout.String())
			}
			if left := programs(t, cl, id); len(left) > 0 {
				t.Errorf("%s: %q is left", name, left)
			}
			if res, l := run(t, b, bash(sb.Ref, "echo on")); l.stdout.String() != "on\n" || res.ExitCode != 0 {
				t.Errorf("%s: the next run: %+v, %q", name, res, l.stdout.String())
			}
		}
	})
}

// TestBombs: a program that takes all it can get harms its own run, which has a typed
// end, and neither the sandbox nor the engine.
func TestBombs(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		b := one(t, way, nil)
		sb := mustCreate(t, b, specOf(sessionName("bombs")))
		for name, c := range map[string]struct {
			script string
			stops  []backend.StopReason
		}{
			"memory": {`python3 -c 'x = bytearray(1 << 30)
for i in range(0, len(x), 4096): x[i] = 1'`, []backend.StopReason{backend.StopMemory, backend.StopExit}},
			"processes": {`f() { f | f & }; f; sleep 60`, []backend.StopReason{backend.StopTimeout, backend.StopExit}},
			"output":    {`exec yes`, []backend.StopReason{backend.StopTimeout, backend.StopOutput}},
		} {
			spec := bash(sb.Ref, c.script)
			spec.Limits.Wall = 5 * time.Second
			res, l := run(t, b, spec)
			ok := false
			for _, s := range c.stops {
				ok = ok || res.Stop == s
			}
			if !ok || res.Stop == backend.StopExit && res.ExitCode == 0 {
				t.Errorf("%s: %+v, %q", name, res, l.stderr.String())
			}
			if name == "memory" && way != "off" && res.Stop != backend.StopMemory {
				t.Errorf("memory that ran out is %+v", res)
			}
			if n := l.stdout.Len(); n > 2<<20 {
				t.Errorf("%s: %d bytes of output were kept", name, n)
			}
			await(t, "next run after "+name, func() bool {
				l := &live{}
				res, err := b.Run(t.Context(), bash(sb.Ref, "echo on"), l)
				return err == nil && res.ExitCode == 0 && l.stdout.String() == "on\n"
			})
		}
	})
}

// TestDiskFiller: a program that fills what it may write to has a typed end, and the
// next run goes on once there is room.
func TestDiskFiller(t *testing.T) {
	cl := needEngine(t)
	for _, way := range transports {
		if way == "off" {
			continue // nothing there stops a program before the engine's disk is full: below
		}
		t.Run(way, func(t *testing.T) {
			sameContainers(t, cl)
			b := one(t, way, nil)
			sb := mustCreate(t, b, specOf(sessionName("filler")))
			fill := bash(sb.Ref, "cat /dev/zero >big")
			fill.Limits.DiskBytes = 1 << 20
			if res, l := run(t, b, fill); res.Stop != backend.StopDisk || res.ExitCode == 0 || res.Message == "" {
				t.Errorf("%+v, %q", res, l.stderr.String())
			}
			if res, l := run(t, b, bash(sb.Ref, "rm big && echo on; exit 3")); res.Stop != backend.StopExit || res.ExitCode != 3 || l.stdout.String() != "on\n" {
				t.Errorf("the next run: %+v, %q", res, l.stderr.String())
			}
		})
	}
}

// TestFullDisk: the same without the agent, on a disk that is really full.
func TestFullDisk(t *testing.T) {
	cl := needEngine(t)
	made, err := cl.ContainerCreate(t.Context(),
		&container.Config{Image: testImage(), Entrypoint: []string{"sleep", "1000"}},
		&container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{{
			Type: mount.TypeTmpfs, Target: backend.TmpDir, TmpfsOptions: &mount.TmpfsOptions{SizeBytes: 8 << 20, Mode: 0o777},
		}}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Error(err)
		}
	})
	if err := cl.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	eng, err := engine.Open(settings.Endpoint{Unix: strings.TrimPrefix(testHost(), "unix://")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eng.Close)
	box := &plain.Box{Engine: eng, Container: made.ID, ID: "full", User: "1000:1000", Others: new(atomic.Int64)}
	for _, c := range []struct {
		script string
		stop   backend.StopReason
		code   int
	}{
		{"exit 3", backend.StopExit, 3},
		{"cat /dev/zero >big", backend.StopDisk, 1},
		{"true", backend.StopExit, 0},
		{"rm big", backend.StopExit, 0},
		{"exit 3", backend.StopExit, 3},
	} {
		l := &live{}
		res, err := box.Execute(t.Context(), generic.Command{Argv: []string{"sh", "-c", c.script}, Dir: backend.TmpDir}, l)
		if err != nil || res.Stop != c.stop || res.ExitCode != c.code {
			t.Errorf("%s: %+v, %v, %q", c.script, res, err, l.stderr.String())
		}
	}
}
