package process

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
)

// What the process boundary costs, beside the same backend in process:
//
//	go test -run xxx -bench . ./runtimes/process
//
// The reference gives 232 µs for a call over go-plugin's gRPC and 339 MB/s for a
// stream in chunks of 255 KiB on two cores.

// boundaries are the same backend on both sides of a process boundary.
func boundaries(b *testing.B, f func(b *testing.B, be backend.Backend)) {
	b.Run("process", func(b *testing.B) {
		exe, err := os.Executable()
		if err != nil {
			b.Fatal(err)
		}
		p, err := Start(b.Context(), Spec{Name: "bench", Path: exe, Env: []string{modeEnv + "=backend:" + b.TempDir()}})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = p.Stop(context.Background()) }()
		f(b, p.Backend())
	})
	b.Run("in-process", func(b *testing.B) { f(b, hostbackend.New(b.TempDir())) })
}

func BenchmarkCall(b *testing.B) {
	boundaries(b, func(b *testing.B, be backend.Backend) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := be.Info(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchSandbox(b *testing.B, be backend.Backend) backend.Ref {
	if err := be.OpenConfig(b.Context(), "c", json.RawMessage("{}")); err != nil {
		b.Fatal(err)
	}
	sb, err := be.Create(b.Context(), backend.CreateSpec{Config: "c", Session: "s", Metadata: backend.Metadata{Session: "s"}})
	if err != nil {
		b.Fatal(err)
	}
	return sb.Ref
}

const benchSize = 64 << 20

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func BenchmarkReadFile(b *testing.B) {
	boundaries(b, func(b *testing.B, be backend.Backend) {
		ref := benchSandbox(b, be)
		if _, err := be.WriteFile(b.Context(), ref, "/mnt/data/f", backend.WriteOptions{}, io.LimitReader(zeros{}, benchSize)); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(benchSize)
		buf := make([]byte, 1<<20)
		for b.Loop() {
			r, _, err := be.ReadFile(b.Context(), ref, "/mnt/data/f")
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, buf); err != nil || n != benchSize {
				b.Fatal(n, err)
			}
			_ = r.Close()
		}
	})
}

func BenchmarkRunWithInput(b *testing.B) {
	boundaries(b, func(b *testing.B, be backend.Backend) {
		spec := runSpec()
		spec.Ref = benchSandbox(b, be)
		spec.Program.Source = []byte("exit 0")
		spec.Steps[0].Argv = []string{"/bin/sh", "{dir}/main"}
		spec.Inputs = []backend.Input{{Path: "/mnt/data/in", Chunked: true}}
		spec.Collect.Skip = true
		b.SetBytes(8 << 20)
		for b.Loop() {
			if res, err := be.Run(b.Context(), spec, benchIO{}); err != nil || res.ExitCode != 0 {
				b.Fatal(res, err)
			}
		}
	})
}

type benchIO struct{ backend.RunIO }

func (benchIO) Input(int) (io.Reader, error) { return io.LimitReader(zeros{}, 8<<20), nil }
func (benchIO) Started() error               { return nil }
func (benchIO) Stdout([]byte) error          { return nil }
func (benchIO) Stderr([]byte) error          { return nil }
