package backendtest

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) lifecycleChecks() []check {
	return []check{
		{"create", k.lifeCreate},
		{"metadata", k.lifeMetadata},
		{"conflict", k.lifeConflict},
		{"race", k.lifeRace},
		{"absent", k.lifeAbsent},
		{"hostile_ids", k.lifeHostileIDs},
		{"delete", k.lifeDelete},
		{"filter", k.lifeFilter},
		{"states", k.lifeStates},
		{"refuses_what_it_cannot", k.lifeUnsupported},
		{"environment", k.lifeEnvironment},
	}
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func asError(err error) (*backend.Error, bool) {
	var e *backend.Error
	return e, errors.As(err, &e)
}

func (k *kit) lifeCreate(t *testing.T) {
	spec := k.createSpec()
	began := time.Now()
	sb := k.create(t, spec)
	switch {
	case sb.Config != k.configID || sb.ID == "":
		t.Errorf("the sandbox has config %q and id %q", sb.Config, sb.ID)
	case k.info.Has(backend.CapNames) && sb.ID != spec.Session:
		t.Errorf("id %q, want the session's: the names capability says so", sb.ID)
	case sb.State != backend.StateRunning && sb.State != backend.StateTransitioning:
		t.Errorf("a new sandbox is %q", sb.State)
	}
	if !sb.Created.IsZero() && (sb.Created.Before(began.Add(-time.Hour)) || sb.Created.After(time.Now().Add(time.Hour))) {
		t.Errorf("a new sandbox was created at %v", sb.Created)
	}
	got, err := k.b.Connect(t.Context(), sb.Ref)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if got.Ref != sb.Ref || got.State != backend.StateRunning {
		t.Errorf("Connect returned %+v, %q", got.Ref, got.State)
	}
	if got, err = k.b.Get(t.Context(), sb.Ref); err != nil || got.Ref != sb.Ref || got.State != backend.StateRunning {
		t.Errorf("Get returned %+v, %q: %v", got.Ref, got.State, err)
	}
}

// lifeMetadata: what was stamped comes back, byte for byte.
func (k *kit) lifeMetadata(t *testing.T) {
	if !k.info.Has(backend.CapMetadata) {
		t.Skip("the backend stores no metadata")
	}
	spec := k.createSpec()
	spec.Metadata.User = ""
	spec.Metadata.Config = backend.NoConfig // the deployment's default, whatever its id here
	spec.Metadata.Labels = map[string]string{"empty": "", "odd": "a=b,c \"d\" ü\n", "caisson.io/x-y_z": "1"}
	sb := k.create(t, spec)
	check := func(where string, m backend.Metadata) {
		t.Helper()
		labels := maps.Clone(m.Labels)
		for name := range labels {
			if _, ours := spec.Metadata.Labels[name]; !ours {
				delete(labels, name) // a provider may add its own
			}
		}
		want := spec.Metadata
		if m.Deployment != want.Deployment || m.Config != want.Config || m.Session != want.Session || m.Tenant != want.Tenant ||
			m.User != want.User || m.Origin != want.Origin || !maps.Equal(labels, want.Labels) {
			t.Errorf("%s: metadata %+v, want %+v", where, m, want)
		}
	}
	check("Create", sb.Metadata)
	got, err := k.b.Get(t.Context(), sb.Ref)
	if err != nil {
		t.Fatal(err)
	}
	check("Get", got.Metadata)
	list, err := k.b.List(t.Context(), backend.ListFilter{Config: k.configID, Session: spec.Session})
	if err != nil || len(list) != 1 {
		t.Fatalf("List by session found %d: %v", len(list), err)
	}
	check("List", list[0].Metadata)
}

func (k *kit) lifeConflict(t *testing.T) {
	spec := k.createSpec()
	sb := k.create(t, spec)
	k.write(t, sb.Ref, data("kept"), "x")
	_, err := k.b.Create(t.Context(), spec)
	wantFileError(t, "a second sandbox of one session", err, backend.KindConflict)
	if got := k.read(t, sb.Ref, data("kept")); got != "x" {
		t.Errorf("after the conflict the first sandbox holds %q", got)
	}
}

// lifeRace: of many that create the same session one wins.
func (k *kit) lifeRace(t *testing.T) {
	spec := k.createSpec()
	errs := make([]error, 8)
	boxes := make([]backend.Sandbox, len(errs))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { boxes[i], errs[i] = k.b.Create(t.Context(), spec) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			defer k.b.Delete(t.Context(), boxes[i].Ref)
		} else {
			wantFileError(t, "Create in a race", err, backend.KindConflict)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d calls created the one session", won, len(errs))
	}
}

func (k *kit) lifeAbsent(t *testing.T) {
	for name, call := range k.calls(t, k.ghost()) {
		wantGone(t, name, call())
	}
	if err := k.b.Delete(t.Context(), k.ghost()); err != nil {
		t.Errorf("Delete of an absent sandbox: %v", err)
	}
}

// lifeHostileIDs: an id is whatever a caller typed.
func (k *kit) lifeHostileIDs(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("secret"), "x")
	for _, id := range []string{"", ".", "..", "/", "../" + ref.ID, ref.ID + "/", ref.ID + "/../" + ref.ID, "*", "%2e%2e", ref.ID + "\n", strings.Repeat("a", 4096)} {
		hostile := backend.Ref{Config: k.configID, ID: id}
		if _, err := k.b.Get(t.Context(), hostile); err == nil {
			t.Errorf("Get found a sandbox with id %s", show(id))
		}
		if r, _, err := k.b.ReadFile(t.Context(), hostile, data("secret")); err == nil {
			_ = r.Close()
			t.Errorf("ReadFile found a sandbox with id %s", show(id))
		}
		_ = k.b.Delete(t.Context(), hostile) // success or not, see below
	}
	if got := k.read(t, ref, data("secret")); got != "x" {
		t.Errorf("a hostile id reached the sandbox: %q", got)
	}
}

func (k *kit) lifeDelete(t *testing.T) {
	spec := k.createSpec()
	sb, err := k.b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, sb.Ref, data("old"), "x")
	for range 2 {
		if err := k.b.Delete(t.Context(), sb.Ref); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	_, err = k.b.Get(t.Context(), sb.Ref)
	wantGone(t, "Get", err)
	list, err := k.b.List(t.Context(), backend.ListFilter{Config: k.configID, Session: spec.Session})
	if err != nil || len(list) != 0 {
		t.Errorf("a deleted sandbox is listed: %+v, %v", list, err)
	}
	again := k.create(t, spec)
	_, err = k.b.Stat(t.Context(), again.Ref, data("old"))
	wantFileError(t, "a file of the deleted sandbox", err, backend.KindNotFound)
}

// lifeFilter: every member of a filter must match.
func (k *kit) lifeFilter(t *testing.T) {
	run := k.session() // keeps this apart from whatever else there is
	type box struct{ tenant, deployment, label string }
	var specs []backend.CreateSpec
	for _, b := range []box{{"one", "here", "red"}, {"one", "there", "blue"}, {"two", "here", "blue"}} {
		spec := k.createSpec()
		spec.Metadata.Tenant, spec.Metadata.Deployment = b.tenant+run, b.deployment+run
		spec.Metadata.Labels = map[string]string{"colour": b.label, "run": run}
		k.create(t, spec)
		specs = append(specs, spec)
	}
	mine := map[string]string{"run": run}
	with := func(key, value string) map[string]string {
		m := maps.Clone(mine)
		m[key] = value
		return m
	}
	for _, c := range []struct {
		name   string
		filter backend.ListFilter
		want   []int
	}{
		{"label", backend.ListFilter{Labels: mine}, []int{0, 1, 2}},
		{"two labels", backend.ListFilter{Labels: with("colour", "blue")}, []int{1, 2}},
		{"absent label", backend.ListFilter{Labels: with("size", "big")}, nil},
		{"empty value of an absent label", backend.ListFilter{Labels: with("size", "")}, nil},
		{"part of a value", backend.ListFilter{Labels: with("colour", "blu")}, nil},
		{"tenant", backend.ListFilter{Tenant: "one" + run}, []int{0, 1}},
		{"deployment", backend.ListFilter{Deployment: "here" + run}, []int{0, 2}},
		{"tenant and deployment", backend.ListFilter{Tenant: "one" + run, Deployment: "here" + run}, []int{0}},
		{"tenant and label", backend.ListFilter{Tenant: "two" + run, Labels: with("colour", "red")}, nil},
		{"session", backend.ListFilter{Session: specs[1].Session}, []int{1}},
		{"session of another tenant", backend.ListFilter{Session: specs[1].Session, Tenant: "two" + run}, nil},
		{"state", backend.ListFilter{Labels: mine, States: []backend.State{backend.StatePaused}}, nil},
		{"states", backend.ListFilter{Labels: mine, States: []backend.State{backend.StatePaused, backend.StateRunning}}, []int{0, 1, 2}},
	} {
		c.filter.Config = k.configID
		list, err := k.b.List(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, s := range list {
			got = append(got, s.Metadata.Session)
			if !c.filter.Matches(s) {
				t.Errorf("by %s: %+v is outside the filter", c.name, s)
			}
		}
		for _, i := range c.want {
			want = append(want, specs[i].Session)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("by %s: found %q, want %q", c.name, got, want)
		}
	}
	all, err := k.b.List(t.Context(), backend.ListFilter{Config: k.configID})
	if err != nil || len(all) < len(specs) {
		t.Errorf("without a filter: %d sandboxes, %v", len(all), err)
	}
}

// lifeStates: looking never changes what is looked at.
func (k *kit) lifeStates(t *testing.T) {
	sb := k.create(t, k.createSpec())
	for range 3 {
		got, err := k.b.Get(t.Context(), sb.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains([]backend.State{
			backend.StateRunning, backend.StatePaused, backend.StateTransitioning, backend.StateTerminated, backend.StateUnknown,
		}, got.State) {
			t.Errorf("state %q is none of the five", got.State)
		}
	}
	_, err := k.b.List(t.Context(), backend.ListFilter{Config: k.configID, Session: k.session()})
	if err != nil {
		t.Errorf("List of a session that does not exist: %v", err)
	}
	if _, err := k.b.Get(t.Context(), k.ghost()); err == nil {
		t.Error("Get made a sandbox")
	}
}

// lifeUnsupported: what a backend cannot give it refuses, instead of making a
// sandbox without it.
func (k *kit) lifeUnsupported(t *testing.T) {
	refuse := func(what string, change func(*backend.CreateSpec)) {
		t.Helper()
		spec := k.createSpec()
		change(&spec)
		sb, err := k.b.Create(t.Context(), spec)
		if err == nil {
			defer k.b.Delete(t.Context(), sb.Ref)
		}
		wantKind(t, what, err, backend.KindUnsupported)
		list, err := k.b.List(t.Context(), backend.ListFilter{Config: k.configID, Session: spec.Session})
		if err != nil || len(list) > 0 {
			t.Errorf("%s: refused, and %d sandboxes made: %v", what, len(list), err)
		}
	}
	if !k.info.Has(backend.CapNetwork) {
		refuse("an open network", func(s *backend.CreateSpec) { s.Network.Mode = backend.NetworkOpen })
		refuse("an allow list", func(s *backend.CreateSpec) {
			s.Network = backend.Network{Mode: backend.NetworkClosed, Allow: []string{"192.0.2.1"}}
		})
	}
	if !k.info.Has(backend.CapVolumes) {
		refuse("a volume", func(s *backend.CreateSpec) {
			s.Volumes = []backend.VolumeMount{{Name: "v", Path: "/mnt/v"}}
		})
	}
	if !k.info.Has(backend.CapSnapshots) {
		refuse("a snapshot", func(s *backend.CreateSpec) { s.Snapshot = "x" })
	}
	if !k.info.Has(backend.CapPause) {
		refuse("a timeout that pauses", func(s *backend.CreateSpec) {
			s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Hour, Action: backend.TimeoutPause}
		})
		refuse("waking by traffic", func(s *backend.CreateSpec) {
			s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Hour, Action: backend.TimeoutKill, AutoResume: true}
		})
	}
}

// lifeEnvironment: the sandbox has the environment it was made with and nothing
// of whoever made it.
func (k *kit) lifeEnvironment(t *testing.T) {
	t.Setenv("CAISSON_KIT_SECRET", "leaked")
	spec := k.createSpec()
	spec.Env = map[string]string{"OF_SANDBOX": "one two", "BOTH": "sandbox"}
	sb := k.create(t, spec)
	run := k.runSpec(sb.Ref, "env", "OF_SANDBOX", "out", "|", "env", "BOTH", "out", "|", "env", "CAISSON_KIT_SECRET")
	run.Env = maps.Clone(run.Env)
	if run.Env == nil {
		run.Env = map[string]string{}
	}
	run.Env["BOTH"] = "run"
	if got := k.do(t, run, nil).stdout; got != "one two|run|(unset)" {
		t.Errorf("the environment is %q", got)
	}
}
