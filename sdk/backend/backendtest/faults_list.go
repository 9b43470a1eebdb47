package backendtest

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend"
)

// hangs are backends that do not answer.
var hangs = []fault{
	{name: "hang in Run before the start", canceled: true, ask: askRun, spoil: func(f *faulty) {
		f.run = func(ctx context.Context, _ backend.RunSpec, _ backend.RunIO) (backend.RunResult, error) {
			return hang[backend.RunResult](ctx)
		}
	}},
	{name: "hang in Run", canceled: true, ask: askRun, spoil: func(f *faulty) {
		f.run = func(_ context.Context, _ backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			_ = live.Started()
			<-f.over // not even a cancellation is heard
			return backend.RunResult{}, errHung
		}
	}},
	{name: "hang in Get", canceled: true, ask: askGet, spoil: func(f *faulty) {
		f.get = func(ctx context.Context, _ backend.Ref) (backend.Sandbox, error) { return hang[backend.Sandbox](ctx) }
	}},
	{name: "hang in Create", canceled: true, ask: askCreate, spoil: func(f *faulty) {
		f.create = func(ctx context.Context, _ backend.CreateSpec) (backend.Sandbox, error) {
			return hang[backend.Sandbox](ctx)
		}
	}},
	{name: "hang in Exec", canceled: true, ask: askExec, spoil: func(f *faulty) {
		f.exec = func(ctx context.Context, _ backend.ExecRequest) (backend.ExecResult, error) {
			return hang[backend.ExecResult](ctx)
		}
	}},
	{name: "hang in Walk", canceled: true, ask: askWalk, spoil: func(f *faulty) {
		f.walk = func(ctx context.Context, _ backend.WalkRequest) (backend.WalkResult, error) {
			return hang[backend.WalkResult](ctx)
		}
	}},
	{name: "hang in WriteFile", canceled: true, ask: askWrite, spoil: func(f *faulty) {
		f.write = func(ctx context.Context, _ backend.Ref, _ string, _ backend.WriteOptions, _ io.Reader) (backend.Entry, error) {
			return hang[backend.Entry](ctx)
		}
	}},
}

// lies are answers about something else, or of other sizes than there were.
var lies = []fault{
	{name: "panic in a call", kind: backend.KindInternal, ask: askGet, spoil: func(f *faulty) {
		f.get = func(context.Context, backend.Ref) (backend.Sandbox, error) { panic("at the disco") }
	}},
	{name: "another sandbox", kind: backend.KindInternal, ask: askGet, spoil: func(f *faulty) {
		f.get = func(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
			return backend.Sandbox{Ref: backend.Ref{Config: ref.Config, ID: "another"}, State: backend.StateRunning}, nil
		}
	}},
	{name: "another config", kind: backend.KindInternal, ask: askGet, spoil: func(f *faulty) {
		f.get = func(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
			return backend.Sandbox{Ref: backend.Ref{Config: "another", ID: ref.ID}, State: backend.StateRunning}, nil
		}
	}},
	{name: "no sandbox", kind: backend.KindInternal, ask: askCreate, spoil: func(f *faulty) {
		f.create = func(context.Context, backend.CreateSpec) (backend.Sandbox, error) { return backend.Sandbox{}, nil }
	}},
	{name: "another session's sandbox", kind: backend.KindInternal, ask: askCreate, spoil: func(f *faulty) {
		f.create = func(_ context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
			m := s.Metadata
			m.Session = "another"
			return backend.Sandbox{Ref: backend.Ref{Config: s.Config, ID: "x"}, State: backend.StateRunning, Metadata: m}, nil
		}
	}},
	{name: "another tenant's sandbox", kind: backend.KindInternal, ask: askCreate, spoil: func(f *faulty) {
		f.create = func(_ context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
			m := s.Metadata
			m.Tenant = "another"
			return backend.Sandbox{Ref: backend.Ref{Config: s.Config, ID: "x"}, State: backend.StateRunning, Metadata: m}, nil
		}
	}},
	{name: "another file", kind: backend.KindInternal, ask: askStat, spoil: func(f *faulty) {
		f.stat = func(context.Context, backend.Ref, string) (backend.Entry, error) {
			return backend.Entry{Path: "/etc/passwd", Type: backend.EntryFile}, nil
		}
	}},
	{name: "a negative size", kind: backend.KindInternal, ask: askStat, spoil: func(f *faulty) {
		f.stat = func(_ context.Context, _ backend.Ref, p string) (backend.Entry, error) {
			return backend.Entry{Path: p, Type: backend.EntryFile, Size: -1}, nil
		}
	}},
	{name: "less written than sent", kind: backend.KindInternal, ask: askWrite, spoil: func(f *faulty) {
		f.write = func(_ context.Context, _ backend.Ref, p string, _ backend.WriteOptions, r io.Reader) (backend.Entry, error) {
			n, err := io.Copy(io.Discard, r)
			return backend.Entry{Path: p, Type: backend.EntryFile, Size: n - 1}, err
		}
	}},
	{name: "files outside what was asked", kind: backend.KindInternal, ask: askWalk, spoil: func(f *faulty) {
		f.walk = func(context.Context, backend.WalkRequest) (backend.WalkResult, error) {
			return backend.WalkResult{Entries: []backend.Entry{{Path: "/mnt/data/../../etc/passwd", Type: backend.EntryFile}}}, nil
		}
	}},
	{name: "an end without a start", kind: backend.KindInternal, ask: askRun, spoil: func(f *faulty) {
		f.run = func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error) {
			return backend.RunResult{Stop: backend.StopExit}, nil
		}
	}},
	ran("less output counted than sent", func(live backend.RunIO) backend.RunResult {
		_ = live.Stdout([]byte("12345"))
		return backend.RunResult{Stop: backend.StopExit, StdoutBytes: 4}
	}),
	ran("a negative count of output", func(backend.RunIO) backend.RunResult {
		return backend.RunResult{Stop: backend.StopExit, StderrBytes: -1}
	}),
	ran("an unheard-of end", func(backend.RunIO) backend.RunResult { return backend.RunResult{Stop: "tired"} }),
	ran("a step that there is not", func(backend.RunIO) backend.RunResult {
		return backend.RunResult{Stop: backend.StopExit, Step: 7}
	}),
	ran("another run's files", func(backend.RunIO) backend.RunResult {
		return backend.RunResult{Stop: backend.StopExit, Changed: []backend.Entry{
			{Path: "/srv/other-run/out.txt", Type: backend.EntryFile, SHA256: strings.Repeat("a", 64)},
		}}
	}),
	ran("another run's inputs", func(backend.RunIO) backend.RunResult {
		return backend.RunResult{Stop: backend.StopExit, MissingInputs: []string{"/mnt/data/theirs"}}
	}),
	ran("a file larger than wanted", func(backend.RunIO) backend.RunResult {
		return backend.RunResult{Stop: backend.StopExit, Changed: []backend.Entry{
			{Path: data("f"), Type: backend.EntryFile, Size: 1 << 40, SHA256: strings.Repeat("a", 64)},
		}}
	}),
	{name: "a call that was not offered", kind: backend.KindInternal, ask: askRun, spoil: func(f *faulty) {
		f.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			_ = live.Started()
			_, err := live.Call(ctx, backend.ControlCall{ID: "1", Name: "transfer_money"})
			return backend.RunResult{}, backend.Errorf(backend.KindInternal, "Run", "no call is answered: %v", err)
		}
	}},
}

// ran is a run that started and comes to something that cannot be.
func ran(name string, come func(live backend.RunIO) backend.RunResult) fault {
	return fault{name: name, kind: backend.KindInternal, ask: askRun, spoil: func(f *faulty) {
		f.run = func(_ context.Context, _ backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			if err := live.Started(); err != nil {
				return backend.RunResult{}, err
			}
			return come(live), nil
		}
	}}
}

// floods are more than was asked for.
var floods = []fault{
	{name: "output without an end", kind: backend.KindInternal, ask: askRun, spoil: func(f *faulty) {
		f.run = func(ctx context.Context, _ backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			_ = live.Started()
			chunk := bytes.Repeat([]byte("x"), 64<<10)
			for ctx.Err() == nil {
				if err := live.Stdout(chunk); err != nil {
					return backend.RunResult{}, err
				}
			}
			return backend.RunResult{}, ctx.Err()
		}
	}},
	{name: "output of a command", kind: backend.KindInternal, ask: askExec, spoil: func(f *faulty) {
		f.exec = func(context.Context, backend.ExecRequest) (backend.ExecResult, error) {
			return backend.ExecResult{Stop: backend.StopExit, Stdout: make([]byte, 16<<20)}, nil
		}
	}},
	{name: "more files than asked for", kind: backend.KindInternal, ask: askWalk, spoil: func(f *faulty) {
		f.walk = func(context.Context, backend.WalkRequest) (backend.WalkResult, error) {
			res := backend.WalkResult{}
			for range 11 {
				res.Entries = append(res.Entries, backend.Entry{Path: data("f"), Type: backend.EntryFile})
			}
			return res, nil
		}
	}},
	{name: "a file without an end", canceled: true, ask: askRead, spoil: func(f *faulty) {
		f.read = func(_ context.Context, _ backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
			return io.NopCloser(bottomless{}), backend.Entry{Path: p, Type: backend.EntryFile, Size: 1}, nil
		}
	}},
	{name: "an error of a megabyte", kind: backend.KindConflict, ask: askGet, spoil: func(f *faulty) {
		f.get = func(context.Context, backend.Ref) (backend.Sandbox, error) {
			return backend.Sandbox{}, backend.Errorf(backend.KindConflict, "Get", "%s", strings.Repeat("sorry ", 200_000))
		}
	}},
	{name: "changed files beyond all bounds", kind: backend.KindInternal, ask: askRun, spoil: func(f *faulty) {
		f.run = func(_ context.Context, _ backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			_ = live.Started()
			e := backend.Entry{Path: data("f"), Type: backend.EntryFile, SHA256: strings.Repeat("a", 64)}
			res := backend.RunResult{Stop: backend.StopExit, Changed: make([]backend.Entry, 5000)}
			for i := range res.Changed {
				res.Changed[i] = e
			}
			return res, nil
		}
	}},
}

// bottomless is a file that never ends.
type bottomless struct{}

func (bottomless) Read(p []byte) (int, error) { return len(p), nil }
