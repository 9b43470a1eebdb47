package controlfake

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envdfake"
)

// Provider chooses the dialect.
type Provider int

// The providers.
const (
	E2B Provider = iota
	Cube
)

// Options of a Server. Dir and Domain are required.
type Options struct {
	Provider Provider
	// Dir is where the files of machines are; each has a directory of its own below it.
	Dir string
	// APIKey is what callers have to present; empty is nothing (Cube).
	APIKey string
	// Domain is the suffix of sandbox hosts.
	Domain string
	// Templates are the names of those that are ready.
	Templates []string
	// Violation is told what no contract allows. It may be called concurrently.
	Violation func(string)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// PageSize bounds pages below what callers ask for; 0 does not.
	PageSize int
}

// Quirks are known misbehaviours, off in the zero value.
type Quirks struct {
	// NoV1 and NoV2 leave routes of that version for creating and connecting out.
	NoV1, NoV2 bool
	// NoToken issues no access token, SparseConnect none when connecting.
	NoToken, SparseConnect bool
	// RepeatPages repeats the token of a listing's page for ever.
	RepeatPages bool
	// Unpaged cuts listings at that many, without a token.
	Unpaged int
	// IgnoreFilter lists everything, whatever is asked for.
	IgnoreFilter bool
	// LoseMetadata forgets it when a sandbox is paused.
	LoseMetadata bool
	// PauseTime is how long pausing goes on after it was answered.
	PauseTime time.Duration
	// Relapse pauses a sandbox again right after it was connected to, so many times.
	Relapse int
	// KeepPaused refuses to delete paused sandboxes.
	KeepPaused bool
	// DropEnv ignores the environment of new sandboxes.
	DropEnv bool
	// NotReady answers so many requests to a daemon as if its port were closed.
	NotReady int
	// MaxTimeout refuses longer ones, in seconds; 0 does not.
	MaxTimeout int64
	// NoTemplateV2 knows only the first version of the listing of templates.
	NoTemplateV2 bool
	// HidePaused leaves paused sandboxes out of listings.
	HidePaused bool
}

// Server is the control plane; Gateway is the data plane's side of it. It is safe for
// concurrent use.
type Server struct {
	// Script are faults of the control plane, GatewayScript those of the gateway.
	Script, GatewayScript envdfake.Script

	o       Options
	mux     *http.ServeMux
	gateway *envdfake.Gateway

	mu        sync.Mutex
	quirks    Quirks
	shift     time.Duration
	boxes     map[string]*box
	templates []*template
	snapshots []*snapshot
	requests  []Request
}

// box is one sandbox.
type box struct {
	id, template         string
	state                string
	access, traffic      string
	started, end         time.Time
	never                bool
	ttl                  time.Duration
	pauseOnEnd, autoWake bool
	public               bool
	metadata             map[string]string
	machine              *envdfake.Machine
	pausedAt, settlesAt  time.Time
	notReady             int
	live                 context.Context // of requests through the gateway
	cut                  context.CancelFunc
	egress               map[string]any
}

// New returns a server without sandboxes.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Violation == nil {
		o.Violation = func(text string) { panic("controlfake: " + text) }
	}
	style := envdfake.E2B
	if o.Provider == Cube {
		style = envdfake.Cube
	}
	s := &Server{o: o, boxes: map[string]*box{}, gateway: envdfake.NewGateway(style, o.Domain)}
	for _, name := range o.Templates {
		s.templates = append(s.templates, &template{
			id: s.newID("tpl"), names: []string{name}, build: newUUID(), status: "ready", builds: 1, tagged: true,
		})
	}
	s.routes()
	return s
}

// Close ends every sandbox.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.boxes {
		b.cut()
		errs = append(errs, s.end(b.machine))
	}
	for _, x := range s.snapshots {
		errs = append(errs, s.end(x.image))
	}
	for _, v := range s.gateway.Violations() {
		s.violation("at the gateway: %s", v)
	}
	s.boxes, s.snapshots = map[string]*box{}, nil
	return errors.Join(errs...)
}

// machine starts one, with the files of another unless that is nil.
func (s *Server) machine(id string, o envdfake.Options, from *envdfake.Machine) (*envdfake.Machine, error) {
	dir := filepath.Join(s.o.Dir, id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	m, err := envdfake.New(dir, o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if from != nil {
		if err := m.CopyFiles(from); err != nil {
			return nil, errors.Join(err, s.end(m), os.RemoveAll(dir))
		}
	}
	return m, nil
}

// end closes a machine, which must not have been misused.
func (s *Server) end(m *envdfake.Machine) error {
	err := m.Close()
	for _, v := range m.Violations() {
		s.violation("in a sandbox: %s", v)
	}
	return err
}

// Set changes quirks.
func (s *Server) Set(change func(*Quirks)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.quirks)
}

// Advance moves the clock; what is due happens at the next request.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shift += d
}

// States returns the state of every sandbox by its id.
func (s *Server) States() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	out := map[string]string{}
	for id, b := range s.boxes {
		out[id] = b.state
	}
	return out
}

// Machine returns what a sandbox is; nil when it is gone.
func (s *Server) Machine(id string) *envdfake.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil {
		return b.machine
	}
	return nil
}

// Egress returns what a sandbox was told about its network.
func (s *Server) Egress(id string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil {
		return b.egress
	}
	return nil
}

// End returns when a sandbox will end.
func (s *Server) End(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil && !b.never {
		return b.end
	}
	return time.Time{}
}

// Vanish ends a sandbox behind everybody's back.
func (s *Server) Vanish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil {
		s.kill(b)
	}
}

// Park pauses a sandbox behind everybody's back.
func (s *Server) Park(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil && b.state == "running" {
		s.park(b)
	}
}

// Tokens returns what opens a sandbox.
func (s *Server) Tokens(id string) (access, traffic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil {
		return b.access, b.traffic
	}
	return "", ""
}

func (s *Server) now() time.Time { return s.o.Now().Add(s.shift) }

// tick does what is due. The caller holds mu.
func (s *Server) tick() {
	now := s.now()
	for _, b := range s.boxes {
		if b.state == "pausing" && !now.Before(b.settlesAt) {
			s.parked(b)
		}
		if b.state == "running" && !b.never && !now.Before(b.end) {
			if b.pauseOnEnd {
				s.park(b)
			} else {
				s.kill(b)
			}
		}
	}
}

// park pauses, at once or after the quirk's time.
func (s *Server) park(b *box) {
	b.cut()
	if s.quirks.PauseTime > 0 {
		s.gateway.Set(b.id, envdfake.Moving)
		b.state, b.settlesAt = "pausing", s.now().Add(s.quirks.PauseTime)
		return
	}
	s.parked(b)
}

func (s *Server) parked(b *box) {
	b.state, b.pausedAt = "paused", s.now()
	if s.quirks.LoseMetadata {
		b.metadata = map[string]string{}
	}
	s.gateway.Set(b.id, envdfake.Paused)
	b.machine.Pause()
}

func (s *Server) wake(b *box) {
	if b.state == "paused" {
		b.machine.Resume()
		s.gateway.Set(b.id, envdfake.Running)
		b.live, b.cut = context.WithCancel(context.Background())
	}
	b.state = "running"
}

func (s *Server) kill(b *box) {
	b.cut()
	delete(s.boxes, b.id)
	s.gateway.Set(b.id, envdfake.Killed)
	b.machine.Resume()
	if err := errors.Join(s.end(b.machine), os.RemoveAll(filepath.Join(s.o.Dir, b.id))); err != nil {
		s.violation("end of a sandbox: %v", err)
	}
}

// newID makes an id of 20 lower-case characters behind a prefix.
func (s *Server) newID(prefix string) string {
	var raw [13]byte
	_, _ = rand.Read(raw[:])
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))[:20]
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func newToken(kind string) string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%s_%x", kind, b)
}

// Now is the server's clock.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}
