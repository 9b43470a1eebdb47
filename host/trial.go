package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// TrialOptions of TryBackend.
type TrialOptions struct {
	Trust Trust
	// DataDir is where the plugin keeps things; it must exist.
	DataDir string
	// Config is the plugin's own, completed and checked by its schema.
	Config json.RawMessage
	Log    hclog.Logger
}

// Trial is a backend plugin that runs for whoever looks at it.
type Trial struct {
	Backend backend.Backend
	Info    backend.Info
	// Config is TrialOptions.Config, completed.
	Config json.RawMessage
	// Lacks is what its manifest says that it lacks.
	Lacks []string

	program *program
	sockets *sockets
}

// TryBackend starts the backend plugin in dir as a host would, with no config open.
// Close ends it.
func TryBackend(ctx context.Context, dir string, o TrialOptions) (*Trial, error) {
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	f := inspect(dir, "", o.Trust)
	switch {
	case f.m == nil:
		return nil, errors.New(f.status.Cause)
	case f.m.Kind != manifest.KindBackend:
		return nil, fmt.Errorf("plugin %q is a %s plugin, not a backend", f.m.Name, f.m.Kind)
	}
	config, err := pluginConfig(f, o.Config)
	if err != nil {
		return nil, err
	}
	ho := Options{DataDir: o.DataDir, Platform: Platform{Log: o.Log}, Config: Config{Backends: []BackendConfig{{Plugin: f.m.Name}}}}
	h := &Host{o: ho, log: o.Log}
	h.o.CacheDir = o.DataDir
	p, err := h.newProgram(f, nil)
	t := &Trial{Config: config, Lacks: f.m.Lacks, program: p, sockets: h.sockets}
	if err == nil {
		p.start()
		err = p.proven(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close(context.WithoutCancel(ctx)))
	}
	u, err := p.sup.Unit(ctx)
	if err != nil {
		return nil, errors.Join(err, t.Close(context.WithoutCancel(ctx)))
	}
	t.Backend, t.Info = u.backend, u.info
	return t, nil
}

// Close ends the plugin.
func (t *Trial) Close(ctx context.Context) error {
	var errs []error
	if t.program != nil && t.program.sup != nil {
		errs = append(errs, t.program.sup.Close(ctx))
	}
	if t.sockets != nil {
		errs = append(errs, t.sockets.close())
	}
	return errors.Join(errs...)
}
