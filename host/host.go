package host

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/language"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// Options of Open.
type Options struct {
	Platform Platform
	Config   Config
	// PluginDirs are searched, in order, for NAME/plugin.yaml.
	PluginDirs []string
	// DataDir holds plugin state and caches. It must exist and belong to one process.
	DataDir string
	// Keys make and check ids. Every replica needs equal ones.
	Keys *identity.Keys
	// Deployment tells this deployment's sandboxes from others at a shared
	// provider; Node names this machine for backends that keep sandboxes on it.
	Deployment, Node string
	// StrictDigests refuses plugins whose manifest pins no digest.
	StrictDigests bool
}

// Config is what runs.
type Config struct {
	// Backends are the named configs. Default names one of them.
	Backends []BackendConfig
	Default  string
	// Policies judge every run, in order; any deny stops.
	Policies []PolicyConfig
	// Languages are tables by plugin name; later ones override by language id.
	Languages []string
	// Limits of a run that asks for nothing, and MaxLimits of one that asks for
	// much. Zero members take the defaults of architecture §7.
	Limits, MaxLimits backend.Limits
	// Clocks of sessions; the zero value is session.DefaultClocks.
	Clocks session.Clocks
}

// BackendConfig is one named config of one backend plugin.
type BackendConfig struct {
	// ID is ^[a-z0-9_-]{1,64}$ and unique. It is stamped on sandboxes.
	ID string
	// Plugin is the plugin's name.
	Plugin string
	// Tenant, when set, is the only one that may use it by name.
	Tenant string
	// Config is the plugin's own, checked against its manifest before launch.
	Config json.RawMessage
}

// PolicyConfig is one policy in the chain.
type PolicyConfig struct {
	Plugin string
	Config json.RawMessage
}

// Host is an open plugin host. It is safe for concurrent use.
type Host struct {
	o        Options
	log      hclog.Logger
	sessions *session.Sessions

	mu     sync.Mutex
	mounts []*Mounting
}

// Open loads the configured plugins and starts them. Nothing is left running
// when it fails.
func Open(ctx context.Context, o Options) (*Host, error) { panic("TODO") }

// Close unmounts entries, ends what they run, and stops every plugin. It is
// bounded by ctx, always returns, and leaves live sandboxes to other replicas.
func (h *Host) Close(ctx context.Context) error { panic("TODO") }

// Sessions finds, makes and ends sessions.
func (h *Host) Sessions() *session.Sessions { return h.sessions }

// Keys make and check ids.
func (h *Host) Keys() *identity.Keys { return h.o.Keys }

// Limits returns what a run gets on t when it asks for want: want where set,
// else the default, never more than the maximum of the deployment and of t.
func (h *Host) Limits(t session.Target, want backend.Limits) backend.Limits { panic("TODO") }

// Offer is one language as a target offers it.
type Offer struct {
	language.Language
	// Toolchain and Version are what would run it.
	Toolchain, Version string
	// Missing says why it cannot run and what would add it; empty when it can.
	Missing string
}

// Offers lists every language of the tables in order, advertised ones first,
// with what t makes of each.
func (h *Host) Offers(t session.Target) []Offer { panic("TODO") }

// LanguageError: the language is unknown, or this target cannot run it.
type LanguageError struct {
	// Language is as the caller spelled it, cut to a sane length.
	Language string
	// Missing is set when the language is known: what would add it.
	Missing string
	// Offered are the ids that the target can run.
	Offered []string
}

func (e *LanguageError) Error() string { panic("TODO") }

// Plan says how to run a program in a language, by id or alias, on t. It
// returns a *LanguageError when t cannot. The toolchain is the one planned for.
func (h *Host) Plan(ctx context.Context, t session.Target, lang string, args []string) (id, toolchain string, plan language.Plan, err error) {
	panic("TODO")
}

// PolicyError: a policy denied the request.
type PolicyError struct {
	// Policy is the plugin's name, Code its stable word, Reason its sentence for the caller.
	Policy, Code, Reason string
}

func (e *PolicyError) Error() string { return "denied by policy " + e.Policy + ": " + e.Reason }

// Admit asks every policy about r and returns the limits to run with, which are
// never wider than r.Limits. A deny, and any failure of a policy, is a *PolicyError.
func (h *Host) Admit(ctx context.Context, r policy.Request) (policy.Limits, error) { panic("TODO") }

// Ready reports whether a run on the default target would succeed now, with
// the reason when it would not.
func (h *Host) Ready(ctx context.Context) error { panic("TODO") }
