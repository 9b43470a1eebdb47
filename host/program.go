package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// program is one installed version of a backend plugin: what its process is
// started from, with what, and who keeps it running.
type program struct {
	found   found
	serves  atomic.Pointer[[]BackendConfig]
	env     []string
	sockets string
	keep    process.Keep
	adopts  atomic.Bool // the next launch may adopt
	log     hclog.Logger
	now     func() time.Time // of what configs offer

	telemetry *telemetry.Telemetry

	calls    calls
	info     atomic.Pointer[backend.Info] // what its last process said that it is
	owned    owned                        // while versions stay beside it
	settings supervise.Settings
	sup      *supervise.Supervisor[*unit]
}

// newProgram checks every config that f is to serve before anything is launched.
// configs are as the operator wrote them.
func (h *Host) newProgram(f found, configs []BackendConfig) (*program, error) {
	if _, err := f.m.Negotiate(backendProtocols); err != nil {
		return nil, err
	}
	p := &program{found: f, log: h.log.Named(f.m.Name), now: h.o.Now, settings: h.o.supervision, telemetry: h.Telemetry()}
	p.settings.StopTimeout = stopTimeout
	complete, err := completeConfigs(f, configs)
	if err != nil {
		return nil, err
	}
	p.serves.Store(&complete)
	if h.sockets == nil {
		if h.sockets, err = newSockets(); err != nil {
			return nil, err
		}
	}
	p.sockets = h.sockets.dir
	if p.keep, err = h.keep(f); err != nil {
		return nil, err
	}
	p.env = allowedEnv(f.m.Env, os.LookupEnv)
	for name, dir := range map[string]string{
		backend.EnvData:  filepath.Join(h.o.DataDir, "plugins", f.m.Name),
		backend.EnvCache: filepath.Join(h.o.CacheDir, f.m.Name),
	} {
		abs, err := filepath.Abs(dir)
		if err == nil {
			err = os.MkdirAll(abs, 0o700)
		}
		if err != nil {
			return nil, fmt.Errorf("plugin %q: make its directory: %w", f.m.Name, err)
		}
		p.env = append(p.env, name+"="+abs)
	}
	slices.Sort(p.env)
	return p, nil
}

// completeConfigs holds configs against the schema of f and fills its defaults in.
func completeConfigs(f found, configs []BackendConfig) ([]BackendConfig, error) {
	out := make([]BackendConfig, 0, len(configs))
	for _, c := range configs {
		var err error
		if c.Config, err = pluginConfig(f, c.Config); err != nil {
			return nil, fmt.Errorf("sandbox config %q: %w", c.ID, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// configs are what p serves, completed by the schema of its version.
func (p *program) configs() []BackendConfig { return *p.serves.Load() }

// config is one of them.
func (p *program) config(id string) (BackendConfig, bool) {
	all := p.configs()
	i := slices.IndexFunc(all, func(c BackendConfig) bool { return c.ID == id })
	if i < 0 {
		return BackendConfig{}, false
	}
	return all[i], true
}

// backendProtocols are the versions of the backend contract this host speaks.
var backendProtocols = []int{1}

// allowedEnv returns the variables that the manifest lists and the host has,
// as NAME=value.
func allowedEnv(names []string, lookup func(string) (string, bool)) []string {
	var env []string
	for _, n := range names {
		if v, ok := lookup(n); ok {
			env = append(env, n+"="+v)
		}
	}
	return env
}

// emptyConfig stands for a config that says nothing.
var emptyConfig = json.RawMessage("{}")

// start begins to keep p running.
func (p *program) start() {
	p.sup = supervise.New(supervise.Options[*unit]{
		Name: p.found.m.Name, Launch: p.launch, Log: p.log,
		Check:    func(ctx context.Context, u *unit) (supervise.Health, error) { return u.health(ctx) },
		Settings: p.settings, Changed: p.changed,
	})
}

// proven waits until the first start succeeded, or returns why it did not.
func (p *program) proven(ctx context.Context) error {
	v, err := p.sup.Settled(ctx)
	if err != nil {
		return err
	}
	if v.State != supervise.Ready && v.State != supervise.Degraded {
		return p.unavailable(&supervise.UnavailableError{State: v.State, Cause: v.Cause})
	}
	return nil
}

// unavailable turns a supervisor's refusal into the contract's own error.
func (p *program) unavailable(err error) error {
	u, ok := errors.AsType[*supervise.UnavailableError](err)
	if !ok {
		return err
	}
	e := backend.Errorf(backend.KindUnavailable, "start", "plugin is not running (%s): %s", u.State, u.Cause)
	e.Provider, e.RetryAfter = p.found.m.Name, u.RetryAfter
	return e
}

// pluginState is a supervisor's state as operators know it.
func pluginState(s supervise.State) PluginState {
	switch s {
	case supervise.Starting:
		return PluginStarting
	case supervise.Ready:
		return PluginReady
	case supervise.Degraded:
		return PluginDegraded
	case supervise.Backoff:
		return PluginBackoff
	case supervise.Quarantined:
		return PluginQuarantined
	case supervise.Failed:
		return PluginFailed
	case supervise.Draining:
		return PluginDraining
	default:
		return PluginStopped
	}
}
