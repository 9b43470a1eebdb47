package sandboxes

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Name is the plugin's name in its manifest.
const Name = engine.Provider

// StateSchema is the version of names, labels and records.
const StateSchema = "1"

// Options of New.
type Options struct {
	// Version is that of the manifest.
	Version string
	// Dir is this installation's own, and outlives the process.
	Dir string
	// Agents are the programs to put into containers, by the engine's architecture
	// ("amd64").
	Agents map[string]Agent
	Log    hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Getenv finds the engine where a config names none; nil means os.Getenv.
	Getenv func(string) string
	// SweepEvery is how often clocks are looked at. Default one minute.
	SweepEvery time.Duration
}

// Backend implements backend.Backend and every optional part but those for desktops
// and programmatic calls. It is safe for concurrent use.
type Backend struct {
	o      Options
	owner  *owner
	store  *store
	runner *generic.Runner

	life  context.Context
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.RWMutex
	configs map[string]*config
	boxes   map[string]*box // by the id of the container

	sessions keyed
	nobodys  names // of containers that are being made or wait
	agents   agentFiles
}

var (
	_ backend.Backend         = (*Backend)(nil)
	_ backend.KeepAliver      = (*Backend)(nil)
	_ backend.Pauser          = (*Backend)(nil)
	_ backend.Snapshotter     = (*Backend)(nil)
	_ backend.TemplateCatalog = (*Backend)(nil)
	_ backend.VolumeManager   = (*Backend)(nil)
	_ backend.TerminalOpener  = (*Backend)(nil)
	_ backend.PortDialer      = (*Backend)(nil)
	_ backend.DetachedRunner  = (*Backend)(nil)
	_ backend.Watcher         = (*Backend)(nil)
)

// New claims the data directory. It asks no engine anything: that begins with a
// config that is enabled. Close ends it.
func New(o Options) (*Backend, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = time.Minute
	}
	own, err := claim(o.Dir)
	if err != nil {
		return nil, err
	}
	st, err := openStore(filepath.Join(o.Dir, "records"))
	if err != nil {
		own.release()
		return nil, err
	}
	b := &Backend{o: o, owner: own, store: st, configs: make(map[string]*config), boxes: make(map[string]*box)}
	b.agents.known = o.Agents
	b.runner = generic.New(primitives{b}, generic.Options{ProgramRoot: programDir})
	b.life, b.end = context.WithCancel(context.Background())
	b.tasks.Go(b.keepSwept)
	return b, nil
}

// Close ends the containers that wait for a session, and the background work. The
// sandboxes stay.
func (b *Backend) Close() error {
	b.mu.Lock()
	open := make([]*config, 0, len(b.configs))
	for _, c := range b.configs {
		open = append(open, c)
	}
	clear(b.configs)
	boxes := b.boxes
	b.boxes = make(map[string]*box)
	b.mu.Unlock()
	b.end()
	var wg sync.WaitGroup
	for _, c := range open {
		wg.Go(c.close)
	}
	wg.Wait()
	for _, x := range boxes {
		x.close()
	}
	b.tasks.Wait()
	b.owner.release()
	return nil
}

// Info describes the plugin.
func (b *Backend) Info(context.Context) (backend.Info, error) {
	return backend.Info{
		Name: Name, Version: b.o.Version,
		Capabilities: []backend.Capability{
			backend.CapReconnect, backend.CapMetadata, backend.CapList, backend.CapFSEnum, backend.CapNames,
			backend.CapTTLRefresh, backend.CapPause, backend.CapSnapshots, backend.CapTemplates, backend.CapVolumes,
			backend.CapTerminals, backend.CapDialPort, backend.CapDetached, backend.CapWatch,
			backend.CapControl,
		},
		Languages:   presumed(),
		StateSchema: []string{StateSchema},
	}, nil
}

// Health is ready while one engine answers, or none is configured.
func (b *Backend) Health(ctx context.Context) (backend.Health, error) {
	b.mu.RLock()
	open := make([]*config, 0, len(b.configs))
	for _, c := range b.configs {
		open = append(open, c)
	}
	b.mu.RUnlock()
	if len(open) == 0 {
		return backend.Health{Ready: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answers := make(chan error, len(open))
	for _, c := range open {
		go func() { answers <- c.eng.Ping(ctx) }()
	}
	var last error
	for range open {
		err := <-answers
		if err == nil {
			return backend.Health{Ready: true}, nil
		}
		last = err
	}
	var e *backend.Error
	reason := "the engine does not answer"
	if errors.As(engine.Fail(context.WithoutCancel(ctx), "Health", backend.SubjectConfig, last), &e) {
		reason = e.Message
	}
	return backend.Health{Reason: reason, RetryAfter: time.Second}, nil
}

// Probe says whether sandboxes could be made with a config, and what they would run.
func (b *Backend) Probe(ctx context.Context, raw json.RawMessage) (backend.ProbeReport, error) {
	c, err := b.newConfig("Probe", "", raw)
	if err != nil {
		return backend.ProbeReport{}, err
	}
	defer c.eng.Close()
	return b.probe(ctx, c)
}

// keyed is a lock for each of many names.
type keyed struct {
	mu   sync.Mutex
	held map[string]*holder
}

type holder struct {
	busy  chan struct{}
	users int
}

// lock waits for a name, or for ctx.
func (k *keyed) lock(ctx context.Context, name string) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[string]*holder)
	}
	h := k.held[name]
	if h == nil {
		h = &holder{busy: make(chan struct{}, 1)}
		k.held[name] = h
	}
	h.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(k.held, name)
		}
	}
	select {
	case h.busy <- struct{}{}:
		return func() { <-h.busy; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
