package agentclient_test

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/caisson-run/caisson/sdk/backend"
)

// BenchmarkTrue compares a run, a command and what the engine's own exec does.
func BenchmarkTrue(b *testing.B) {
	bx, c := sandbox(b, options{})
	spec := script("")
	spec.Steps[0].Argv = []string{"true"}
	b.Run("run", func(b *testing.B) {
		for b.Loop() {
			if res, err := c.Run(b.Context(), spec, &heard{}); err != nil || res.ExitCode != 0 {
				b.Fatal(res, err)
			}
		}
	})
	b.Run("command", func(b *testing.B) {
		for b.Loop() {
			if res, err := c.Exec(b.Context(), backend.ExecRequest{Ref: ref(), Argv: []string{"true"}}); err != nil || res.ExitCode != 0 {
				b.Fatal(res, err)
			}
		}
	})
	b.Run("docker exec", func(b *testing.B) {
		for b.Loop() {
			if out, code := bx.exec(b, "1000:1000", "true"); code != 0 {
				b.Fatal(out)
			}
		}
	})
}

// BenchmarkTrueParallel is throughput: programs beside each other.
func BenchmarkTrueParallel(b *testing.B) {
	_, c := sandbox(b, options{})
	b.SetParallelism(2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if res, err := c.Exec(b.Context(), backend.ExecRequest{Ref: ref(), Argv: []string{"true"}}); err != nil || res.ExitCode != 0 {
				b.Fatal(res, err)
			}
		}
	})
}

// BenchmarkFile compares a small file's way in and out with the engine's archives.
func BenchmarkFile(b *testing.B) {
	bx, c := sandbox(b, options{})
	content := bytes.Repeat([]byte("x"), 1024)
	name := data("f")
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.WriteFile(b.Context(), name, backend.WriteOptions{}, bytes.NewReader(content)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			r, _, err := c.ReadFile(b.Context(), name)
			if err != nil {
				b.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || len(got) != len(content) {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("docker cp in", func(b *testing.B) {
		for b.Loop() {
			var buf bytes.Buffer
			w := tar.NewWriter(&buf)
			if err := w.WriteHeader(&tar.Header{Name: "g", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
				b.Fatal(err)
			}
			_, _ = w.Write(content)
			_ = w.Close()
			if err := docker.CopyToContainer(b.Context(), bx.id, backend.DataDir, &buf, container.CopyToContainerOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("docker cp out", func(b *testing.B) {
		for b.Loop() {
			r, _, err := docker.CopyFromContainer(b.Context(), bx.id, data("g"))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r)
			_ = r.Close()
		}
	})
}
