package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/netguard"
)

// Settings are the members of a config that all providers have. The manifests of the
// plugins describe them.
type Settings struct {
	APIURL        string `json:"api_url"`
	APIKey        string `json:"api_key"`
	SandboxDomain string `json:"sandbox_domain"`
	ProxyURL      string `json:"proxy_url"`
	TemplateID    string `json:"template_id"`
	// AllowPrivate admits private addresses and plain HTTP.
	AllowPrivate  bool   `json:"allow_private"`
	CACertificate string `json:"ca_certificate"`
	User          string `json:"user"`
	Registry
	TimeoutSeconds int64      `json:"timeout_seconds"`
	OnTimeout      string     `json:"on_timeout"`
	Network        string     `json:"network"`
	Languages      []Language `json:"languages"`
}

// Registry is who fetches images for templates. Its members are at the top of a config,
// where secrets are put.
type Registry struct {
	Username string `json:"registry_username"`
	Password string `json:"registry_password"`
}

// Language is one that the template runs.
type Language struct {
	ID        string `json:"id"`
	Toolchain string `json:"toolchain"`
	Version   string `json:"version"`
}

// defaultLanguages are in the providers' own templates.
var defaultLanguages = []Language{{ID: "py", Toolchain: "cpython"}, {ID: "js", Toolchain: "node"}, {ID: "bash", Toolchain: "bash"}}

func (s *Settings) languages() []backend.LanguageSupport {
	list := s.Languages
	if list == nil {
		list = defaultLanguages
	}
	out := make([]backend.LanguageSupport, len(list))
	for i, l := range list {
		out[i] = backend.LanguageSupport{ID: l.ID, Toolchain: l.Toolchain, Version: l.Version}
	}
	return out
}

// Decode reads a config strictly into a plugin's own type.
func Decode(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("%s: has the wrong type", kind.Field) // the value may be a secret
	case err != nil:
		return fmt.Errorf("is not the JSON that was expected: %w", scrub(err))
	case d.Decode(new(json.RawMessage)) != io.EOF:
		return errors.New("something follows the JSON object")
	}
	return nil
}

var unknownField = regexp.MustCompile(`unknown field "[^"]{1,64}"`)

// scrub keeps of a decoder's error what cannot be a value.
func scrub(err error) error {
	if found := unknownField.FindString(err.Error()); found != "" {
		return errors.New(found)
	}
	return errors.New("syntax error")
}

// Missing lists the required members that are empty, by their names in the config.
func Missing(fields map[string]string) error {
	names := make([]string, 0, len(fields))
	for _, name := range sortedKeys(fields) {
		if fields[name] == "" {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("required and missing: %v", names)
	}
	return nil
}

var (
	domainForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	templateForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./:-]{0,255}$`)
	noDots       = regexp.MustCompile(`(^|/)\.`)
	languageForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_+-]{0,31}$`)
)

// Open checks the settings, fills in what is left out, and prepares the control
// plane. header holds the credentials, secrets what must not appear in an error
// besides the key.
func (s *Settings) Open(provider string, header http.Header) (*Config, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	guard, err := netguard.New(netguard.Policy{AllowPrivate: s.AllowPrivate, RequireTLS: !s.AllowPrivate})
	if err != nil {
		return nil, err
	}
	u, err := guard.CheckURL(s.APIURL)
	if err != nil {
		return nil, fmt.Errorf("api_url: %w", err)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("api_url: a query or a fragment has no meaning")
	}
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	var reach func(context.Context) error
	if s.ProxyURL != "" {
		gateway, err := guard.CheckURL(s.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("proxy_url: %w", err)
		}
		reach = reacher(guard, gateway, s.SandboxDomain, secure)
	}
	client := guard.Client(netguard.TransportOptions{TLS: secure})
	return &Config{
		API: control.New(control.Options{
			Provider: provider, BaseURL: s.APIURL, Header: header, HTTP: client, Secrets: []string{s.APIKey, s.Registry.Password},
		}),
		Dial:     guard.DialContext,
		Data:     envd.Options{Gateway: s.ProxyURL, Domain: s.SandboxDomain, User: s.User, TLS: secure},
		Settings: *s,
		Reach:    reach,
		Idle:     client.CloseIdleConnections,
	}, nil
}

// reacher asks a gateway about a sandbox that does not exist. Whatever it says, it is
// there, and with https it has a certificate for sandboxes.
func reacher(guard *netguard.Guard, gateway *url.URL, domain string, secure *tls.Config) func(context.Context) error {
	port := cmp.Or(gateway.Port(), map[string]string{"http": "80", "https": "443"}[gateway.Scheme])
	return func(ctx context.Context) error {
		client := guard.Client(netguard.TransportOptions{Via: net.JoinHostPort(gateway.Hostname(), port), TLS: secure, HTTP1: true})
		defer client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(ctx, control.HealthBudget)
		defer cancel()
		address := fmt.Sprintf("%s://%d-i00000000000000000000.%s/health", gateway.Scheme, envd.Port, domain)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return errors.New("proxy_url: no request can be made of it")
		}
		resp, err := client.Do(req)
		if err != nil {
			return backend.Errorf(backend.KindUnavailable, "Probe", "the gateway at proxy_url cannot be reached: %w", err)
		}
		return resp.Body.Close()
	}
}

func (s *Settings) check() error {
	s.User = cmp.Or(s.User, "root")
	s.OnTimeout = cmp.Or(s.OnTimeout, string(backend.TimeoutKill))
	s.Network = cmp.Or(s.Network, string(backend.NetworkClosed))
	switch {
	case !domainForm.MatchString(s.SandboxDomain):
		return errors.New("sandbox_domain: must be a host name in lower case, such as sandbox.example")
	case !templateForm.MatchString(s.TemplateID) || noDots.MatchString(s.TemplateID):
		return errors.New("template_id: must be a template's id or name, with a tag behind a colon where it has one")
	case s.TimeoutSeconds < 0 || s.TimeoutSeconds > int64(30*24*time.Hour/time.Second):
		return errors.New("timeout_seconds: must be between 1 and 2592000")
	case s.OnTimeout != string(backend.TimeoutKill) && s.OnTimeout != string(backend.TimeoutPause):
		return errors.New("on_timeout: must be kill or pause")
	case (s.Registry.Username == "") != (s.Registry.Password == ""):
		return errors.New("registry_username and registry_password go together")
	case s.Network != string(backend.NetworkClosed) && s.Network != string(backend.NetworkOpen):
		return errors.New("network: must be closed or open")
	}
	for i, l := range s.Languages {
		if !languageForm.MatchString(l.ID) || !languageForm.MatchString(l.Toolchain) {
			return fmt.Errorf("languages[%d]: needs an id and a toolchain of the language table", i)
		}
	}
	return nil
}

func (s *Settings) roots() (*x509.CertPool, error) {
	if s.CACertificate == "" {
		return nil, nil // the system's
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(s.CACertificate)) {
		return nil, errors.New("ca_certificate: holds no PEM certificate")
	}
	return pool, nil
}

// Policy is that of a new sandbox, with the config's defaults filled in. It refuses what
// has no meaning; whether a sandbox can live for ever is the provider's to say. Errors
// are *backend.Error values.
func (s *Settings) Policy(p backend.TimeoutPolicy) (backend.TimeoutPolicy, error) {
	p = s.Timeout(p)
	invalid := func(text string) error { return backend.Errorf(backend.KindInvalidRequest, "Create", "%s", text) }
	switch {
	case p.Mode != backend.TimeoutAfter && p.Mode != backend.TimeoutNever:
		return p, invalid("timeout.mode is none of after and never")
	case p.Action != backend.TimeoutKill && p.Action != backend.TimeoutPause:
		return p, invalid("timeout.action is none of kill and pause")
	case p.Mode == backend.TimeoutAfter && p.Duration <= 0:
		return p, invalid("timeout: a new sandbox cannot end at once")
	case p.AutoResume && p.Action != backend.TimeoutPause:
		return p, invalid("timeout.auto_resume: there is nothing to resume after a kill")
	}
	return p, nil
}

// Timeout is the policy of a sandbox with the config's defaults filled in.
func (s *Settings) Timeout(p backend.TimeoutPolicy) backend.TimeoutPolicy {
	if p.Mode == backend.TimeoutDefault {
		p.Mode, p.Duration = backend.TimeoutAfter, time.Duration(s.TimeoutSeconds)*time.Second
	}
	p.Action = cmp.Or(p.Action, backend.TimeoutAction(s.OnTimeout))
	return p
}
