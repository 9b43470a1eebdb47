package admin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/minted"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is a host with one session and one backend that is down.
type fixed struct {
	ended    []string
	measured *telemetry.Telemetry
	PluginOperator
	PolicyOperator
}

func (f *fixed) AllSessions(context.Context) ([]backend.Sandbox, error) {
	return []backend.Sandbox{{
		Ref: backend.Ref{Config: "main", ID: "box"}, State: backend.StatePaused, Created: time.Unix(1, 0).UTC(), Token: "secret",
		Metadata: backend.Metadata{
			Session: "m_1", Tenant: "acme", Origin: "managed", Labels: map[string]string{session.LabelSession: "chat", "caisson.key": "k"},
		},
	}}, errors.New("config \"far\": down")
}

func (f *fixed) EndSession(_ context.Context, id string) error {
	f.ended = append(f.ended, id)
	switch id {
	case "gone":
		return session.ErrNotFound
	case "stuck":
		return errors.New("delete: stuck")
	}
	return nil
}

func (f *fixed) Telemetry() *telemetry.Telemetry { return f.measured }

func (f *fixed) Sweep(context.Context) (host.SweepReport, error) {
	return host.SweepReport{Sessions: minted.SweepReport{Seen: 3, Ended: 1}}, nil
}

func TestAdmin(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 90), strings.Repeat("e", 90))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{t.TempDir(), deep} {
		c, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.List(t.Context()); !errors.Is(err, ErrNoServer) {
			t.Errorf("List without a server = %v", err)
		}
		h := &fixed{}
		// What a killed server left is in nobody's way.
		if err := os.WriteFile(filepath.Join(dir, SocketFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Serve(t.Context(), dir, h, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(filepath.Join(dir, SocketFile)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("socket: %v, %v", st, err)
		}
		list, err := c.List(t.Context())
		if err != nil || len(list.Sessions) != 1 || list.Failed == "" {
			t.Fatalf("List = %+v, %v", list, err)
		}
		want := Session{ID: "m_1", Name: "chat", Org: "acme", Origin: "managed", Config: "main", Sandbox: "box", State: backend.StatePaused, Created: time.Unix(1, 0).UTC()}
		if list.Sessions[0] != want {
			t.Errorf("session = %+v, want %+v", list.Sessions[0], want)
		}
		if err := c.End(t.Context(), "m_1"); err != nil || len(h.ended) != 1 {
			t.Errorf("End = %v, ended %v", err, h.ended)
		}
		if err := c.End(t.Context(), "gone"); !errors.Is(err, ErrNotFound) {
			t.Errorf("End of nothing = %v", err)
		}
		if err := c.End(t.Context(), "stuck"); err == nil || err.Error() != "delete: stuck" {
			t.Errorf("End = %v", err)
		}
		if r, err := c.Sweep(t.Context()); err != nil || r.Sessions.Ended != 1 || r.Failed != "" {
			t.Errorf("Sweep = %+v, %v", r, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.List(t.Context()); !errors.Is(err, ErrNoServer) {
			t.Errorf("List after Close = %v", err)
		}
	}
	if _, err := Dial(filepath.Join(deep, "nothing", "here")); err != nil && !errors.Is(err, ErrNoServer) {
		t.Errorf("Dial of no directory = %v", err)
	}
}
