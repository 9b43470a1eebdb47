package backendtest

import (
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) optionalChecks() []check {
	return []check{
		{"token", k.optionalToken},
		{"pause", k.optionalPause},
		{"keep_alive", k.optionalKeepAlive},
		{"snapshot", k.optionalSnapshot},
		{"terminal", k.optionalTerminal},
		{"dial_port", k.optionalDialPort},
		{"detached", k.optionalDetached},
		{"detached_absent", k.optionalDetachedAbsent},
		{"watch", k.optionalWatch},
		{"control", k.optionalControl},
	}
}

// optional returns an optional part, or skips the test.
func optional[T any](t *testing.T, k *kit) T {
	t.Helper()
	part, ok := backend.Optional[T](k.b, k.info)
	if !ok {
		t.Skip("the backend does not declare it")
	}
	return part
}

// optionalToken: a token that was told once opens the sandbox when it is handed back,
// and what cannot be one is refused without harm.
func (k *kit) optionalToken(t *testing.T) {
	c := optional[backend.TokenConnector](t, k)
	_, err := c.ConnectToken(t.Context(), k.ghost(), "token")
	wantGone(t, "ConnectToken", err)
	sb := k.create(t, k.createSpec())
	if sb.Token == "" {
		t.Fatal("a new sandbox has no token, which its backend says is told once")
	}
	k.write(t, sb.Ref, data("kept"), "x")
	_, err = c.ConnectToken(t.Context(), sb.Ref, "no\r\ntoken")
	wantKind(t, "ConnectToken with a line break", err, backend.KindInvalidRequest)
	got, err := c.ConnectToken(t.Context(), sb.Ref, sb.Token)
	if err != nil || got.ID != sb.ID || got.State != backend.StateRunning || got.Token != sb.Token {
		t.Errorf("ConnectToken: %+v, %v", got, err)
	}
	if got := k.read(t, sb.Ref, data("kept")); got != "x" {
		t.Errorf("with its token back the sandbox holds %q", got)
	}
}

// optionalPause: only Connect wakes a paused sandbox.
func (k *kit) optionalPause(t *testing.T) {
	p := optional[backend.Pauser](t, k)
	wantGone(t, "Pause", p.Pause(t.Context(), k.ghost()))
	ref := k.sandbox(t)
	k.write(t, ref, data("kept"), "x")
	for range 2 {
		if err := p.Pause(t.Context(), ref); err != nil {
			t.Fatalf("Pause: %v", err)
		}
	}
	paused := func(after string) {
		t.Helper()
		sb, err := k.b.Get(t.Context(), ref)
		if err != nil || sb.State != backend.StatePaused {
			t.Errorf("after %s the sandbox is %q: %v", after, sb.State, err)
		}
	}
	paused("Pause")
	for name, call := range k.calls(t, ref) {
		if name == "Connect" {
			continue
		}
		// Whether a call fails or answers from what is known, it wakes nothing.
		wantNoProof(t, name+" of a paused sandbox", call())
		paused(name)
	}
	if ka, ok := backend.Optional[backend.KeepAliver](k.b, k.info); ok {
		_, err := ka.KeepAlive(t.Context(), ref, time.Hour)
		wantNoProof(t, "KeepAlive of a paused sandbox", err)
		paused("KeepAlive")
	}
	listed := func(states ...backend.State) bool {
		t.Helper()
		list, err := k.b.List(t.Context(), backend.ListFilter{Config: k.configID, States: states})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(s backend.Sandbox) bool { return s.ID == ref.ID })
	}
	if !listed() || !listed(backend.StatePaused) || listed(backend.StateRunning) {
		t.Errorf("a paused sandbox is listed by default %v, as paused %v, as running %v", listed(), listed(backend.StatePaused), listed(backend.StateRunning))
	}
	paused("List")
	sb, err := k.b.Connect(t.Context(), ref)
	if err != nil || sb.State != backend.StateRunning {
		t.Fatalf("Connect of a paused sandbox = %q, %v", sb.State, err)
	}
	if got := k.read(t, ref, data("kept")); got != "x" {
		t.Errorf("after waking, the file holds %q", got)
	}
}

// optionalKeepAlive moves the end, and makes nothing.
func (k *kit) optionalKeepAlive(t *testing.T) {
	ka := optional[backend.KeepAliver](t, k)
	_, err := ka.KeepAlive(t.Context(), k.ghost(), time.Minute)
	wantGone(t, "KeepAlive", err)
	ref := k.sandbox(t)
	began := time.Now()
	ends, err := ka.KeepAlive(t.Context(), ref, time.Minute)
	if err != nil || !ends.IsZero() && ends.Before(began.Add(30*time.Second)) {
		t.Errorf("asked for a minute from %v, it ends at %v: %v", began, ends, err)
	}
}

// optionalControl: a run that asks for calls where there are none is refused.
func (k *kit) optionalControl(t *testing.T) {
	if k.info.Has(backend.CapControl) {
		t.Skip("it has calls: see the group control")
	}
	spec := k.runSpec(k.sandbox(t), "exit", "0")
	spec.Control = true
	o, err := k.try(t, t.Context(), spec, nil)
	wantFileError(t, "a run with calls", err, backend.KindUnsupported)
	if o.starts > 0 {
		t.Error("it started")
	}
}
