package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("TEST_CRASH_FILE"); path != "" {
		crash(path)
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB) bindingtest.Fixture {
	t.Helper()
	c := bindingtest.NewClock()
	e, err := NewEngine(context.Background(), filepath.Join(t.TempDir(), "bindings"), memory.Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return bindingtest.Fixture{Replicas: []binding.Engine{e, e}, Advance: c.Advance}
}

func TestSuite(t *testing.T) { bindingtest.Run(t, open) }

func TestModel(t *testing.T) { bindingtest.CheckModel(t, open) }

var want = binding.Binding{
	Key: binding.Key{Tenant: "acme", Session: "kept"}, Provider: "p", Config: "main", Sandbox: "x", Template: "tpl", Token: "hush-hush",
	Created: time.UnixMilli(1_700_000_000_123).UTC(),
}

// crash changes bindings and dies without closing anything.
func crash(path string) {
	s, err := New(context.Background(), path, binding.Options{})
	check := func(ok bool, err error) {
		if err != nil || !ok {
			fmt.Println(ok, err)
			os.Exit(1)
		}
	}
	check(true, err)
	first := want
	first.Token = "before"
	check(s.Create(context.Background(), first))
	check(s.ReplaceToken(context.Background(), want.Key, "p", "x", want.Token))
	gone := want
	gone.Session = "gone"
	check(s.Create(context.Background(), gone))
	n, err := s.MarkStale(context.Background(), "acme", "main")
	check(n == 2, err)
	check(s.DeleteIfMatch(context.Background(), gone.Key, "p", "x"))
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// What was answered survives kill -9, the token above all; what was deleted stays so.
func TestSurvivesACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bindings")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TEST_CRASH_FILE="+path)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := New(t.Context(), path, binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, ok, err := s.Get(t.Context(), want.Key)
	if err != nil || !ok || got.Stale.IsZero() {
		t.Fatalf("Get = %v, stale %v, %v, %v", got, got.Stale, ok, err)
	}
	got.Stale = time.Time{}
	if got != want {
		t.Errorf("Get = %v, token %q; want %v, %q", got, got.Token, want, want.Token)
	}
	for b, err := range s.All(t.Context(), binding.Filter{}) {
		if err != nil || b.Key != want.Key {
			t.Errorf("All yields %v, %v", b, err)
		}
	}
	r, err := s.Check(t.Context())
	if err != nil || r.Kind != "sqlite" || !r.Durable || r.Shared {
		t.Errorf("Check = %+v, %v", r, err)
	}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info, err)
		}
	}
}

func TestRefusesOtherFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		do   []string
		want error
		text string
	}{
		{"another program's", []string{"CREATE TABLE x (y)"}, nil, "another program"},
		{"newer", []string{schema, fmt.Sprintf("PRAGMA application_id = %d", applicationID), "PRAGMA user_version = 2"}, binding.ErrSchema, "newer"},
		{"damaged", []string{
			schema, fmt.Sprintf("PRAGMA application_id = %d", applicationID), "PRAGMA user_version = 1",
			"INSERT INTO bindings VALUES ('acme', 's', '', 'main', 'x', '', 5, NULL, 'hush')",
		}, binding.ErrCorrupt, "provider"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bindings")
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range c.do {
				if _, err := db.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			_, err = New(t.Context(), path, binding.Options{})
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "hush") {
				t.Errorf("New = %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
	if _, err := New(t.Context(), filepath.Join(t.TempDir(), "no", "directory"), binding.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("New in no directory = %v", err)
	}
}

// A change that cannot be written down does not happen.
func TestDiskFails(t *testing.T) {
	e, err := NewEngine(t.Context(), filepath.Join(t.TempDir(), "bindings"), memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := binding.New(e, binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if ok, err := s.Create(t.Context(), want); err != nil || !ok {
		t.Fatalf("Create = %v, %v", ok, err)
	}
	// A page limit stands for a full disk.
	db := e.(engine).Journal().(*journal).db
	if _, err := db.Exec("PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	other := want
	other.Session = "other"
	other.Token = strings.Repeat("x", binding.MaxToken)
	var e2 *binding.Error
	if _, err := s.Create(t.Context(), other); !errors.Is(err, binding.ErrUnavailable) || !errors.As(err, &e2) || e2.Reason != binding.Full {
		t.Errorf("Create = %v, want ErrUnavailable of a full disk", err)
	}
	if _, ok, err := s.Get(t.Context(), other.Key); err != nil || ok {
		t.Errorf("Get = %v, %v; it was not created", ok, err)
	}
	if b, ok, err := s.Get(t.Context(), want.Key); err != nil || !ok || b != want {
		t.Errorf("Get = %v, %v, %v", b, ok, err)
	}
}
