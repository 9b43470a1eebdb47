package backendtest

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) infoChecks() []check {
	return []check{
		{"complete", k.infoComplete},
		{"stable", k.infoStable},
		{"capabilities", k.infoCapabilities},
	}
}

func (k *kit) infoComplete(t *testing.T) {
	if k.info.Name == "" || k.info.Version == "" {
		t.Errorf("name %q, version %q: both are required", k.info.Name, k.info.Version)
	}
	for _, l := range k.info.Languages {
		if l.ID == "" || l.Toolchain == "" {
			t.Errorf("language %+v lacks an id or a toolchain", l)
		}
	}
}

func (k *kit) infoStable(t *testing.T) {
	again, err := k.b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, k.info) {
		t.Errorf("Info says %+v and then %+v", k.info, again)
	}
}

// infoCapabilities: a flag needs its interface. An interface without its flag is
// what remote clients and decorators have: calling it must fail as unsupported.
func (k *kit) infoCapabilities(t *testing.T) {
	if missing := backend.Unimplemented(k.b, k.info); len(missing) > 0 {
		t.Errorf("capabilities %q are declared but not implemented", missing)
	}
	ref := k.sandbox(t)
	refused := func(c backend.Capability, call func() error) {
		if !k.info.Has(c) {
			wantKind(t, string(c)+", which is not declared", call(), backend.KindUnsupported)
		}
	}
	ctx := t.Context()
	if p, ok := k.b.(backend.TokenConnector); ok {
		refused(backend.CapTokenOnce, func() error { _, err := p.ConnectToken(ctx, ref, "x"); return err })
	}
	if p, ok := k.b.(backend.Pauser); ok {
		refused(backend.CapPause, func() error { return p.Pause(ctx, ref) })
	}
	if p, ok := k.b.(backend.KeepAliver); ok {
		refused(backend.CapTTLRefresh, func() error { _, err := p.KeepAlive(ctx, ref, k.Patience); return err })
	}
	if p, ok := k.b.(backend.Snapshotter); ok {
		refused(backend.CapSnapshots, func() error { _, err := p.Snapshot(ctx, ref, "x", nil); return err })
		refused(backend.CapSnapshots, func() error { _, err := p.ListSnapshots(ctx, k.configID, nil); return err })
	}
	if p, ok := k.b.(backend.TemplateCatalog); ok {
		refused(backend.CapTemplates, func() error { _, err := p.EnsureTemplate(ctx, k.configID); return err })
	}
	if p, ok := k.b.(backend.VolumeManager); ok {
		refused(backend.CapVolumes, func() error { _, err := p.EnsureVolume(ctx, k.configID, "x"); return err })
	}
	if p, ok := k.b.(backend.TerminalOpener); ok {
		refused(backend.CapTerminals, func() error {
			_, err := p.OpenTerminal(ctx, backend.TerminalSpec{Ref: ref})
			return err
		})
	}
	if p, ok := k.b.(backend.PortDialer); ok && !k.info.Has(backend.CapDesktop) {
		refused(backend.CapDialPort, func() error { _, err := p.DialPort(ctx, ref, 80); return err })
	}
	if p, ok := k.b.(backend.DetachedRunner); ok {
		refused(backend.CapDetached, func() error { return p.KillRun(ctx, ref, "x") })
		refused(backend.CapDetached, func() error {
			return p.StartRun(ctx, backend.DetachedStart{RunSpec: k.runSpec(ref, "exit", "0")}, &recorder{t: t})
		})
	}
	if p, ok := k.b.(backend.Watcher); ok {
		refused(backend.CapWatch, func() error {
			return p.Watch(ctx, ref, backend.DataDir, true, func(backend.WatchEvent) error { return nil })
		})
	}
}

func (k *kit) configChecks() []check {
	return []check{
		{"again", k.configAgain},
		{"unknown", k.configUnknown},
		{"close", k.configClose},
		{"apart", k.configApart},
		{"bad", k.configBad},
		{"probe", k.configProbe},
	}
}

// configAgain: opening an id again leaves its sandboxes alone.
func (k *kit) configAgain(t *testing.T) {
	ref := k.sandbox(t)
	if err := k.b.OpenConfig(t.Context(), k.configID, k.config); err != nil {
		t.Fatal(err)
	}
	if _, err := k.b.Get(t.Context(), ref); err != nil {
		t.Errorf("after opening the same config again: %v", err)
	}
}

// calls makes one call of every method that names a sandbox.
func (k *kit) calls(t *testing.T, ref backend.Ref) map[string]func() error {
	ctx := t.Context()
	path := data("file")
	return map[string]func() error{
		"Connect":  func() error { _, err := k.b.Connect(ctx, ref); return err },
		"Get":      func() error { _, err := k.b.Get(ctx, ref); return err },
		"Run":      func() error { _, err := k.b.Run(ctx, k.runSpec(ref, "exit", "0"), &recorder{t: t}); return err },
		"Walk":     func() error { _, err := k.b.Walk(ctx, backend.WalkRequest{Ref: ref}); return err },
		"ReadFile": func() error { _, _, err := k.b.ReadFile(ctx, ref, path); return err },
		"WriteFile": func() error {
			_, err := k.b.WriteFile(ctx, ref, path, backend.WriteOptions{}, eof{})
			return err
		},
		"Stat":    func() error { _, err := k.b.Stat(ctx, ref, path); return err },
		"ListDir": func() error { _, err := k.b.ListDir(ctx, ref, backend.DataDir); return err },
		"MakeDir": func() error { return k.b.MakeDir(ctx, ref, path) },
		"Remove":  func() error { return k.b.Remove(ctx, ref, path) },
		"Exec": func() error {
			if k.Probe.Exec == nil {
				_, err := k.b.Get(ctx, ref)
				return err
			}
			_, err := k.b.Exec(ctx, backend.ExecRequest{Ref: ref, Argv: slices.Concat(k.Probe.Exec, []string{"exit", "0"})})
			return err
		},
	}
}

// configUnknown: every call with a config that is not open says so.
func (k *kit) configUnknown(t *testing.T) {
	ref := backend.Ref{Config: k.session(), ID: k.sandbox(t).ID}
	calls := k.calls(t, ref)
	calls["List"] = func() error { _, err := k.b.List(t.Context(), backend.ListFilter{Config: ref.Config}); return err }
	calls["Delete"] = func() error { return k.b.Delete(t.Context(), ref) }
	calls["Create"] = func() error {
		spec := k.createSpec()
		spec.Config, spec.Metadata.Config = ref.Config, ref.Config
		_, err := k.b.Create(t.Context(), spec)
		return err
	}
	for name, call := range calls {
		err := call()
		wantFileError(t, name+" with an unknown config", err, backend.KindNotFound)
		if e, ok := asError(err); ok && e.Subject != backend.SubjectConfig {
			t.Errorf("%s with an unknown config: subject %q, want config", name, e.Subject)
		}
	}
}

// configClose: sandboxes outlive their config.
func (k *kit) configClose(t *testing.T) {
	if err := k.b.CloseConfig(t.Context(), k.session()); err != nil {
		t.Errorf("closing an unknown config: %v", err)
	}
	ref := k.sandbox(t)
	if err := k.b.CloseConfig(t.Context(), k.configID); err != nil {
		t.Fatal(err)
	}
	_, err := k.b.Get(t.Context(), ref)
	wantFileError(t, "Get with a closed config", err, backend.KindNotFound)
	if err := k.b.OpenConfig(t.Context(), k.configID, k.config); err != nil {
		t.Fatal(err)
	}
	if _, err := k.b.Get(t.Context(), ref); err != nil {
		t.Errorf("after closing and opening the config: %v", err)
	}
}

// configApart: sandboxes belong to the config they were made with.
func (k *kit) configApart(t *testing.T) {
	ref := k.sandbox(t)
	other := k.session()
	if err := k.b.OpenConfig(t.Context(), other, k.config); err != nil {
		t.Fatal(err)
	}
	defer k.b.CloseConfig(t.Context(), other)
	found, err := k.b.List(t.Context(), backend.ListFilter{Config: other})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		if s.ID == ref.ID {
			t.Error("a sandbox is listed under another config")
		}
	}
	for name, call := range k.calls(t, backend.Ref{Config: other, ID: ref.ID}) {
		if call() == nil {
			t.Errorf("%s reaches a sandbox through another config", name)
		}
	}
}

func (k *kit) configBad(t *testing.T) {
	if k.BadConfig == nil {
		t.Skip("the harness names no bad config")
	}
	id := k.session()
	wantKind(t, "OpenConfig with a bad config", k.b.OpenConfig(t.Context(), id, k.BadConfig), backend.KindInvalidRequest, backend.KindAuthentication)
	report, err := k.b.Probe(t.Context(), k.BadConfig)
	if err == nil && report.OK {
		t.Error("Probe likes a bad config")
	}
	_, err = k.b.List(t.Context(), backend.ListFilter{Config: id})
	wantKind(t, "List with a config that was refused", err, backend.KindNotFound)
}

// configProbe: probing makes nothing and ends nothing.
func (k *kit) configProbe(t *testing.T) {
	ref := k.sandbox(t)
	count := func() int {
		all, err := k.b.List(t.Context(), backend.ListFilter{Config: k.configID})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := count()
	report, err := k.b.Probe(t.Context(), append(json.RawMessage{}, k.config...))
	if err != nil || !report.OK {
		t.Errorf("Probe of the config in use: %+v, %v", report, err)
	}
	if after := count(); after != before {
		t.Errorf("there were %d sandboxes before Probe and are %d after it", before, after)
	}
	if _, err := k.b.Get(t.Context(), ref); err != nil {
		t.Errorf("after Probe: %v", err)
	}
}
