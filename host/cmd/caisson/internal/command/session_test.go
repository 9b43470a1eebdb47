package command

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/minted"
	"github.com/caisson-run/caisson/host/session/reaper"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// two is a host with two sessions, a platform's and a run's.
type two struct {
	admin.PluginOperator // no test of sessions asks for these
	admin.PolicyOperator
	ended []string
}

func (t *two) AllSessions(context.Context) ([]backend.Sandbox, error) {
	now := time.Now()
	return []backend.Sandbox{
		{
			Ref: backend.Ref{Config: "far", ID: "box-2"}, State: backend.StatePaused, Created: now.Add(-time.Minute),
			Metadata: backend.Metadata{Session: "m_2", Tenant: "acme", Origin: "managed", Labels: map[string]string{session.LabelSession: "chat/7"}},
		},
		{
			Ref: backend.Ref{Config: "wasm", ID: "abc"}, State: backend.StateRunning, Created: now.Add(-2 * time.Hour), LastActive: now,
			Metadata: backend.Metadata{Session: "abc", Tenant: "default", User: "u", Origin: "exec"},
		},
	}, nil
}

func (t *two) EndSession(_ context.Context, id string) error {
	if id == "nope" {
		return session.ErrNotFound
	}
	t.ended = append(t.ended, id)
	return nil
}

func (t *two) Telemetry() *telemetry.Telemetry { return nil }

func (t *two) Sweep(context.Context) (host.SweepReport, error) {
	return host.SweepReport{Sessions: minted.SweepReport{Seen: 9, Ended: 4}, Sandboxes: reaper.Report{Seen: 3, Reaped: 1}}, errors.New("config \"far\": down")
}

func TestSessionCommands(t *testing.T) {
	data := t.TempDir()
	run := func(args ...string) result {
		args = append([]string{"session"}, args...)
		if len(args) > 1 { // the group itself takes no flags
			args = append(args, "--data", data)
		}
		return invocation{exe: os.Args[0]}.run(t, args...)
	}
	if r := run("list"); r.code != exitFailure || !strings.Contains(r.stderr, "no server runs with this data directory") {
		t.Errorf("list without a server: %+v", r)
	}
	h := &two{}
	s, err := admin.Serve(t.Context(), data, h, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	r := run("list")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != exitOK || len(lines) != 3 || !strings.HasPrefix(lines[1], "abc ") || !strings.HasPrefix(lines[2], "m_2 ") || !strings.Contains(lines[2], "chat/7") || !strings.Contains(lines[1], "2h0m") {
		t.Errorf("list, the oldest first: %d\n%s", r.code, r.stdout)
	}
	for _, c := range []struct {
		args []string
		ids  string
	}{
		{[]string{"--org", "acme"}, "m_2"},
		{[]string{"--backend", "wasm"}, "abc"},
		{[]string{"--org", "acme", "--backend", "wasm"}, ""},
	} {
		r := run(append([]string{"list", "--json"}, c.args...)...)
		var ids []string
		for line := range strings.Lines(r.stdout) {
			var s admin.Session
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.ID)
		}
		if got := strings.Join(ids, " "); r.code != exitOK || got != c.ids {
			t.Errorf("list %v: %q, want %q", c.args, got, c.ids)
		}
	}
	if r := run("show", "m_2"); r.code != exitOK || !strings.Contains(r.stdout, "chat/7") || !strings.Contains(r.stdout, "paused") {
		t.Errorf("show: %+v", r)
	}
	if r := run("show", "nope"); r.code != exitFailure || !strings.Contains(r.stderr, "session not found") {
		t.Errorf("show of nothing: %+v", r)
	}
	if r := run("end", "abc", "nope", "m_2"); r.code != exitFailure || strings.Join(h.ended, " ") != "abc m_2" || !strings.Contains(r.stderr, `"nope": session not found`) {
		t.Errorf("end: %+v, ended %v", r, h.ended)
	}
	if r := run("sweep"); r.code != exitFailure || !strings.Contains(r.stdout, "9, ended 4") || !strings.Contains(r.stderr, "far") {
		t.Errorf("sweep: %+v", r)
	}
	for _, args := range [][]string{{"list", "x"}, {"show"}, {"end"}, {"nonsense"}, {}} {
		if r := run(args...); r.code != exitUsage {
			t.Errorf("%v: %+v, want a usage error", args, r)
		}
	}
}

func TestDoctorSessionStore(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       map[string]verdict
		says       string
	}{
		{name: "memory", want: map[string]verdict{"session store": fine}, says: "forgets when it restarts"},
		{name: "sqlite", file: "sessions: {store: sqlite}\n", want: map[string]verdict{"session store": fine}, says: "made by the first serve"},
		{
			name: "redis without anything", file: "sessions: {store: redis}\n",
			want: map[string]verdict{"deployment secret": problem, "session store": problem}, says: "CAISSON_REDIS_URL: not set",
		},
		{
			name: "redis that is down", file: "sessions: {store: redis}\n",
			env:  map[string]string{"CAISSON_SECRET": "0123456789abcdef", "CAISSON_REDIS_URL": "redis://:hunter2@127.0.0.1:1/0"},
			want: map[string]verdict{"session store": problem}, says: "connection refused",
		},
		{
			name: "a bad address", file: "sessions: {store: redis}\n",
			env:  map[string]string{"CAISSON_SECRET": "0123456789abcdef", "CAISSON_REDIS_URL": "http://:hunter2@x"},
			want: map[string]verdict{"session store": problem}, says: "must begin with redis://",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := config.Parse("f", []byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			f.Data = t.TempDir()
			a := &app{Env: Env{LookupEnv: func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }}}
			var r report
			a.checkSessions(t.Context(), &r, settings{File: f}, hclog.NewNullLogger())
			got := make(map[string]verdict)
			text := ""
			for _, c := range r.Checks {
				got[c.Name] = c.State
				text += c.Detail + "\n"
			}
			if len(got) != len(tt.want) {
				t.Errorf("checks %+v, want %v", r.Checks, tt.want)
			}
			for name, state := range tt.want {
				if got[name] != state {
					t.Errorf("%s is %q, want %q", name, got[name], state)
				}
			}
			if !strings.Contains(text, tt.says) || strings.Contains(text, "hunter2") {
				t.Errorf("says %q, want %q and no secret", text, tt.says)
			}
		})
	}
}

// TestDoctorReach: a token that is told once and a store that forgets, and sandboxes of
// one machine in a store of many, are told.
func TestDoctorReach(t *testing.T) {
	for _, tt := range []struct {
		name  string
		caps  []backend.Capability
		store binding.Report
		peers []config.Peer
		want  verdict // "" is nothing
	}{
		{name: "told once, forgotten", caps: []backend.Capability{backend.CapTokenOnce}, want: note},
		{name: "told once, kept", caps: []backend.Capability{backend.CapTokenOnce}, store: binding.Report{Durable: true}},
		{name: "told always"},
		{name: "one machine's", store: binding.Report{Shared: true}, want: problem},
		{name: "one machine's, with peers", store: binding.Report{Shared: true}, peers: []config.Peer{{}}},
		{name: "everybody's", caps: []backend.Capability{backend.CapShared}, store: binding.Report{Shared: true}},
	} {
		var r report
		settings{File: config.File{Peers: tt.peers}}.compareReach(&r, "main", backend.Info{Capabilities: tt.caps}, tt.store)
		if tt.want == "" && len(r.Checks) > 0 || tt.want != "" && (len(r.Checks) != 1 || r.Checks[0].State != tt.want) {
			t.Errorf("%s: %+v, want %q", tt.name, r.Checks, tt.want)
		}
	}
}
