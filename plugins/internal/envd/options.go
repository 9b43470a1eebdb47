package envd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Port is where the daemon listens in every sandbox.
const Port = 49983

// Options of a Client. Provider, Domain, Dial and Control are required.
type Options struct {
	// Provider is the plugin's name, for errors.
	Provider string
	// Gateway is the address that all sandboxes of the config are reached at, as
	// "http://127.0.0.1:3002" or "https://gateway.example": it is dialled instead of
	// the sandbox's own host name, which stays what is asked for and, with https,
	// verified. Empty dials the host name itself, with https.
	Gateway string
	// Domain is the suffix of sandbox host names, "PORT-ID.DOMAIN", where a sandbox
	// does not name its own.
	Domain string
	// Dial opens connections. It decides about addresses (see sdk/netguard): nothing
	// else here does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the base of https connections; nil is Go's default.
	TLS *tls.Config
	// Control is the control plane.
	Control Control
	// User is the account of commands and files. Default "root".
	User string
	// TrafficOnDaemon sends the traffic token to the daemon's port too. Other ports
	// always get it.
	TrafficOnDaemon bool
	// NeedToken refuses to talk to a daemon without an access token: it would be
	// open to everybody.
	NeedToken bool
	// JSON speaks JSON instead of the binary codec, which gateways and daemons of
	// other makes may not know.
	JSON bool
	// Limits stand where a run names none: 30 s of wall time and 1 MiB of each output
	// unless set.
	Limits backend.Limits
	// Timeout of short calls, default 30 s, and of the silence after which a stream
	// counts as dead, default 120 s. The daemon is asked to say something every 50 s.
	Timeout, Silence time.Duration
	// MaxFileBytes bounds what WriteFile takes where it is not told, default 256 MiB.
	MaxFileBytes int64
}

// Endpoint is how one sandbox is reached. The tokens are secrets.
type Endpoint struct {
	// Domain is that of the sandbox where it differs from Options.Domain.
	Domain string
	// Version is the daemon's, where the provider tells the truth about it: features
	// of later versions are then not tried. Empty tries.
	Version string
	// AccessToken lets one talk to the daemon, TrafficToken to any port.
	AccessToken, TrafficToken string
}

// String leaves the secrets out.
func (e Endpoint) String() string { return "endpoint in " + cmp.Or(e.Domain, "default domain") }

// GoString leaves the secrets out.
func (e Endpoint) GoString() string { return e.String() }

// Location is what the control plane knows of a sandbox.
type Location struct {
	Endpoint
	State backend.State
}

// Control is the control plane, as far as the data plane needs it. It is safe for
// concurrent use.
type Control interface {
	// Locate describes a sandbox without waking it. It is asked about sandboxes that
	// were never bound here, and when the gateway does not reach one or refuses a
	// token. Its errors are passed on as they are: they may prove that the sandbox is
	// gone. Empty members of the endpoint leave what was known.
	Locate(ctx context.Context, id string) (Location, error)
}

func (o *Options) check() error {
	switch {
	case o.Provider == "" || o.Dial == nil || o.Control == nil:
		return errors.New("envd: provider, dial and control are required")
	case !domainForm.MatchString(o.Domain):
		return fmt.Errorf("domain: %q is no host name", o.Domain)
	case o.User != "" && !userForm.MatchString(o.User):
		return fmt.Errorf("user: %q is no account name", o.User)
	}
	return nil
}

func (o *Options) defaults() {
	o.User = cmp.Or(o.User, "root")
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Silence = cmp.Or(o.Silence, 120*time.Second)
	o.MaxFileBytes = cmp.Or(o.MaxFileBytes, 256<<20)
	o.Limits.Wall = cmp.Or(o.Limits.Wall, 30*time.Second)
	o.Limits.StdoutBytes = cmp.Or(o.Limits.StdoutBytes, 1<<20)
	o.Limits.StderrBytes = cmp.Or(o.Limits.StderrBytes, 1<<20)
}

var (
	domainForm = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?$`)
	userForm   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,31}$`)
	// idForm keeps an id from changing the host that it becomes part of.
	idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

// gatewayAddress parses Options.Gateway into what is dialled, "" for the host itself,
// and whether TLS is spoken.
func gatewayAddress(raw string) (address string, secure bool, err error) {
	if raw == "" {
		return "", true, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", false, errors.New("gateway: no URL") // what it holds may be a secret
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", false, errors.New("gateway: the scheme has to be http or https")
	case u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return "", false, errors.New("gateway: only a scheme, a host and a port are allowed")
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port), u.Scheme == "https", nil
}

// The data plane is everything of these.
var _ interface {
	generic.Files
	backend.TerminalOpener
	backend.PortDialer
	backend.DetachedRunner
	backend.Watcher
	Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error)
	Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error)
	Stat(ctx context.Context, ref backend.Ref, path string) (backend.Entry, error)
	ListDir(ctx context.Context, ref backend.Ref, path string) ([]backend.Entry, error)
} = (*Client)(nil)
