// Package dialect is what CubeSandbox does differently from other providers: its
// requests for sandboxes and templates, and what its control plane gets wrong.
package dialect

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/sdk/backend"
)

// defaultTimeout is that of plugin.yaml, in idle seconds.
const defaultTimeout = 1800

// settings is a config; plugin.yaml describes it.
type settings struct {
	remote.Settings
	Build *build `json:"build"`
}

// dialect implements remote.Dialect.
type dialect struct {
	s   settings
	api *control.Client
}

// Open reads a config and prepares its control plane. It talks to nobody.
func Open(provider string, raw json.RawMessage) (*remote.Config, error) {
	var s settings
	if err := remote.Decode(raw, &s); err != nil {
		return nil, err
	}
	if err := remote.Missing(map[string]string{
		"api_url": s.APIURL, "proxy_url": s.ProxyURL, "sandbox_domain": s.SandboxDomain, "template_id": s.TemplateID,
	}); err != nil {
		return nil, err
	}
	s.TimeoutSeconds = cmp.Or(s.TimeoutSeconds, defaultTimeout)
	if err := s.Build.check(); err != nil {
		return nil, err
	}
	header := http.Header{}
	if s.APIKey != "" { // which of the two a server reads depends on its version
		header.Set("X-Api-Key", s.APIKey)
		header.Set("Authorization", "Bearer "+s.APIKey)
	}
	c, err := s.Settings.Open(provider, header)
	if err != nil {
		return nil, err
	}
	c.Data.TrafficOnDaemon, c.Data.JSON = true, true
	s.Settings = c.Settings
	c.Dialect = &dialect{s: s, api: c.API}
	return c, nil
}

// Traits implements remote.Dialect.
func (d *dialect) Traits() remote.Traits {
	return remote.Traits{
		FilterLocally: true, LosesMetadata: true, TokenOnce: true, SlowPause: true, IdleTTL: true, NoCreateEnv: true,
	}
}

// validID keeps an id from changing the host or the path that it becomes part of.
var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// ValidID implements remote.Dialect.
func (d *dialect) ValidID(id string) bool { return validID.MatchString(id) }

// createBody is the request that makes a sandbox. How its end is written depends on
// the server's version, which ignores the other form: both are sent.
type createBody struct {
	TemplateID          string             `json:"templateID"`
	Timeout             int64              `json:"timeout"`
	AutoPause           bool               `json:"autoPause"`
	AutoResume          bool               `json:"autoResume"`
	Lifecycle           lifecycle          `json:"lifecycle"`
	AllowInternetAccess bool               `json:"allow_internet_access"`
	Network             remote.NetworkBody `json:"network"`
	Metadata            map[string]string  `json:"metadata"`
	EnvVars             map[string]string  `json:"envVars,omitempty"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

// CreateBody implements remote.Dialect.
func (d *dialect) CreateBody(spec backend.CreateSpec, metadata map[string]string) (any, error) {
	policy, err := d.s.Policy(spec.Timeout)
	if err != nil {
		return nil, err
	}
	egress, err := d.s.Effective(spec.Network)
	if err != nil {
		return nil, err
	}
	body := createBody{
		TemplateID: cmp.Or(spec.Snapshot, spec.Template), Timeout: control.Seconds(d.TTL(policy)),
		AutoPause: policy.Action == backend.TimeoutPause, AutoResume: policy.AutoResume,
		Lifecycle:           lifecycle{OnTimeout: string(policy.Action), AutoResume: policy.AutoResume},
		AllowInternetAccess: egress.Open, Metadata: metadata,
		Network: egress.Body(),
	}
	if len(spec.Network.Rules) > 0 {
		if body.Network.Rules, err = checkRules(spec.Network.Rules); err != nil {
			return nil, err
		}
	}
	if spec.Snapshot == "" { // some servers refuse an environment beside a snapshot
		body.EnvVars = spec.Env
	}
	return body, nil
}

// TTL implements remote.Dialect.
func (d *dialect) TTL(p backend.TimeoutPolicy) time.Duration {
	p = d.s.Timeout(p)
	if p.Mode == backend.TimeoutNever {
		return -1
	}
	if p.Duration <= 0 {
		return time.Duration(d.s.TimeoutSeconds) * time.Second
	}
	return p.Duration
}

// Builder implements remote.Dialect.
func (d *dialect) Builder() remote.Builder {
	if d.s.Build == nil {
		return nil
	}
	return &builder{build: *d.s.Build, registry: d.s.Registry, api: d.api}
}
