package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/caisson-run/caisson/sdk/backend"
)

// What the backend does in a sandbox beside what the engine itself offers for the same:
// docker exec and docker cp, through the engine's API, without starting a command line.
// All of a benchmark uses one image, and sandboxes with the same limits, one for each
// way. "socket" and "stream" are the two ways to speak to the agent.

// benched is one sandbox with the container that it is.
type benched struct {
	b   backend.Backend
	ref backend.Ref
	id  string
}

// ways opens a backend for each way and a sandbox in it.
func ways(b *testing.B) (map[string]benched, *client.Client) {
	b.Helper()
	cl := needEngine(b)
	sameContainers(b, cl)
	out := make(map[string]benched)
	for name, agent := range map[string]string{"socket": "socket", "stream": "exec"} {
		back := openBackend(b, shortDir(b), true, nil)
		b.Cleanup(func() { closeBackend(b, back) })
		if err := back.OpenConfig(b.Context(), "bench-"+name, testConfig(b, map[string]any{"agent": agent})); err != nil {
			b.Fatal(err)
		}
		out[name] = create(b, back, cl, "bench-"+name, name)
	}
	return out, cl
}

// create makes a sandbox that goes with the test; its session's name is no other's part.
func create(b testing.TB, back backend.Backend, cl *client.Client, config, session string) benched {
	b.Helper()
	sb, err := back.Create(b.Context(), backend.CreateSpec{Config: config, Session: session, Metadata: backend.Metadata{Session: session, Tenant: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := back.Delete(context.Background(), sb.Ref); err != nil {
			b.Error(err)
		}
	})
	list, err := cl.ContainerList(b.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("name", session))})
	if err != nil || len(list) == 0 {
		b.Fatalf("the sandbox's container: %v, %v", list, err)
	}
	return benched{back, sb.Ref, list[0].ID}
}

// measure runs op until the benchmark has enough, and reports how long the median one
// took. The first one is not counted.
func measure(b *testing.B, op func() error) {
	b.Helper()
	if err := op(); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	b.ReportMetric(median(took), "p50-ms")
}

// median is in milliseconds.
func median(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2]) / 1e6
}

func (s benched) exec(ctx context.Context, argv ...string) error {
	r, err := s.b.Exec(ctx, backend.ExecRequest{Ref: s.ref, Argv: argv})
	if err != nil || r.ExitCode != 0 {
		return fmt.Errorf("%q: %+v, %w", argv, r, err)
	}
	return nil
}

// dockerExec does what docker exec does.
func (s benched) dockerExec(ctx context.Context, cl *client.Client, argv ...string) error {
	made, err := cl.ContainerExecCreate(ctx, s.id, container.ExecOptions{User: "1000:1000", Cmd: argv, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err
	}
	at, err := cl.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer at.Close()
	if _, err := stdcopy.StdCopy(io.Discard, io.Discard, at.Reader); err != nil {
		return err
	}
	end, err := cl.ContainerExecInspect(ctx, made.ID)
	if err != nil || end.ExitCode != 0 || end.Running {
		return fmt.Errorf("%q: %+v, %w", argv, end, err)
	}
	return nil
}

// BenchmarkDockerCommand: a command in a container that is there.
func BenchmarkDockerCommand(b *testing.B) {
	all, cl := ways(b)
	for _, c := range []struct {
		name string
		argv []string
	}{{"true", []string{"true"}}, {"python3_-c_pass", []string{"python3", "-c", "pass"}}} {
		for _, way := range []string{"socket", "stream"} {
			b.Run(c.name+"/"+way, func(b *testing.B) {
				measure(b, func() error { return all[way].exec(b.Context(), c.argv...) })
			})
		}
		b.Run(c.name+"/docker", func(b *testing.B) {
			measure(b, func() error { return all["socket"].dockerExec(b.Context(), cl, c.argv...) })
		})
	}
}

// BenchmarkDockerFile: a file of 1 KiB, in and out.
func BenchmarkDockerFile(b *testing.B) {
	all, cl := ways(b)
	const file = backend.DataDir + "/file"
	text := bytes.Repeat([]byte("x"), 1024)
	for _, way := range []string{"socket", "stream"} {
		b.Run("write_1KiB/"+way, func(b *testing.B) {
			measure(b, func() error {
				_, err := all[way].b.WriteFile(b.Context(), all[way].ref, file, backend.WriteOptions{}, bytes.NewReader(text))
				return err
			})
		})
	}
	b.Run("write_1KiB/docker", func(b *testing.B) {
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		if err := w.WriteHeader(&tar.Header{Name: path.Base(file), Mode: 0o644, Size: int64(len(text)), Uid: 1000, Gid: 1000}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		measure(b, func() error {
			return cl.CopyToContainer(b.Context(), all["socket"].id, backend.DataDir, bytes.NewReader(packed.Bytes()), container.CopyToContainerOptions{})
		})
	})
	same := func(r io.Reader) error {
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
			return fmt.Errorf("%d bytes came back, %w", len(got), err)
		}
		return nil
	}
	for _, way := range []string{"socket", "stream"} {
		b.Run("read_1KiB/"+way, func(b *testing.B) {
			measure(b, func() error {
				r, _, err := all[way].b.ReadFile(b.Context(), all[way].ref, file)
				if err != nil {
					return err
				}
				defer r.Close()
				return same(r)
			})
		})
	}
	b.Run("read_1KiB/docker", func(b *testing.B) {
		measure(b, func() error {
			r, _, err := cl.CopyFromContainer(b.Context(), all["socket"].id, file)
			if err != nil {
				return err
			}
			defer r.Close()
			t := tar.NewReader(r)
			if _, err := t.Next(); err != nil {
				return err
			}
			return same(t)
		})
	})
}

// sessions is how many are measured, each after the pool was filled again.
const sessions = 16

// BenchmarkDockerSession: a sandbox for a new session, and up to the end of its first
// command, while the pool already fills again. One waits in the pool each time; the
// rest of the filling happens between sessions and is not counted. Beside it, a sandbox
// without a pool, and the engine's own create, start and exec.
func BenchmarkDockerSession(b *testing.B) {
	cl := needEngine(b)
	sameContainers(b, cl)
	for _, way := range []struct {
		name string
		pool int
	}{{"pool", 2}, {"no_pool", 0}} {
		b.Run("new_session/"+way.name, func(b *testing.B) {
			back := openBackend(b, shortDir(b), true, nil)
			defer closeBackend(b, back)
			if err := back.OpenConfig(b.Context(), "bench", testConfig(b, map[string]any{"agent": "socket", "pool": way.pool})); err != nil {
				b.Fatal(err)
			}
			perSession(b, func(n int) (made, used time.Duration, err error) {
				waiting(b, cl, way.pool)
				session := "s" + strconv.Itoa(n)
				began := time.Now()
				sb, err := back.Create(b.Context(), backend.CreateSpec{
					Config: "bench", Session: session, Metadata: backend.Metadata{Session: session, Tenant: "bench"},
				})
				if err != nil {
					return 0, 0, err
				}
				made = time.Since(began)
				err = benched{b: back, ref: sb.Ref}.exec(b.Context(), "true")
				used = time.Since(began)
				return made, used, errors.Join(err, back.Delete(context.WithoutCancel(b.Context()), sb.Ref))
			})
		})
	}
	b.Run("new_session/docker", func(b *testing.B) {
		perSession(b, func(int) (made, used time.Duration, err error) {
			began := time.Now()
			c, err := cl.ContainerCreate(b.Context(), &container.Config{Image: testImage(), Cmd: []string{"sleep", "1000"}, NetworkDisabled: true},
				&container.HostConfig{NetworkMode: "none", CapDrop: []string{"ALL"}}, nil, nil, "")
			if err != nil {
				return 0, 0, err
			}
			if err = cl.ContainerStart(b.Context(), c.ID, container.StartOptions{}); err == nil {
				made = time.Since(began)
				err = benched{id: c.ID}.dockerExec(b.Context(), cl, "true")
			}
			used = time.Since(began)
			return made, used, errors.Join(err, cl.ContainerRemove(context.WithoutCancel(b.Context()), c.ID, container.RemoveOptions{Force: true}))
		})
	})
}

// perSession measures a number of sessions, whatever time the benchmark has.
func perSession(b *testing.B, one func(n int) (made, used time.Duration, err error)) {
	b.Helper()
	var all, commands []time.Duration
	for b.Loop() {
		for range sessions {
			made, used, err := one(len(all))
			if err != nil {
				b.Fatal(err)
			}
			all, commands = append(all, made), append(commands, used)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(all), "p50-ms")
	b.ReportMetric(median(commands), "p50-with-true-ms")
}

// waiting waits until that many containers were started for nobody yet. They are made
// one after the other, so all but the last are ready.
func waiting(b *testing.B, cl *client.Client, n int) {
	b.Helper()
	for {
		list, err := cl.ContainerList(b.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("name", "caisson-new_"))})
		if err != nil {
			b.Fatal(err)
		}
		if len(list) >= n {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// BenchmarkDockerRate: how many commands a second, two at a time, on one container.
func BenchmarkDockerRate(b *testing.B) {
	all, cl := ways(b)
	rate := func(b *testing.B, op func() error) {
		b.Helper()
		var failed atomic.Pointer[error]
		b.SetParallelism(1)
		began := time.Now()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := op(); err != nil {
					failed.Store(&err)
				}
			}
		})
		if err := failed.Load(); err != nil {
			b.Fatal(*err)
		}
		b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "runs/s")
	}
	for _, way := range []string{"socket", "stream"} {
		b.Run("true/"+way, func(b *testing.B) { rate(b, func() error { return all[way].exec(b.Context(), "true") }) })
	}
	b.Run("true/docker", func(b *testing.B) {
		rate(b, func() error { return all["socket"].dockerExec(b.Context(), cl, "true") })
	})
}
