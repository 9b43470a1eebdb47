package envd_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is a backend made of the data plane, a fake gateway with fake machines, and
// just enough of a control plane.
type stand struct {
	*envd.Client
	t       testing.TB
	gateway *envdfake.Gateway
	server  *httptest.Server
	machine envdfake.Options
	style   envdfake.Style
	// prepare is called with every new machine; env is its environment.
	prepare func(*envdfake.Machine)
	env     map[string]string

	mu      sync.Mutex
	config  map[string]string
	boxes   map[string]*fakeBox
	next    int
	located int // calls of Locate
	fault   error
	seen    []*http.Request // without their bodies
}

// requests returns what the gateway saw, of those whose path ends so.
func (s *stand) requests(suffix string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*http.Request
	for _, r := range s.seen {
		if strings.HasSuffix(r.URL.Path, suffix) {
			list = append(list, r)
		}
	}
	return list
}

func (s *stand) forgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = nil
}

type fakeBox struct {
	about   backend.Sandbox
	machine *envdfake.Machine
	where   envd.Endpoint
}

// options of a stand.
type options struct {
	style   envdfake.Style
	machine envdfake.Options
	change  func(*envd.Options)
}

func need(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CAISSON_CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func newStand(t testing.TB, o options) *stand {
	t.Helper()
	s := &stand{
		t: t, style: o.style, machine: o.machine, gateway: envdfake.NewGateway(o.style, "sandbox.test"),
		config: make(map[string]string), boxes: make(map[string]*fakeBox),
	}
	if s.machine.Token == "" {
		s.machine.Token = "canary-access-token"
	}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Clone(context.Background()))
		s.mu.Unlock()
		s.gateway.ServeHTTP(w, r)
	}))
	opts := envd.Options{
		Provider: "fake", Gateway: s.server.URL, Domain: "sandbox.test", Control: s,
		Dial: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, TrafficOnDaemon: o.style == envdfake.Cube, NeedToken: o.style == envdfake.E2B,
	}
	if o.change != nil {
		o.change(&opts)
	}
	var err error
	if s.Client, err = envd.New(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func (s *stand) close() {
	s.Client.Close()
	for _, b := range s.boxes {
		s.end(b)
	}
	s.server.CloseClientConnections()
	s.server.Close()
	for _, v := range s.gateway.Violations() {
		s.t.Errorf("violation at the gateway: %s", v)
	}
}

// end closes a machine, which must not have been misused.
func (s *stand) end(b *fakeBox) {
	if err := b.machine.Close(); err != nil {
		s.t.Errorf("machine: %v", err)
	}
	for _, v := range b.machine.Violations() {
		s.t.Errorf("violation in %s: %s", b.about.ID, v)
	}
}

func gone(op string) error {
	return &backend.Error{
		Kind: backend.KindNotFound, Op: op, Subject: backend.SubjectSandbox, Plane: backend.PlaneControl,
		Message: "there is no such sandbox", Status: http.StatusNotFound,
	}
}

func (s *stand) get(ctx context.Context, op, id string) (*fakeBox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil {
		return b, nil
	}
	return nil, gone(op)
}

// Locate implements envd.Control.
func (s *stand) Locate(ctx context.Context, id string) (envd.Location, error) {
	s.mu.Lock()
	s.located++
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		return envd.Location{}, fault
	}
	b, err := s.get(ctx, "Get", id)
	if err != nil {
		return envd.Location{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return envd.Location{Endpoint: b.where, State: b.about.State}, nil
}

func (s *stand) Info(context.Context) (backend.Info, error) {
	return backend.Info{Name: "fake", Version: "0.0.0", Capabilities: []backend.Capability{
		backend.CapMetadata, backend.CapList, backend.CapFSEnum, backend.CapShared, backend.CapReconnect, backend.CapPause,
		backend.CapTerminals, backend.CapDialPort, backend.CapWatch, backend.CapDetached,
	}, Languages: []backend.LanguageSupport{{ID: "py", Toolchain: "cpython"}}}, nil
}

func (s *stand) Health(context.Context) (backend.Health, error) {
	return backend.Health{Ready: true}, nil
}

func (s *stand) OpenConfig(ctx context.Context, id string, config json.RawMessage) error {
	if err := s.check(ctx, "OpenConfig", id, config); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config[id] = string(config)
	return nil
}

func (s *stand) check(ctx context.Context, op, id string, config json.RawMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if id == "" || string(config) != "{}" {
		return backend.Errorf(backend.KindInvalidRequest, op, "config: has to be empty")
	}
	return nil
}

func (s *stand) CloseConfig(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.config, id)
	return ctx.Err()
}

func (s *stand) Probe(ctx context.Context, config json.RawMessage) (backend.ProbeReport, error) {
	if err := ctx.Err(); err != nil {
		return backend.ProbeReport{}, err
	}
	if err := s.check(ctx, "Probe", "x", config); err != nil {
		return backend.ProbeReport{Detail: err.Error()}, nil
	}
	return backend.ProbeReport{OK: true}, nil
}

func (s *stand) known(op, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.config[id]; !ok {
		return &backend.Error{Kind: backend.KindNotFound, Op: op, Subject: backend.SubjectConfig, Plane: backend.PlaneControl, Message: "config is not open"}
	}
	return nil
}

func (s *stand) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return backend.Sandbox{}, err
	}
	if err := s.known("Create", spec.Config); err != nil {
		return backend.Sandbox{}, err
	}
	if spec.Template != "" || spec.Snapshot != "" || len(spec.Volumes) > 0 || len(spec.Network.Allow)+len(spec.Network.Deny)+len(spec.Network.Rules) > 0 ||
		spec.Network.Mode == backend.NetworkOpen || spec.Network.PublicPorts || spec.Timeout.Mode == backend.TimeoutNever || spec.Timeout.AutoResume {
		return backend.Sandbox{}, backend.Errorf(backend.KindUnsupported, "Create", "not part of this stand")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boxes {
		if b.about.Metadata.Session == spec.Session && b.about.Config == spec.Config {
			return backend.Sandbox{}, backend.Errorf(backend.KindConflict, "Create", "the session has a sandbox")
		}
	}
	opts := s.machine
	opts.Env = maps.Clone(s.env)
	if opts.Env == nil {
		opts.Env = make(map[string]string)
	}
	maps.Copy(opts.Env, spec.Env)
	m, err := envdfake.New(s.t.TempDir(), opts)
	if errors.Is(err, envdfake.ErrUnable) {
		need(s.t, "%v", err)
	}
	if err != nil {
		return backend.Sandbox{}, err
	}
	if s.prepare != nil {
		s.prepare(m)
	}
	s.next++
	id := fmt.Sprintf("ifake%015d", s.next)
	b := &fakeBox{machine: m, where: envd.Endpoint{Version: cmp.Or(opts.Version, "0.6.13"), AccessToken: opts.Token, TrafficToken: "canary-traffic-" + id}}
	b.about = backend.Sandbox{
		Ref: backend.Ref{Config: spec.Config, ID: id}, State: backend.StateRunning, RawState: "running",
		Metadata: spec.Metadata, Created: time.Now(),
	}
	s.boxes[id] = b
	s.gateway.Add(id, m, b.where.TrafficToken)
	return b.about, s.Bind(id, b.where)
}

func (s *stand) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	b, err := s.get(ctx, "Connect", ref.ID)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if err := s.known("Connect", ref.Config); err != nil {
		return backend.Sandbox{}, err
	}
	s.mu.Lock()
	b.about.State = backend.StateRunning
	b.machine.Resume()
	s.gateway.Set(ref.ID, envdfake.Running)
	s.mu.Unlock()
	s.Refresh()
	return b.about, nil
}

func (s *stand) Pause(ctx context.Context, ref backend.Ref) error {
	b, err := s.get(ctx, "Pause", ref.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.about.State = backend.StatePaused
	b.machine.Pause()
	s.gateway.Set(ref.ID, envdfake.Paused)
	return nil
}

func (s *stand) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	b, err := s.get(ctx, "Get", ref.ID)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if err := s.known("Get", ref.Config); err != nil {
		return backend.Sandbox{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.about, nil
}

func (s *stand) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.known("List", f.Config); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []backend.Sandbox{}
	for _, b := range s.boxes {
		if f.Matches(b.about) {
			list = append(list, b.about)
		}
	}
	return list, nil
}

func (s *stand) Delete(ctx context.Context, ref backend.Ref) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.known("Delete", ref.Config); err != nil {
		return err
	}
	s.mu.Lock()
	b := s.boxes[ref.ID]
	delete(s.boxes, ref.ID)
	s.gateway.Remove(ref.ID)
	s.mu.Unlock()
	s.Forget(ref.ID)
	if b != nil {
		s.end(b)
	}
	return nil
}

// sandbox makes a sandbox for a test.
func (s *stand) sandbox() backend.Ref {
	s.t.Helper()
	if err := s.OpenConfig(s.t.Context(), "c", json.RawMessage("{}")); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	session := fmt.Sprint("s", s.next)
	s.mu.Unlock()
	sb, err := s.Create(s.t.Context(), backend.CreateSpec{Config: "c", Session: session, Metadata: backend.Metadata{Session: session}})
	if err != nil {
		s.t.Fatal(err)
	}
	return sb.Ref
}

func (s *stand) box(ref backend.Ref) *fakeBox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxes[ref.ID]
}
