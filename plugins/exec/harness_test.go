package exec

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/ledger"
	"github.com/caisson-run/caisson/host/peer"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/minted"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/language"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is the entry on real sessions, ids, ledger and processes. Of the host only
// what needs plugins is played: targets, the language table, policies.
type rig struct {
	*Interpreter
	t        testing.TB
	shells   *shells
	sessions *minted.Sessions
	keys     *identity.Keys
	ledger   *ledger.Ledger
	log      *logged
	clock    *clock
	server   *httptest.Server
	mux      *http.ServeMux

	mu        sync.Mutex
	principal map[string]host.Principal // by key
	standing  func(host.Principal) error
	admit     func(policy.Request) (policy.Limits, error)
	look      func(policy.Outcome) []host.PolicyWarning // nil: nobody asks
	warnings  []host.PolicyWarning
	planned   error // what becomes of planning, when it fails
	ready     error
	admits    error // why nobody is admitted
	bare      bool  // no interpreter is there
	configs   []string
	limits    backend.Limits
	asked     []policy.Request
	prefixes  []string
	closers   []func(context.Context) error
	intercept func(http.ResponseWriter, *http.Request) bool
	peers     *peer.Peers
	node      string
	measured  *telemetry.Telemetry
}

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// Keys of the rig's callers.
const (
	alice   = "alice"   // a bearer of acme, user alice
	bob     = "bob"     // of acme too
	mallory = "mallory" // of evil
	service = "service" // the deployment's key
	both    = "both"    // the key beside alice's bearer
	broke   = "broke"   // without a cent
	rich    = "rich"    // with money
)

func newRig(t testing.TB, adjust ...func(*Options)) *rig {
	t.Helper()
	return newRigWith(t, func(*rig) {}, adjust...)
}

// newRigWith is newRig with a rig that was changed before it opens.
func newRigWith(t testing.TB, change func(*rig), adjust ...func(*Options)) *rig {
	t.Helper()
	r := &rig{
		t: t, clock: &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, log: new(logged),
		configs: []string{"main"}, mux: http.NewServeMux(),
		limits: backend.Limits{Wall: 20 * time.Second, StdoutBytes: 1 << 20, StderrBytes: 1 << 20},
		principal: map[string]host.Principal{
			alice: {Org: "acme", User: "alice", Via: host.ViaBearer}, bob: {Org: "acme", User: "bob", Via: host.ViaBearer},
			mallory: {Org: "evil", User: "mallory", Via: host.ViaBearer}, service: {Org: "brand", Via: host.ViaServiceKey, KeyID: "k1"},
			both:  {Org: "acme", User: "alice", Via: host.ViaBearer, KeyID: "k1"},
			broke: {Org: "acme", User: "broke", Via: host.ViaBearer, Payer: "w-broke"},
			rich:  {Org: "acme", User: "rich", Via: host.ViaBearer, Payer: "w-rich"},
		},
	}
	var err error
	if r.shells, err = newShells(t.TempDir(), r.clock.now, "main", "other"); err != nil {
		t.Fatal(err)
	}
	if r.keys, err = identity.NewKeys([]byte("an old enough secret of the tests")); err != nil {
		t.Fatal(err)
	}
	r.restart()
	if r.ledger, err = ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.ledger.Credit(t.Context(), "w-rich", 1000, "gift"); err != nil {
		t.Fatal(err)
	}
	o := Options{Fee: func() int64 { return 1 }, Now: r.clock.now, Rates: plenty(), KeyRates: plenty()}
	change(r)
	for _, f := range adjust {
		f(&o)
	}
	if r.Interpreter, err = newInterpreter(r, o); err != nil {
		t.Fatal(err)
	}
	log := hclog.New(&hclog.LoggerOptions{Output: r.log, Level: hclog.Debug})
	d := &door{Interpreter: r.Interpreter, billing: r.ledger, log: log}
	d.admits = func(context.Context) error { return r.admits }
	d.standing = func(_ context.Context, p host.Principal, _ host.Act) error {
		if r.standing != nil {
			return r.standing(p)
		}
		return nil
	}
	d.mount(r)
	r.server = httptest.NewServer(r.mux)
	t.Cleanup(func() {
		r.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, c := range r.closers {
			if err := c(ctx); err != nil {
				t.Error(err)
			}
		}
		r.shells.leftovers(t)
		if err := r.shells.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// restart forgets what a process remembers of sessions.
func (r *rig) restart() {
	store, err := binding.New(memory.NewEngine(memory.Options{}), binding.Options{})
	if err != nil {
		panic(err) // an example has no test to fail
	}
	r.sessions = minted.New(minted.Options{Keys: r.keys, Targets: r, Store: store, Deployment: "test", Now: r.clock.now})
}

// The rig is the session.Targets of its configs.

func (r *rig) Default(ctx context.Context, tenant string) (session.Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return session.Target{Config: r.configs[0], Node: r.node, Backend: r.shells, Info: shellsInfo, Release: func() {}}, nil
}

func (r *rig) Named(_ context.Context, _, config string) (session.Target, error) {
	return session.Target{Config: config, Node: r.node, Backend: r.shells, Info: shellsInfo, Release: func() {}}, nil
}

func (r *rig) Configs(string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.configs)
}

// The rig is the entry's services.

func (r *rig) Sessions() *minted.Sessions  { return r.sessions }
func (r *rig) Keys() *identity.Keys        { return r.keys }
func (r *rig) Peers() *peer.Peers          { return r.peers }
func (r *rig) Ready(context.Context) error { return r.ready }
func (r *rig) Telemetry() *telemetry.Telemetry {
	return r.measured
}

func (r *rig) Limits(_ session.Target, want backend.Limits) backend.Limits {
	l := r.limits
	if want.Wall > 0 {
		l.Wall = min(want.Wall, 300*time.Second)
	}
	return l
}

func (r *rig) Offers(session.Target) []host.Offer {
	return []host.Offer{
		{Language: language.Language{ID: "bash", Name: "Bash", Aliases: []string{"sh"}, Advertised: true}, Toolchain: "sh", Version: "5"},
		{Language: language.Language{ID: "c", Name: "C", Advertised: true}, Toolchain: "sh"},
		{Language: language.Language{ID: "go", Name: "Go", Advertised: true}, Missing: "no toolchain in /opt/secret"},
	}
}

func (r *rig) Plan(_ context.Context, _ session.Target, lang string, args []string) (string, string, language.Plan, error) {
	if r.planned != nil {
		return "", "", language.Plan{}, fmt.Errorf("language table: %w", r.planned)
	}
	if r.bare {
		e := &host.LanguageError{Language: lang}
		if lang != "cobol" {
			e.Missing = "no toolchain in /opt/secret"
		}
		return "", "", language.Plan{}, e
	}
	switch strings.ToLower(strings.TrimSpace(lang)) {
	case "bash", "sh":
		return "bash", "sh", language.Plan{File: "main.sh", Steps: []language.Step{
			{Name: "run", Argv: []string{"/bin/sh", "{dir}/main.sh"}, Args: args},
		}}, nil
	case "py":
		return "py", "cpython", language.Plan{File: "main.py", Steps: []language.Step{
			{Name: "run", Argv: []string{"python3", "{dir}/main.py"}, Args: args},
		}}, nil
	case "c": // compiles nothing, successfully only when asked to
		return "c", "sh", language.Plan{File: "main.c", Steps: []language.Step{
			{Name: "compile", Argv: []string{"/bin/sh", "-c", `grep -q broken "$0" && { echo 'main.c:1: broken' >&2; exit 1; }; exit 0`, "{dir}/main.c"}},
			{Name: "run", Argv: []string{"/bin/echo"}, Args: args},
		}}, nil
	case "go":
		return "", "", language.Plan{}, &host.LanguageError{Language: "go", Missing: "no toolchain in /opt/secret", Offered: []string{"bash", "c"}}
	}
	return "", "", language.Plan{}, &host.LanguageError{Language: lang, Offered: []string{"bash", "c"}}
}

// Reviews and Review play policies that look at outcomes.
func (r *rig) Reviews() bool { return r.look != nil }

func (r *rig) Review(_ context.Context, o policy.Outcome) []host.PolicyWarning { return r.look(o) }

func (r *rig) Admit(_ context.Context, q policy.Request) (host.Ruling, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, q)
	if r.admit != nil {
		limits, err := r.admit(q)
		return host.Ruling{Limits: limits, Warnings: r.warnings}, err
	}
	return host.Ruling{Limits: q.Limits, Warnings: r.warnings}, nil
}

// The rig mounts like host.Mounting does.

func (r *rig) Prefixes(p ...string) { r.prefixes = append(r.prefixes, p...) }

func (r *rig) Handle(pattern string, h http.Handler, refuse func(http.ResponseWriter, *http.Request, *host.HTTPError)) {
	r.mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
		p := strings.ToLower(path.Clean("/" + q.URL.Path))
		if !slices.ContainsFunc(r.prefixes, func(x string) bool { return p == x || strings.HasPrefix(p, x+"/") }) {
			refuse(w, q, &host.HTTPError{Status: 403, Code: "forbidden", Message: "this path is not open"})
			return
		}
		if r.intercept != nil && r.intercept(w, q) {
			return
		}
		who, ok := r.principal[q.Header.Get("X-API-Key")]
		if !ok {
			refuse(w, q, &host.HTTPError{Status: 401, Code: "unauthorized", Message: "no valid credential"})
			return
		}
		h.ServeHTTP(w, q.WithContext(host.WithPrincipal(q.Context(), who)))
	})
}

func (r *rig) Intercept(f func(http.ResponseWriter, *http.Request) bool) { r.intercept = f }

func (r *rig) HandlePublic(pattern string, h http.Handler) { r.mux.Handle(pattern, h) }
func (r *rig) OnClose(f func(context.Context) error)       { r.closers = append(r.closers, f) }

func discardLog() hclog.Logger { return hclog.NewNullLogger() }

func (r *rig) usage() []ledger.Record {
	r.t.Helper()
	var out []ledger.Record
	for rec, err := range r.ledger.Usage(r.t.Context(), ledger.Filter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}
