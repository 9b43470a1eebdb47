package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/hashicorp/go-hclog"
)

// PluginState is what became of a plugin that was found.
type PluginState string

const (
	// PluginUnused: found and readable, and nothing asks for it.
	PluginUnused PluginState = "unused"
	// PluginSkipped: another directory, searched earlier, has the same name.
	PluginSkipped PluginState = "skipped"
	// PluginError: it cannot be used; Cause says why.
	PluginError PluginState = "error"
	// PluginStarting: its process was started and is not ready for calls yet.
	PluginStarting PluginState = "starting"
	// PluginReady: loaded, or its process runs.
	PluginReady PluginState = "ready"
	// PluginDegraded: its process runs, and says that it is not ready, or did not
	// answer when it was asked.
	PluginDegraded PluginState = "degraded"
	// PluginBackoff: its process ended or did not start, and is started again after
	// a pause.
	PluginBackoff PluginState = "backoff"
	// PluginQuarantined: its process ended too often; only an operator's reset
	// starts it again.
	PluginQuarantined PluginState = "quarantined"
	// PluginFailed: its program is not the file that it has to be; it is started once
	// the file has changed.
	PluginFailed PluginState = "failed"
	// PluginDraining: it is on its way out, with calls in flight.
	PluginDraining PluginState = "draining"
	// PluginStopped: it is not running and will not be.
	PluginStopped PluginState = "stopped"
)

// PluginStatus describes one plugin for operators.
type PluginStatus struct {
	// Name is that of the manifest, or of the directory when there is no readable one.
	Name    string      `json:"name"`
	Kind    string      `json:"kind,omitempty"`
	Runtime string      `json:"runtime,omitempty"`
	Version string      `json:"version,omitempty"`
	State   PluginState `json:"state"`
	// Cause explains every state but ready and unused.
	Cause string `json:"cause,omitempty"`
	// Fix is a command or a sentence that mends Cause, where one is known.
	Fix string `json:"fix,omitempty"`
	// SHA256 is the pinned digest; empty when none is.
	SHA256 string `json:"sha256,omitempty"`
	// Dir is where it was found.
	Dir string `json:"dir"`
	// Since is when it came into State, and Restarts how often its process was
	// started again; both of running backends only.
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts,omitempty"`
}

// Discover searches dirs for NAME/plugin.yaml and reports everything found, in
// order of directories and names. It starts nothing, but reads every artifact and
// holds it against its manifest: what Open would refuse for what the files are is
// a PluginError here. One bad plugin never hides the others; a directory that does
// not exist holds none. ctx bounds the reading.
func Discover(ctx context.Context, dirs []string, trust Trust) ([]PluginStatus, error) {
	found, err := discover(dirs, trust)
	out := make([]PluginStatus, len(found))
	for i, f := range found {
		if f.m != nil {
			f.fail(f.verify(ctx))
		}
		out[i] = f.status
	}
	return out, err
}

// Trust says which plugins may be used, beside those whose files others can change,
// which never are.
type Trust struct {
	// StrictDigests refuses plugins whose manifest pins no digest.
	StrictDigests bool
	// SigningKeys, unless empty, are those of which one must have signed the
	// manifest, which then pins a digest too.
	SigningKeys manifest.Keys
}

func (t Trust) load(dir string) (*manifest.Manifest, error) {
	switch {
	case !t.SigningKeys.Empty():
		return manifest.LoadSigned(dir, t.SigningKeys)
	case t.StrictDigests:
		return manifest.Load(dir, manifest.RequireDigest)
	default:
		return manifest.Load(dir)
	}
}

// found is one discovered plugin; m is nil when it cannot be used.
type found struct {
	status PluginStatus
	m      *manifest.Manifest
}

// fail makes f unusable because of err, if there is one.
func (f *found) fail(err error) {
	if err == nil {
		return
	}
	f.m = nil
	f.status.State, f.status.Cause = PluginError, err.Error()
	for _, prefix := range []string{"plugin", "wasm module"} { // Name says it
		f.status.Cause = strings.TrimPrefix(f.status.Cause, fmt.Sprintf("%s %q: ", prefix, f.status.Name))
	}
	if fe, ok := errors.AsType[*process.FileError](err); ok {
		f.status.Fix = fe.Fix
	}
}

// verify looks at what a plugin would be started from, as starting it would.
func (f found) verify(ctx context.Context) error {
	_, err := f.look(ctx)
	return err
}

// look is verify, and what it found out of a module.
func (f found) look(ctx context.Context) (wasm.Info, error) {
	if f.m.Runtime == manifest.RuntimeProcess {
		if _, err := f.m.Negotiate(backendProtocols); err != nil {
			return wasm.Info{}, err
		}
		return wasm.Info{}, process.Check(ctx, f.artifact(), f.m.SHA256)
	}
	spec, err := moduleSpec(f, hclog.NewNullLogger())
	if err != nil {
		return wasm.Info{}, err
	}
	return wasm.Check(ctx, spec)
}

// artifact is the path of what the manifest describes.
func (f found) artifact() string {
	return filepath.Join(f.status.Dir, filepath.FromSlash(f.m.Path))
}

// checkPlaces says whether others may change the plugin: whoever writes its
// directory or its manifest replaces artifact and digest together.
func (f found) checkPlaces() error {
	places := []string{f.status.Dir, filepath.Join(f.status.Dir, manifest.FileName)}
	for p := f.m.Path; p != "."; p = path.Dir(p) {
		places = append(places, filepath.Join(f.status.Dir, filepath.FromSlash(p)))
	}
	for _, p := range places {
		// What is missing is told by whoever needs it.
		if err := process.CheckPlace(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func discover(dirs []string, trust Trust) ([]found, error) {
	var out []found
	var errs []error
	first := make(map[string]string)
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("search plugins: %w", err))
			continue
		}
		for _, e := range entries {
			sub := filepath.Join(dir, e.Name())
			if _, err := os.Lstat(filepath.Join(sub, manifest.FileName)); err != nil {
				continue // not a plugin
			}
			f := inspect(sub, e.Name(), trust)
			if other, dup := first[f.status.Name]; dup && f.m != nil {
				f.m = nil
				f.status.State = PluginSkipped
				f.status.Cause = "the plugin of this name in " + other + " comes first"
			} else if f.m != nil {
				first[f.status.Name] = sub
			}
			out = append(out, f)
		}
	}
	return out, errors.Join(errs...)
}

func inspect(dir, base string, trust Trust) found {
	f := found{status: PluginStatus{Name: base, Dir: dir, State: PluginError}}
	m, err := trust.load(dir)
	if err != nil {
		f.status.Cause = err.Error()
		return f
	}
	f.status.Name, f.status.Kind, f.status.Runtime = m.Name, string(m.Kind), string(m.Runtime)
	f.status.Version, f.status.SHA256 = m.Version, m.SHA256
	f.status.State = PluginUnused
	f.m = m
	f.fail(f.checkPlaces())
	return f
}
