package exec

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
)

// shells is the reference backend, whose programs are real processes, with a
// clock of the test and a place to put failures that it never has by itself.
type shells struct {
	*hostbackend.Backend
	root string
	now  func() time.Time

	mu    sync.Mutex
	about map[string]*backend.Sandbox // by session: what tests change of it

	// What happens before a call is carried out.
	onCreate, onConnect, onList, onWrite, onRead, onRemove func() error
	onRun                                                  func(ctx context.Context, spec backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool)
	// onReading is called with the context of what reads a file.
	onReading func(context.Context)
	// onOutput is called with each piece of output.
	onOutput                func()
	created, connects, runs atomic.Int64
}

var shellsInfo = backend.Info{
	Name: "shells", Version: "1.0.0", Capabilities: []backend.Capability{backend.CapNames, backend.CapControl},
	Languages: []backend.LanguageSupport{{ID: "bash", Toolchain: "sh"}, {ID: "c", Toolchain: "sh"}, {ID: "py", Toolchain: "cpython"}},
}

func newShells(root string, now func() time.Time, configs ...string) (*shells, error) {
	s := &shells{Backend: hostbackend.New(root), root: root, now: now, about: make(map[string]*backend.Sandbox)}
	for _, c := range configs {
		if err := s.OpenConfig(context.Background(), c, json.RawMessage(`{}`)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func hook(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// as returns a sandbox with what tests say of it.
func (s *shells) as(sb backend.Sandbox) backend.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.about[sb.Metadata.Session]; x != nil {
		sb.Created, sb.LastActive, sb.Metadata.Origin = x.Created, x.LastActive, x.Metadata.Origin
	}
	return sb
}

func (s *shells) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	if err := hook(s.onCreate); err != nil {
		return backend.Sandbox{}, err
	}
	s.created.Add(1)
	sb, err := s.Backend.Create(ctx, spec)
	if err == nil {
		x := sb
		x.Created, x.LastActive = s.now(), s.now()
		s.mu.Lock()
		s.about[spec.Session] = &x
		s.mu.Unlock()
	}
	return s.as(sb), err
}

func (s *shells) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	if err := hook(s.onConnect); err != nil {
		return backend.Sandbox{}, err
	}
	s.connects.Add(1)
	sb, err := s.Backend.Connect(ctx, ref)
	if err == nil {
		s.change(sb.Metadata.Session, func(x *backend.Sandbox) { x.LastActive = s.now() })
	}
	return s.as(sb), err
}

func (s *shells) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	if err := hook(s.onList); err != nil {
		return backend.Sandbox{}, err
	}
	sb, err := s.Backend.Get(ctx, ref)
	return s.as(sb), err
}

func (s *shells) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	if err := hook(s.onList); err != nil {
		return nil, err
	}
	list, err := s.Backend.List(ctx, f)
	for k := range list {
		list[k] = s.as(list[k])
	}
	return list, err
}

func (s *shells) Run(ctx context.Context, spec backend.RunSpec, rio backend.RunIO) (backend.RunResult, error) {
	s.runs.Add(1)
	if s.onRun != nil {
		if res, err, done := s.onRun(ctx, spec, rio); done {
			return res, err
		}
	}
	if s.onOutput != nil {
		rio = noisy{rio, s.onOutput}
	}
	return s.Backend.Run(ctx, spec, rio)
}

type noisy struct {
	backend.RunIO
	f func()
}

func (n noisy) Stdout(p []byte) error { n.f(); return n.RunIO.Stdout(p) }

func (s *shells) ReadFile(ctx context.Context, ref backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	if err := hook(s.onRead); err != nil {
		return nil, backend.Entry{}, err
	}
	if s.onReading != nil {
		s.onReading(ctx)
	}
	return s.Backend.ReadFile(ctx, ref, p)
}

func (s *shells) WriteFile(ctx context.Context, ref backend.Ref, p string, o backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	if err := hook(s.onWrite); err != nil {
		return backend.Entry{}, err
	}
	return s.Backend.WriteFile(ctx, ref, p, o, r)
}

func (s *shells) Remove(ctx context.Context, ref backend.Ref, p string) error {
	if err := hook(s.onRemove); err != nil {
		return err
	}
	return s.Backend.Remove(ctx, ref, p)
}

// change changes what is known of a session's sandbox.
func (s *shells) change(session string, f func(x *backend.Sandbox)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.about[session]; x != nil {
		f(x)
	}
}

// live returns the sandboxes that exist.
func (s *shells) live() []backend.Sandbox {
	var out []backend.Sandbox
	for _, c := range []string{"main", "other"} {
		list, err := s.Backend.List(context.Background(), backend.ListFilter{Config: c})
		if err != nil {
			panic(err)
		}
		out = append(out, list...)
	}
	return out
}

// The rig looks into sandboxes and changes them behind everybody's back.

func (r *rig) box(session string) backend.Ref {
	r.t.Helper()
	for _, sb := range r.shells.live() {
		if sb.Metadata.Session == session {
			return sb.Ref
		}
	}
	r.t.Fatalf("no sandbox of session %s", session)
	return backend.Ref{}
}

func (r *rig) pause(session string) {
	r.t.Helper()
	if err := r.shells.Pause(context.Background(), r.box(session)); err != nil {
		r.t.Fatal(err)
	}
}

// content returns a file, or why it cannot be read.
func (r *rig) content(session, name string) string {
	r.t.Helper()
	body, _, err := r.shells.Backend.ReadFile(context.Background(), r.box(session), backend.DataDir+"/"+name)
	if err != nil {
		return err.Error()
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func (r *rig) write(session, name, content string) {
	r.t.Helper()
	if _, err := r.shells.Backend.WriteFile(context.Background(), r.box(session), backend.DataDir+"/"+name, backend.WriteOptions{}, strings.NewReader(content)); err != nil {
		r.t.Fatal(err)
	}
}

// leftovers fails the test when something half done is on the disk.
func (s *shells) leftovers(t testing.TB) {
	t.Helper()
	err := filepath.WalkDir(s.root, func(p string, _ fs.DirEntry, err error) error {
		if filepath.Base(filepath.Dir(p)) == "stage" {
			t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
