package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/hashicorp/go-hclog"
)

// Options of Open.
type Options struct {
	Platform Platform
	Config   Config
	// PluginDirs are searched, in order, for NAME/plugin.yaml.
	PluginDirs []string
	// DataDir holds what plugins keep. It must exist and belong to one process.
	DataDir string
	// CacheDir holds what can be made again, and may be shared by processes;
	// empty means DataDir/cache.
	CacheDir string
	// Keys make and check ids. Every replica needs equal ones.
	Keys *identity.Keys
	// Deployment tells this deployment's sandboxes from others at a shared
	// provider; empty means "default". Node names this machine for backends that
	// keep sandboxes on it; a single machine needs none.
	Deployment, Node string
	// Trust says which plugins may be used.
	Trust Trust
	// Reattach lets plugins whose manifest asks for it outlive a host that dies, and
	// adopts what an earlier host of DataDir left of them. Close ends them all the same.
	Reattach bool
	// Sessions say how sessions are kept.
	Sessions SessionOptions
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	supervision supervise.Settings // of the tests
}

// Host is an open plugin host. It is safe for concurrent use.
type Host struct {
	o        Options
	log      hclog.Logger
	registry *registry
	live     atomic.Pointer[Config] // once it was changed
	changing chan struct{}          // holds a token during a change
	swaps    swaps

	changes    context.Context // of changes; ends before life does
	endChanges context.CancelFunc

	decisions *decisions
	keeping   sessionKeeping
	modules   *handoff.Slot[*moduleSet]
	backends  *backends

	life    context.Context
	end     context.CancelFunc
	tasks   sync.WaitGroup
	sockets *sockets
	closed  sync.Once
	closing error

	unmeasure func()

	mu     sync.Mutex
	mounts []*Mounting
}

// Open loads the configured modules, starts the configured backends and begins
// to sweep sessions. It fails when a module or the default backend cannot be
// used; another backend that does not start is logged and tried again when a
// call needs it. Nothing is left running when Open fails. ctx bounds the
// opening only.
func Open(ctx context.Context, o Options) (_ *Host, err error) {
	clock := o.Now
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	h := &Host{o: o, log: o.Platform.Log.Named("host"), changing: make(chan struct{}, 1)}
	h.life, h.end = context.WithCancel(context.Background())
	h.changes, h.endChanges = context.WithCancel(h.life)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open host: %w", err), h.Close(context.WithoutCancel(ctx)))
		}
	}()
	if h.registry, err = newRegistry(o.PluginDirs, o.Trust); err != nil {
		return nil, err
	}
	if h.decisions, err = openDecisions(o.Config.DecisionLog, h.log); err != nil {
		return nil, fmt.Errorf("decision log: %w", err)
	}
	if err := h.prepareBackends(); err != nil {
		return nil, err
	}
	// Processes start while modules compile.
	started := make(chan error, 1)
	go func() { started <- h.startBackends(ctx) }()
	set, err := h.assembly().make(ctx)
	if err == nil {
		h.modules = newModules(set)
	}
	if err := errors.Join(err, <-started); err != nil {
		return nil, err
	}
	if err := h.openSessions(ctx, clock); err != nil {
		return nil, err
	}
	h.unmeasure = h.Telemetry().AddPlugins(h.measurePlugins)
	return h, nil
}

// complete fills defaults in and checks what a host cannot do without.
func (o *Options) complete() error {
	if o.Keys == nil {
		return errors.New("no keys: see identity.NewKeys")
	}
	if st, err := os.Stat(o.DataDir); err != nil || !st.IsDir() {
		return fmt.Errorf("data directory %q is not a directory", o.DataDir)
	}
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(o.DataDir, "cache")
	}
	if o.Deployment == "" {
		o.Deployment = "default"
	}
	if o.Platform.Log == nil {
		o.Platform.Log = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o.Config.complete()
}

// prepareBackends checks every named config against its plugin before anything
// is launched.
func (h *Host) prepareBackends() error {
	programs, err := h.newPrograms(&h.o.Config, func(string) bool { return true })
	if err != nil {
		return err
	}
	if err := h.claimKept(programs); err != nil {
		return err
	}
	b := &backends{node: h.o.Node}
	b.now.Store(route(&h.o.Config, startLines(programs)))
	h.backends = b
	return nil
}

// newPrograms makes, without starting them, the programs of the plugins that c
// uses and wanted chooses.
func (h *Host) newPrograms(c *Config, wanted func(plugin string) bool) ([]*program, error) {
	var out []*program
	made := make(map[string]bool)
	for _, b := range c.Backends {
		if made[b.Plugin] || !wanted(b.Plugin) {
			continue
		}
		made[b.Plugin] = true
		f, err := h.registry.plugin(manifest.KindBackend, b.Plugin)
		if err != nil {
			return nil, fmt.Errorf("sandbox config %q: %w", b.ID, err)
		}
		p, err := h.newProgram(f, c.of(b.Plugin))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func startLines(programs []*program) map[string]*line {
	lines := make(map[string]*line)
	for _, p := range programs {
		p.start()
		lines[p.found.m.Name] = newLine(p)
	}
	return lines
}

// startBackends waits for the first start of every plugin. Another than the
// default's may fail: it is tried again.
func (h *Host) startBackends(ctx context.Context) error {
	var wg sync.WaitGroup
	var failed error
	r := h.backends.now.Load()
	for name, l := range r.lines {
		wg.Go(func() {
			err := l.program().proven(ctx)
			if err != nil && name == r.byID[r.deflt].Plugin {
				failed = fmt.Errorf("the default backend: %w", err)
			}
		})
	}
	wg.Wait()
	return failed
}

// Close unmounts entries, ends what they run, and stops every plugin. Calls in
// flight may finish until ctx ends; after that everything is stopped within
// seconds, so Close always returns. Live sandboxes stay: other replicas may own
// them. Further calls return the first one's error.
func (h *Host) Close(ctx context.Context) error {
	h.closed.Do(func() {
		h.StopChanges()
		h.mu.Lock()
		mounts := h.mounts
		h.mounts = nil
		h.mu.Unlock()
		var errs []error
		for _, m := range slices.Backward(mounts) {
			errs = append(errs, m.close(ctx))
		}
		if h.unmeasure != nil {
			h.unmeasure()
		}
		h.end()
		h.tasks.Wait()
		if h.backends != nil {
			errs = append(errs, h.backends.close(ctx))
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if h.modules != nil {
			errs = append(errs, h.modules.Close(ctx))
		}
		errs = append(errs, h.decisions.close())
		errs = append(errs, h.keeping.close())
		if h.sockets != nil {
			errs = append(errs, h.sockets.close())
		}
		h.closing = errors.Join(errs...)
	})
	return h.closing
}

// Keys make and check ids.
func (h *Host) Keys() *identity.Keys { return h.o.Keys }

// Plugins describes every plugin that was found, as it is now.
func (h *Host) Plugins() []PluginStatus {
	used := make(map[string]bool)
	for _, p := range h.config().Policies {
		used[p.Plugin] = true
	}
	for _, r := range h.config().Languages {
		used[r] = true
	}
	serving := h.modulesInUse()
	var out []PluginStatus
	for _, f := range h.registry.all() {
		st := f.status
		if f.m != nil {
			if l := h.backends.line(st.Name); l != nil {
				out = append(append(out, l.status(st)), l.staying()...)
				continue
			} else if used[st.Name] {
				if now, ok := serving[st.Name]; ok { // of another version, while a swap is watched
					st = now
				}
				st.State = PluginReady
			}
		}
		out = append(out, st)
	}
	return out
}

// Ready returns nil when a run on the default target would succeed now, and
// otherwise why it would not.
func (h *Host) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	t, err := h.backends.Default(ctx, "")
	if err != nil {
		return err
	}
	defer t.Release()
	health, err := h.backends.health(ctx, t)
	if err != nil {
		return fmt.Errorf("backend health: %w", err)
	}
	if !health.Ready {
		return fmt.Errorf("backend is not ready: %s", health.Reason)
	}
	if !slices.ContainsFunc(h.Offers(t), func(o Offer) bool { return o.Missing == "" }) {
		return errors.New("the default backend can run no language; see caisson doctor")
	}
	return nil
}
