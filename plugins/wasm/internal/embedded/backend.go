// Package embedded is the default backend: sandboxes are directories, programs
// run in WebAssembly instances of their language's interpreter. It needs no
// daemon, no root and no network, and gives programs none of them either.
//
// It joins three parts and adds the contract: package store keeps sandboxes,
// package interp runs programs, package rootfs is what programs see.
package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// Name is the plugin's name in its manifest.
const Name = "wasm"

// StateSchema is the version of what the store keeps.
const StateSchema = "1"

// Engine runs programs. *interp.Engine is one.
type Engine interface {
	Run(ctx context.Context, p interp.Program) (interp.Result, error)
	// Prepare compiles what a command needs, so that Run does not have to.
	Prepare(ctx context.Context, command string) error
	Languages() []interp.Language
	Warm(ctx context.Context, interpreters ...string) error
	// Sweep deletes what nobody has used for weeks from the cache.
	Sweep() error
	// Report says how programs are started, in lines for the operator.
	Report() []string
}

// Options of New.
type Options struct {
	// Version is that of the manifest.
	Version string
	// Dir holds the sandboxes.
	Dir    string
	Engine Engine
	// Quota bounds each sandbox's data.
	Quota rootfs.Limits
	Log   hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Backend implements backend.Backend, backend.KeepAliver and backend.Snapshotter.
type Backend struct {
	o     Options
	store *store.Store

	life  context.Context
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.RWMutex
	configs map[string]config
	warm    error // nil once the interpreters are ready

	// making is held from counting what a config has to making one more.
	making sync.Mutex
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.KeepAliver  = (*Backend)(nil)
	_ backend.Snapshotter = (*Backend)(nil)
)

// New opens the store and begins to compile the interpreters. Close ends it.
func New(o Options) (*Backend, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	st, err := store.Open(o.Dir, store.Options{Quota: o.Quota, Now: o.Now})
	if err != nil {
		return nil, err
	}
	b := &Backend{o: o, store: st, configs: make(map[string]config), warm: errWarming}
	b.life, b.end = context.WithCancel(context.Background())
	b.tasks.Go(b.warmUp)
	b.tasks.Go(b.keepSwept)
	return b, nil
}

var errWarming = errors.New("interpreters are being compiled")

// Close ends the background work and closes the store. Runs must be over.
func (b *Backend) Close() error {
	b.end()
	b.tasks.Wait()
	return b.store.Close()
}

func (b *Backend) warmUp() {
	err := b.o.Engine.Warm(b.life)
	if err != nil && b.life.Err() == nil {
		b.o.Log.Error("interpreters did not compile", "error", err)
	}
	b.mu.Lock()
	b.warm = err
	b.mu.Unlock()
	b.warmFurther()
	if b.life.Err() != nil {
		return
	}
	b.o.Log.Info("interpreters are ready", "how", b.o.Engine.Report())
	if err := b.o.Engine.Sweep(); err != nil {
		b.o.Log.Warn("what nobody needs stays in the cache", "error", err)
	}
}

// warmFurther compiles what else is installed. That takes a while, and nobody waits for
// it; whoever comes before an interpreter is compiled waits for that alone. What failed
// for lack of something is tried again.
func (b *Backend) warmFurther() {
	var rest []string
	for _, l := range b.o.Engine.Languages() {
		if l.Missing == "" && !l.OnDemand {
			rest = append(rest, l.ID)
		}
	}
	if !b.wait(furtherPause) {
		return
	}
	for pause := interp.CompilePause; ; pause = min(2*pause, longestPause) {
		rest = slices.DeleteFunc(rest, func(id string) bool {
			if b.life.Err() != nil {
				return true
			}
			err := b.o.Engine.Warm(b.life, id)
			if err != nil && b.life.Err() == nil {
				b.o.Log.Error("an interpreter did not compile", "language", id, "error", err)
			}
			return !errors.Is(err, interp.ErrCompiling)
		})
		if len(rest) == 0 || !b.wait(pause) {
			return
		}
	}
}

const (
	// furtherPause leaves the first programs alone: of a process that lasts no longer
	// nobody wants anything else.
	furtherPause = 5 * time.Second
	// longestPause is that between two tries to compile what could not be.
	longestPause = 15 * time.Minute
)

// wait reports whether the backend still lives after a while.
func (b *Backend) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.life.Done():
		return false
	}
}

// Info describes the plugin.
func (b *Backend) Info(context.Context) (backend.Info, error) {
	disk := rootfs.NewQuota(b.o.Quota).Limits()
	return backend.Info{
		Name:    Name,
		Version: b.o.Version,
		Capabilities: []backend.Capability{
			backend.CapReconnect, backend.CapMetadata, backend.CapList, backend.CapFSEnum, backend.CapNames, backend.CapTTLRefresh,
			backend.CapSnapshots, backend.CapControl,
		},
		Languages:   b.languages(),
		StateSchema: []string{StateSchema},
		MaxLimits: backend.Limits{
			MemoryBytes: maxMemory, CPUs: 1, Processes: 1, DiskBytes: disk.Bytes, DiskFiles: disk.Entries,
		},
	}, nil
}

// maxMemory is what a 32-bit address space leaves a guest.
const maxMemory = 4<<30 - 64<<10

// Health is ready once the core interpreters are compiled and one language runs.
func (b *Backend) Health(context.Context) (backend.Health, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if errors.Is(b.warm, errWarming) {
		return backend.Health{Reason: b.warm.Error(), RetryAfter: time.Second}, nil
	}
	reason := "no interpreter is installed"
	for _, l := range b.languages() {
		if l.Missing == "" {
			return backend.Health{Ready: true}, nil
		}
		reason = l.Missing
	}
	return backend.Health{Reason: reason}, nil
}

// toolchains name for the language table what each interpreter is.
var toolchains = map[string]string{
	"py": "cpython", "js": "quickjs", "ts": "quickjs", "php": "php", "rb": "ruby", "sql": "sqlite",
	"c": "clang", "cpp": "clang", "bash": "bash",
}

func (b *Backend) languages() []backend.LanguageSupport {
	var out []backend.LanguageSupport
	for _, l := range b.o.Engine.Languages() {
		out = append(out, backend.LanguageSupport{ID: l.ID, Toolchain: toolchains[l.ID], Version: l.Version, Missing: l.Missing})
	}
	return out
}

// Probe checks a config and says what would run.
func (b *Backend) Probe(_ context.Context, raw json.RawMessage) (backend.ProbeReport, error) {
	if _, err := parseConfig("Probe", raw); err != nil {
		return backend.ProbeReport{}, err
	}
	r := backend.ProbeReport{Languages: b.languages()}
	n := 0
	for _, l := range r.Languages {
		if l.Missing == "" {
			n++
		}
	}
	r.OK = n > 0
	r.Detail = strings.Join(append([]string{fmt.Sprintf("%d of %d languages installed", n, len(r.Languages))}, b.o.Engine.Report()...), "; ")
	return r, nil
}
