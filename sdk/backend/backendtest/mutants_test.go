package backendtest_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Mutants are the reference backend with one mistake each, of the kind that
// backends make. The kit is only as good as what it catches.

const mutantEnv = "CAISSON_KIT_MUTANT"

// mutant is a backend whose methods a test replaces.
type mutant struct {
	*hostbackend.Backend
	dir string

	info   func(backend.Info) backend.Info
	get    func(context.Context, backend.Ref) (backend.Sandbox, error)
	create func(context.Context, backend.CreateSpec) (backend.Sandbox, error)
	list   func(context.Context, backend.ListFilter) ([]backend.Sandbox, error)
	del    func(context.Context, backend.Ref) error
	closed func(context.Context, string) error
	read   func(context.Context, backend.Ref, string) (io.ReadCloser, backend.Entry, error)
	write  func(context.Context, backend.Ref, string, backend.WriteOptions, io.Reader) (backend.Entry, error)
	stat   func(context.Context, backend.Ref, string) (backend.Entry, error)
	walk   func(context.Context, backend.WalkRequest) (backend.WalkResult, error)
	ls     func(context.Context, backend.Ref, string) ([]backend.Entry, error)
	remove func(context.Context, backend.Ref, string) error
	run    func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error)
	exec   func(context.Context, backend.ExecRequest) (backend.ExecResult, error)
	cmd    func(context.Context, generic.Command, generic.Output) (generic.Result, error)

	snaps  func(context.Context, string, map[string]string) ([]backend.Snapshot, error)
	attach func(context.Context, backend.Ref, string, backend.RunIO) (backend.RunResult, error)
	watch  func(context.Context, backend.Ref, string, bool, func(backend.WatchEvent) error) error
	term   func(context.Context, backend.TerminalSpec) (backend.Terminal, error)
}

func newMutant(dir string) *mutant {
	b := hostbackend.New(dir)
	m := &mutant{
		Backend: b, dir: dir, info: func(i backend.Info) backend.Info { return i },
		get: b.Get, create: b.Create, list: b.List, del: b.Delete, closed: b.CloseConfig, read: b.ReadFile, write: b.WriteFile,
		stat: b.Stat, walk: b.Walk, ls: b.ListDir, remove: b.Remove, exec: b.Exec, cmd: b.Execute,
		snaps: b.ListSnapshots, attach: b.AttachRun, watch: b.Watch, term: b.OpenTerminal,
	}
	m.run = generic.New(m, generic.Options{}).Run
	return m
}

func (m *mutant) Info(ctx context.Context) (backend.Info, error) {
	i, err := m.Backend.Info(ctx)
	return m.info(i), err
}

func (m *mutant) Get(ctx context.Context, r backend.Ref) (backend.Sandbox, error) {
	return m.get(ctx, r)
}

func (m *mutant) Create(ctx context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
	return m.create(ctx, s)
}

func (m *mutant) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	return m.list(ctx, f)
}
func (m *mutant) Delete(ctx context.Context, r backend.Ref) error  { return m.del(ctx, r) }
func (m *mutant) CloseConfig(ctx context.Context, id string) error { return m.closed(ctx, id) }

func (m *mutant) ReadFile(ctx context.Context, r backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	return m.read(ctx, r, p)
}

func (m *mutant) WriteFile(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
	return m.write(ctx, r, p, o, c)
}

func (m *mutant) Stat(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
	return m.stat(ctx, r, p)
}

func (m *mutant) Walk(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
	return m.walk(ctx, r)
}

func (m *mutant) ListDir(ctx context.Context, r backend.Ref, p string) ([]backend.Entry, error) {
	return m.ls(ctx, r, p)
}

func (m *mutant) Remove(ctx context.Context, r backend.Ref, p string) error {
	return m.remove(ctx, r, p)
}

func (m *mutant) Run(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	return m.run(ctx, s, live)
}

func (m *mutant) Exec(ctx context.Context, r backend.ExecRequest) (backend.ExecResult, error) {
	return m.exec(ctx, r)
}

func (m *mutant) Execute(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
	return m.cmd(ctx, c, out)
}

func (m *mutant) ListSnapshots(ctx context.Context, c string, l map[string]string) ([]backend.Snapshot, error) {
	return m.snaps(ctx, c, l)
}

func (m *mutant) AttachRun(ctx context.Context, r backend.Ref, id string, live backend.RunIO) (backend.RunResult, error) {
	return m.attach(ctx, r, id, live)
}

func (m *mutant) Watch(ctx context.Context, r backend.Ref, root string, rec bool, fn func(backend.WatchEvent) error) error {
	return m.watch(ctx, r, root, rec, fn)
}

func (m *mutant) OpenTerminal(ctx context.Context, s backend.TerminalSpec) (backend.Terminal, error) {
	return m.term(ctx, s)
}

// noExit forgets how the program ended.
type noExit struct{ backend.Terminal }

func (noExit) Exit() (int, bool) { return 0, false }

// real is where a path of a sandbox is on this machine.
func (m *mutant) real(t *testing.T, path string) string {
	found, err := filepath.Glob(filepath.Join(m.dir, "box*", path))
	if err != nil || len(found) != 1 {
		t.Logf("%q is %d files here", path, len(found))
		return filepath.Join(m.dir, "nowhere")
	}
	return found[0]
}

// result changes what a run came to.
func (m *mutant) result(change func(backend.RunSpec, *backend.RunResult)) {
	inner := m.run
	m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
		res, err := inner(ctx, s, live)
		change(s, &res)
		return res, err
	}
}

// wrapIO changes what a run tells.
type wrapIO struct {
	backend.RunIO
	started func(backend.RunIO) error
	stdout  func(backend.RunIO, []byte) error
	call    func(backend.RunIO, context.Context, backend.ControlCall) (backend.ControlReply, error)
}

func (w wrapIO) Call(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
	if w.call == nil {
		return w.RunIO.Call(ctx, c)
	}
	return w.call(w.RunIO, ctx, c)
}

func (w wrapIO) Started() error {
	if w.started == nil {
		return w.RunIO.Started()
	}
	return w.started(w.RunIO)
}

func (w wrapIO) Stdout(p []byte) error {
	if w.stdout == nil {
		return w.RunIO.Stdout(p)
	}
	return w.stdout(w.RunIO, p)
}

func (m *mutant) tells(w wrapIO) {
	inner := m.run
	m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
		w.RunIO = live
		return inner(ctx, s, w)
	}
}

type mutation struct {
	name string
	// caught is the test of the kit that has to fail.
	caught string
	mutate func(t *testing.T, m *mutant)
}

var mutations = slices.Concat(lifeMutations, fileMutations, runMutations, controlMutations, lackMutations)

// TestMutant runs the kit against one mutant. It is started by TestKitCatches.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantEnv)
	i := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == name })
	if i < 0 {
		t.Skip("no mutant is asked for")
	}
	h := inProcess(backendtest.Shell("sh"))
	h.Patience = 4 * time.Second
	if l, ok := claimed[name]; ok {
		h.Lacks = []backendtest.Lack{l}
	}
	h.New = func(t *testing.T) (backend.Backend, json.RawMessage) {
		m := newMutant(t.TempDir())
		mutations[i].mutate(t, m)
		return m, json.RawMessage(`{}`)
	}
	backendtest.Run(t, h)
}

// TestKitCatches proves that the kit finds each mistake, in the test that is
// about it, and finds none where there is none.
func TestKitCatches(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			only := "^TestMutant$/^backend$/^run$/^hello$"
			want := "--- FAIL: TestMutant "
			if m.caught != "" {
				group, test, _ := strings.Cut(m.caught, "/")
				only = "^TestMutant$/^backend$/^" + group + "$/^" + test + "$"
				want = "--- FAIL: TestMutant/backend/" + m.caught + " "
			}
			cmd := exec.Command(os.Args[0], "-test.run", only, "-test.v", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), mutantEnv+"="+m.name)
			out, err := cmd.CombinedOutput()
			if m.name == "none" {
				if err != nil {
					t.Errorf("the kit finds fault with a backend that works:\n%s", out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("the kit does not catch it in %q: %v\n%s", m.caught, err, out)
			}
		})
	}
}
