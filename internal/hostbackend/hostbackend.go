// Package hostbackend runs programs as ordinary processes of this machine, in
// directories that stand for sandboxes. It isolates nothing and exists only so
// that the conformance kit, the wire and the process runtime can be tested
// against a backend that works.
//
// Programs see the machine's own paths: an argument that is an absolute path of
// the sandbox is translated.
package hostbackend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Backend is the reference backend.
type Backend struct {
	*generic.Runner
	base   string
	shared *Shared // nil: the sandboxes are this backend's alone

	mu        sync.Mutex
	configs   map[string]json.RawMessage
	boxes     map[backend.Ref]*box
	snapshots map[string]snapshot
	keeper    *generic.Keeper
	control   *control // nil: programs make no calls
}

var _ interface {
	backend.Backend
	backend.Pauser
	backend.KeepAliver
	backend.Snapshotter
	backend.PortDialer
	backend.DetachedRunner
	backend.Watcher
	generic.Controller
} = (*Backend)(nil)

// box is one sandbox.
type box struct {
	dir   string
	root  *os.Root
	env   map[string]string
	index changes.Index
	about backend.Sandbox

	group atomic.Int64 // of the processes of the run, 0 for none
	last  atomic.Int64 // processor time of it that was seen
}

// New makes a backend that keeps its sandboxes below base.
func New(base string) *Backend {
	b := &Backend{
		base:      base,
		configs:   make(map[string]json.RawMessage),
		boxes:     make(map[backend.Ref]*box),
		snapshots: make(map[string]snapshot),
	}
	b.Runner = generic.New(b, generic.Options{})
	b.keeper = generic.NewKeeper(b.Run)
	b.control = newControl()
	return b
}

// Close removes every sandbox that is not shared.
func (b *Backend) Close() error {
	b.keeper.Close()
	if b.control != nil {
		_ = os.RemoveAll(b.control.dir)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.boxes {
		_ = x.root.Close()
	}
	if b.shared != nil {
		return nil
	}
	return os.RemoveAll(b.base)
}

// Info implements backend.Backend.
func (b *Backend) Info(context.Context) (backend.Info, error) {
	caps := []backend.Capability{
		backend.CapMetadata, backend.CapList, backend.CapNames, backend.CapFSEnum, backend.CapPause, backend.CapTTLRefresh,
		backend.CapSnapshots, backend.CapDialPort, backend.CapDetached, backend.CapWatch,
	}
	if hasTerminals {
		caps = append(caps, backend.CapTerminals)
	}
	if b.shared != nil {
		caps = []backend.Capability{backend.CapMetadata, backend.CapList, backend.CapFSEnum, backend.CapShared}
		if b.shared.Named {
			caps = append(caps, backend.CapNames)
		}
	}
	if b.control != nil {
		caps = append(caps, backend.CapControl)
	}
	return backend.Info{
		Name: "host", Version: "0.0.0", Capabilities: caps,
		Languages: []backend.LanguageSupport{{ID: "bash", Toolchain: "sh"}},
	}, nil
}

// Health implements backend.Backend.
func (b *Backend) Health(context.Context) (backend.Health, error) {
	return backend.Health{Ready: true}, nil
}

// config is what a config may hold.
type config struct {
	Label string `json:"label"`
}

func parseConfig(op string, raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var c config
	if err := d.Decode(&c); err != nil {
		return backend.Errorf(backend.KindInvalidRequest, op, "config: %w", err)
	}
	return nil
}

// OpenConfig implements backend.Backend.
func (b *Backend) OpenConfig(ctx context.Context, id string, raw json.RawMessage) error {
	const op = "OpenConfig"
	if err := ctx.Err(); err != nil {
		return err
	}
	if id == "" {
		return backend.Errorf(backend.KindInvalidRequest, op, "id is required")
	}
	if err := parseConfig(op, raw); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configs[id] = raw
	return nil
}

// CloseConfig implements backend.Backend.
func (b *Backend) CloseConfig(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.configs, id)
	return nil
}

// Probe implements backend.Backend.
func (b *Backend) Probe(ctx context.Context, raw json.RawMessage) (backend.ProbeReport, error) {
	if err := ctx.Err(); err != nil {
		return backend.ProbeReport{}, err
	}
	if err := parseConfig("Probe", raw); err != nil {
		return backend.ProbeReport{Detail: err.Error()}, nil
	}
	return backend.ProbeReport{OK: true}, nil
}

// known fails for a config that is not open.
func (b *Backend) known(op, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.configs[id]; !ok {
		e := backend.Errorf(backend.KindNotFound, op, "config %q is not open", id)
		e.Subject, e.Plane = backend.SubjectConfig, backend.PlaneControl
		return e
	}
	return nil
}

// get returns a sandbox.
func (b *Backend) get(ctx context.Context, op string, ref backend.Ref) (*box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.known(op, ref.Config); err != nil {
		return nil, err
	}
	if b.shared != nil {
		return b.sharedBox(op, ref)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.boxes[ref]
	if !ok {
		e := backend.Errorf(backend.KindNotFound, op, "there is no such sandbox")
		e.Subject, e.Plane = backend.SubjectSandbox, backend.PlaneControl
		return nil, e
	}
	return x, nil
}

// awake returns a sandbox that is not paused.
func (b *Backend) awake(ctx context.Context, op string, ref backend.Ref) (*box, error) {
	x, err := b.get(ctx, op, ref)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.about.State != backend.StateRunning {
		e := backend.Errorf(backend.KindConflict, op, "the sandbox is %s", x.about.State)
		e.Subject = backend.SubjectSandbox
		return nil, e
	}
	return x, nil
}

// Create implements backend.Backend.
func (b *Backend) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	const op = "Create"
	if err := ctx.Err(); err != nil {
		return backend.Sandbox{}, err
	}
	if err := b.known(op, spec.Config); err != nil {
		return backend.Sandbox{}, err
	}
	switch {
	case spec.Session == "" || strings.ContainsAny(spec.Session, "/\x00") || spec.Metadata.Session != spec.Session:
		return backend.Sandbox{}, backend.Errorf(backend.KindInvalidRequest, op, "session is not a name, or not that of the metadata")
	case spec.Network.Mode == backend.NetworkOpen || len(spec.Network.Allow) > 0 || len(spec.Volumes) > 0 || spec.Template != "":
		return backend.Sandbox{}, backend.Errorf(backend.KindUnsupported, op, "networks, volumes and templates")
	case spec.Timeout.Mode == backend.TimeoutNever:
		return backend.Sandbox{}, backend.Errorf(backend.KindUnsupported, op, "sandboxes that never end")
	}
	if b.shared != nil {
		return b.createShared(ctx, spec)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ref := backend.Ref{Config: spec.Config, ID: spec.Session}
	if _, ok := b.boxes[ref]; ok {
		e := backend.Errorf(backend.KindConflict, op, "the session has a sandbox")
		e.Subject = backend.SubjectSandbox
		return backend.Sandbox{}, e
	}
	dir, err := os.MkdirTemp(b.base, "box")
	if err != nil {
		return backend.Sandbox{}, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	if spec.Snapshot != "" {
		if err := b.restore(spec.Config, spec.Snapshot, dir); err != nil {
			_ = os.RemoveAll(dir)
			return backend.Sandbox{}, err
		}
	}
	for _, d := range []string{backend.DataDir, backend.TmpDir, "/stage"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return backend.Sandbox{}, backend.Errorf(backend.KindInternal, op, "%w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return backend.Sandbox{}, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	now := time.Now().UTC()
	x := &box{dir: dir, root: root, env: maps.Clone(spec.Env), about: backend.Sandbox{
		Ref: ref, State: backend.StateRunning, Metadata: spec.Metadata, Created: now, LastActive: now,
	}}
	b.boxes[ref] = x
	return x.about, nil
}

// Connect implements backend.Backend.
func (b *Backend) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	x, err := b.get(ctx, "Connect", ref)
	if err != nil {
		return backend.Sandbox{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	x.about.State, x.about.LastActive = backend.StateRunning, time.Now().UTC()
	if b.shared != nil {
		b.touch(x)
	}
	return x.about, nil
}

// Get implements backend.Backend.
func (b *Backend) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	x, err := b.get(ctx, "Get", ref)
	if err != nil {
		return backend.Sandbox{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return x.about, nil
}

// List implements backend.Backend.
func (b *Backend) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.known("List", f.Config); err != nil {
		return nil, err
	}
	if b.shared != nil {
		return b.listShared(f)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []backend.Sandbox
	for _, x := range b.boxes {
		if f.Matches(x.about) {
			out = append(out, x.about)
		}
	}
	return out, nil
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, ref backend.Ref) error {
	x, err := b.get(ctx, "Delete", ref)
	if err != nil {
		var e *backend.Error
		if errors.As(err, &e) && e.Subject == backend.SubjectSandbox {
			return nil
		}
		return err
	}
	if b.shared != nil {
		return b.deleteShared(ctx, ref)
	}
	b.mu.Lock()
	delete(b.boxes, ref)
	b.mu.Unlock()
	_ = x.root.Close()
	return os.RemoveAll(x.dir)
}

// Pause implements backend.Pauser.
func (b *Backend) Pause(ctx context.Context, ref backend.Ref) error {
	x, err := b.get(ctx, "Pause", ref)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	x.about.State = backend.StatePaused
	return nil
}

// KeepAlive implements backend.KeepAliver.
func (b *Backend) KeepAlive(ctx context.Context, ref backend.Ref, ttl time.Duration) (time.Time, error) {
	x, err := b.get(ctx, "KeepAlive", ref)
	if err != nil {
		return time.Time{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	x.about.Expires = time.Now().Add(ttl).UTC()
	return x.about.Expires, nil
}
