package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/backend"
)

var keeperCaps = []backend.Capability{"list", "metadata", "names", "terminals"}

// keepers is a host with a keeper of schema 7 and versions of it in others.
type keepers struct {
	*fixture
	h *Host
}

func openKeepers(t *testing.T) keepers {
	f := newFixture(t)
	f.install("fake", withCaps(fakeManifest), self(t), 0o755)
	f.instruct(script{Name: "fake", Version: "1.2.3", StateSchema: []string{"7"}, Capabilities: keeperCaps, Keeps: true})
	o := f.options()
	o.supervision = supervise.Settings{MinPause: 10 * time.Millisecond, MaxPause: 50 * time.Millisecond}
	o.Platform.Telemetry = telemetry.New(telemetry.Options{})
	return keepers{f, f.openWith(o)}
}

func withCaps(m string) string {
	return strings.Replace(m, "capabilities: [list]", "capabilities: [list, metadata, names, terminals]", 1)
}

// next installs a version that keeps sandboxes in the first of schemas.
func (k keepers) next(version string, schemas ...string) string {
	quoted := make([]string, len(schemas))
	for i, s := range schemas {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return k.version(version, func(s *script) {
		s.StateSchema, s.Capabilities, s.Keeps = schemas, keeperCaps, true
	}, `state_schema: ["7"]`, "state_schema: ["+strings.Join(quoted, ", ")+"]", "capabilities: [list]", "capabilities: [list, metadata, names, terminals]")
}

func (k keepers) target() session.Target {
	k.t.Helper()
	t, err := k.h.Target(k.t.Context(), "fake")
	if err != nil {
		k.t.Fatal(err)
	}
	return t
}

func (k keepers) make(id string) {
	k.t.Helper()
	t := k.target()
	defer t.Release()
	if _, err := t.Backend.Create(k.t.Context(), createSpec(id)); err != nil {
		k.t.Fatal(err)
	}
}

func createSpec(id string) backend.CreateSpec {
	return backend.CreateSpec{Config: "fake", Session: id, Metadata: backend.Metadata{Deployment: "default", Config: "fake", Session: id, Tenant: "acme"}}
}

func boxRef(id string) backend.Ref { return backend.Ref{Config: "fake", ID: id} }

// expectServedBy checks which version answers about a sandbox, in every way it is asked.
func (k keepers) expectServedBy(id, version string) {
	k.t.Helper()
	t := k.target()
	defer t.Release()
	sb, err := t.Backend.Get(k.t.Context(), boxRef(id))
	if err != nil || sb.Metadata.Labels["version"] != version {
		k.t.Errorf("Get %s: %v from %q, want %q", id, err, sb.Metadata.Labels["version"], version)
	}
	all, err := t.Backend.List(k.t.Context(), backend.ListFilter{Config: "fake", Session: id})
	if err != nil || len(all) != 1 || all[0].Metadata.Labels["version"] != version {
		k.t.Errorf("List %s: %v %+v, want one of %q", id, err, all, version)
	}
}

func (k keepers) delete(id string) {
	k.t.Helper()
	t := k.target()
	defer t.Release()
	if err := t.Backend.Delete(k.t.Context(), boxRef(id)); err != nil {
		k.t.Fatal(err)
	}
}

func (k keepers) eventually(what string, ok func() bool) {
	k.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("not within a minute: %s; plugins %+v", what, k.h.Plugins())
		}
	}
}

func (k keepers) rows() (states []string) {
	for _, p := range k.h.Plugins() {
		states = append(states, p.Version+" "+string(p.State))
	}
	return states
}

// A version that cannot serve the sandboxes there are takes the new ones; the old
// version stays for its own until they are gone.
func TestOldVersionStaysForItsSandboxes(t *testing.T) {
	k := openKeepers(t)
	k.make("old-1")
	k.make("old-2")
	old := k.h.backends.line("fake").program()
	first, _ := old.sup.Now()
	if r := swap(t, k.h, SwapOptions{Dir: k.next("2.0.0", "8"), Probe: true, Watch: 50 * time.Millisecond}, SwapDone); r.Staying != 2 {
		t.Errorf("report %+v, want 2 staying", r)
	}
	k.make("new-1")
	k.expectServedBy("old-1", "1.2.3")
	k.expectServedBy("old-2", "1.2.3")
	k.expectServedBy("new-1", "2.0.0")
	if got := k.rows(); !slices.Equal(got, []string{"2.0.0 ready", "1.2.3 draining"}) {
		t.Errorf("plugin list: %q", got)
	}
	if st := k.h.Plugins()[1]; !strings.Contains(st.Cause, "stays for 2 sandboxes that version 2.0.0 does not serve") {
		t.Errorf("cause %q", st.Cause)
	}
	d, err := k.h.PluginDetail("fake")
	if err != nil || d.Version != "2.0.0" || len(d.Process.Generations) != 2 {
		t.Errorf("detail %+v, %v", d, err)
	}

	target := k.target()
	all, err := target.Backend.List(t.Context(), backend.ListFilter{Config: "fake"})
	if err != nil || len(all) != 3 {
		t.Errorf("List = %d sandboxes, %v; want 3", len(all), err)
	}
	if _, err := target.Backend.Create(t.Context(), createSpec("old-1")); backend.KindOf(err) != backend.KindConflict {
		t.Errorf("a second sandbox of a session: %v, want a conflict", err)
	}
	if _, err := target.Backend.Get(t.Context(), boxRef("nobody")); !backend.ProvesGone(err) {
		t.Errorf("a sandbox that nobody has: %v, want proof that it is gone", err)
	}
	target.Release()

	k.delete("old-1")
	k.expectServedBy("old-2", "1.2.3")
	if len(k.h.Plugins()) != 2 {
		t.Error("the old version left before its last sandbox")
	}
	k.delete("old-2")
	k.eventually("the old version ends", func() bool { return len(k.h.Plugins()) == 1 && !first.Serving() })
	k.expectServedBy("new-1", "2.0.0")
	k.make("old-1") // the name is free again
	k.expectServedBy("old-1", "2.0.0")
}

// What the next version lists follows at once, sandbox by sandbox.
func TestSandboxesFollowByTheirState(t *testing.T) {
	k := openKeepers(t)
	k.make("in-7")
	swap(t, k.h, SwapOptions{Dir: k.next("2.0.0", "8", "7"), Watch: -1}, SwapDone)
	k.expectServedBy("in-7", "2.0.0")
	k.eventually("the old version ends", func() bool { return len(k.h.Plugins()) == 1 })
	k.make("in-8")
	swap(t, k.h, SwapOptions{Dir: k.next("3.0.0", "9", "8"), Watch: -1}, SwapDone)
	k.expectServedBy("in-8", "3.0.0")
	k.expectServedBy("in-7", "2.0.0")
	k.make("in-9")
	// The next one reads neither: two versions stay, and one that reads all relieves them.
	swap(t, k.h, SwapOptions{Dir: k.next("4.0.0", "10"), Watch: -1}, SwapDone)
	k.expectServedBy("in-7", "2.0.0")
	k.expectServedBy("in-8", "3.0.0")
	k.expectServedBy("in-9", "3.0.0")
	swap(t, k.h, SwapOptions{Dir: k.next("5.0.0", "10", "9", "8", "7"), Watch: -1}, SwapDone)
	k.eventually("one version serves all", func() bool { return len(k.h.Plugins()) == 1 })
	for _, id := range []string{"in-7", "in-8", "in-9"} {
		k.expectServedBy(id, "5.0.0")
	}
}

// What a version that is sent back has made meanwhile is not lost with it.
func TestSandboxesOfAVersionThatWasSentBack(t *testing.T) {
	k := openKeepers(t)
	k.make("old")
	reported := make(chan SwapReport)
	go func() {
		r, err := k.h.SwapPlugin(context.Background(), "fake", SwapOptions{Dir: k.next("2.0.0", "8", "7"), Watch: time.Minute})
		if err != nil {
			t.Error(err)
		}
		reported <- r
	}()
	k.eventually("the next version serves", func() bool { return k.h.backends.line("fake").program().found.m.Version == "2.0.0" })
	k.make("young")
	target := k.target()
	_ = target.Backend.Delete(t.Context(), boxRef("crash"))
	target.Release()
	if r := <-reported; r.Outcome != SwapRolledBack {
		t.Fatalf("report %+v", r)
	}
	k.expectServedBy("old", "1.2.3")
	k.eventually("it answers for its own", func() bool {
		target := k.target()
		defer target.Release()
		sb, err := target.Backend.Get(t.Context(), boxRef("young"))
		return err == nil && sb.Metadata.Labels["version"] == "2.0.0"
	})
	k.delete("young")
	k.eventually("it ends", func() bool { return len(k.h.Plugins()) == 1 })
}

// While a version that stays cannot be asked, nothing is said to be gone.
func TestStayingVersionFailsClosed(t *testing.T) {
	k := openKeepers(t)
	k.make("old")
	old := k.h.backends.line("fake").program()
	swap(t, k.h, SwapOptions{Dir: k.next("2.0.0", "8"), Watch: -1}, SwapDone)
	k.make("new")
	k.expectServedBy("new", "2.0.0")
	k.eventually("it is quarantined", func() bool {
		if u, ok := old.sup.Now(); ok && u.Serving() {
			_ = u.backend.Delete(t.Context(), boxRef("crash"))
		}
		return old.sup.View().State == supervise.Quarantined
	})
	target := k.target()
	defer target.Release()
	for what, call := range map[string]func() error{
		"Get": func() error { _, err := target.Backend.Get(t.Context(), boxRef("old")); return err },
		"List": func() error {
			_, err := target.Backend.List(t.Context(), backend.ListFilter{Config: "fake"})
			return err
		},
		"unknown": func() error { _, err := target.Backend.Get(t.Context(), boxRef("nobody")); return err },
	} {
		if err := call(); backend.KindOf(err) != backend.KindUnavailable || backend.ProvesGone(err) {
			t.Errorf("%s: %v, want unavailable", what, err)
		}
	}
	if _, err := target.Backend.Get(t.Context(), boxRef("new")); err != nil {
		t.Errorf("a sandbox of the version in service: %v", err)
	}
	if st := k.h.Plugins()[1]; st.State != PluginQuarantined || !strings.Contains(st.Cause, "stays for 1 sandboxes") || st.Fix == "" {
		t.Errorf("status %+v", st)
	}
	if err := k.h.ResetPlugin("fake"); err != nil {
		t.Fatal(err)
	}
	k.eventually("it serves again", func() bool { _, err := target.Backend.Get(t.Context(), boxRef("old")); return err == nil })
}

// Files go from a sandbox of one version into a run on another.
func TestRunCopiesBetweenVersions(t *testing.T) {
	k := openKeepers(t)
	k.make("old")
	k.make("old-2")
	swap(t, k.h, SwapOptions{Dir: k.next("2.0.0", "8"), Watch: -1}, SwapDone)
	k.make("new")
	target := k.target()
	defer target.Release()
	from := func(id, path string) *backend.CopySource {
		return &backend.CopySource{ID: id, Path: "/mnt/data/" + path}
	}
	for _, c := range []struct {
		on, want string
		inputs   []backend.Input
		missing  string
	}{
		{"new", "2.0.0: old/mnt/data/a", []backend.Input{{CopyFrom: from("old", "a")}}, ""},
		{"old", "1.2.3: new/mnt/data/a x old-2/mnt/data/b chunk", []backend.Input{
			{CopyFrom: from("new", "a")},
			{Inline: []byte("x")},
			{CopyFrom: from("old-2", "b")},
			{CopyFrom: from("new", "absent"), Optional: true},
			{Chunked: true},
		}, "/mnt/data/in3"},
		{"new", "2.0.0: new/mnt/data/a", []backend.Input{
			{CopyFrom: &backend.CopySource{ID: "old", Path: "/mnt/data/a", SHA256: strings.Repeat("0", 64)}, Optional: true},
			{CopyFrom: from("new", "a")},
		}, "/mnt/data/in0"},
	} {
		for i := range c.inputs {
			c.inputs[i].Path = fmt.Sprintf("/mnt/data/in%d", i)
		}
		live := &printed{chunk: len(c.inputs) - 1}
		res, err := target.Backend.Run(t.Context(), backend.RunSpec{
			Ref: boxRef(c.on), RunID: "r", Inputs: c.inputs, Program: backend.Program{File: "main"},
			Steps: []backend.Step{{Name: "run", Argv: []string{"x"}}},
		}, live)
		if err != nil || live.out != c.want || strings.Join(res.MissingInputs, " ") != c.missing {
			t.Errorf("on %s: %q, missing %q, %v; want %q, missing %q", c.on, live.out, res.MissingInputs, err, c.want, c.missing)
		}
	}
	live := &printed{}
	_, err := target.Backend.Run(t.Context(), backend.RunSpec{
		Ref: boxRef("new"), RunID: "r", Program: backend.Program{File: "main"},
		Steps:  []backend.Step{{Name: "run", Argv: []string{"x"}}},
		Inputs: []backend.Input{{Path: "/mnt/data/in", CopyFrom: from("old", "absent")}},
	}, live)
	if !backend.IsNotFound(err) || backend.ProvesGone(err) || live.out != "" {
		t.Errorf("an input that is needed and absent: %v, %q", err, live.out)
	}
}

// printed is the live side of a run that prints, with one chunked input.
type printed struct {
	backend.RunIO
	chunk int
	out   string
}

func (p *printed) Input(i int) (io.Reader, error) {
	if i != p.chunk {
		return nil, errors.New("another input than the caller's")
	}
	return strings.NewReader("chunk"), nil
}
func (p *printed) Stdin() io.Reader { return strings.NewReader("") }
func (p *printed) Started() error   { return nil }
func (p *printed) Stdout(b []byte) error {
	p.out += string(b)
	return nil
}
