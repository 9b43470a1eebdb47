// Package dialect is what E2B does differently from other providers: its requests for
// sandboxes and templates.
package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/sdk/backend"
)

// The cloud's own addresses, and what plugin.yaml says about times.
const (
	cloudAPI           = "https://api.e2b.app"
	cloudDomain        = "e2b.app"
	defaultTimeout     = 300
	defaultMaxTimeout  = 3600
	longestMaxTimeout  = 86400
	shortestMaxTimeout = 60
)

// settings is a config; plugin.yaml describes it.
type settings struct {
	remote.Settings
	MaxTimeoutSeconds int64  `json:"max_timeout_seconds"`
	AllowUntokened    bool   `json:"allow_untokened"`
	Build             *build `json:"build"`
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
	if err := remote.Missing(map[string]string{"api_key": s.APIKey, "template_id": s.TemplateID}); err != nil {
		return nil, err
	}
	s.APIURL = cmp.Or(s.APIURL, cloudAPI)
	s.SandboxDomain = cmp.Or(s.SandboxDomain, cloudDomain)
	s.TimeoutSeconds = cmp.Or(s.TimeoutSeconds, defaultTimeout)
	s.MaxTimeoutSeconds = cmp.Or(s.MaxTimeoutSeconds, defaultMaxTimeout)
	if s.MaxTimeoutSeconds < shortestMaxTimeout || s.MaxTimeoutSeconds > longestMaxTimeout {
		return nil, errors.New("max_timeout_seconds: must be between 60 and 86400")
	}
	if err := s.Build.check(); err != nil {
		return nil, err
	}
	c, err := s.Settings.Open(provider, http.Header{"X-Api-Key": {s.APIKey}})
	if err != nil {
		return nil, err
	}
	c.Data.NeedToken = !s.AllowUntokened
	s.Settings = c.Settings
	c.Dialect = &dialect{s: s, api: c.API}
	return c, nil
}

// Traits implements remote.Dialect.
func (d *dialect) Traits() remote.Traits {
	return remote.Traits{NeedToken: !d.s.AllowUntokened, TrueVersion: true}
}

// validID is how ids look; the part behind a dash is of old ones.
var validID = regexp.MustCompile(`^[a-z0-9]{1,64}(-[a-z0-9]{1,32})?$`)

// ValidID implements remote.Dialect.
func (d *dialect) ValidID(id string) bool { return validID.MatchString(id) }

// createBody is the request that makes a sandbox. The provider's defaults are none
// that we want, so that everything is said: without secure there is no token.
type createBody struct {
	TemplateID          string             `json:"templateID"`
	Timeout             int64              `json:"timeout"`
	Secure              bool               `json:"secure"`
	AutoPause           bool               `json:"autoPause"`
	AutoResume          *autoResume        `json:"autoResume,omitempty"`
	AllowInternetAccess bool               `json:"allow_internet_access"` // the one member in this spelling
	Network             remote.NetworkBody `json:"network"`
	Metadata            map[string]string  `json:"metadata"`
	EnvVars             map[string]string  `json:"envVars,omitempty"`
}

type autoResume struct {
	Enabled bool `json:"enabled"`
}

// CreateBody implements remote.Dialect.
func (d *dialect) CreateBody(spec backend.CreateSpec, metadata map[string]string) (any, error) {
	policy, err := d.s.Policy(spec.Timeout)
	if err != nil {
		return nil, err
	}
	if policy.Mode == backend.TimeoutNever {
		return nil, backend.Errorf(backend.KindUnsupported, "Create", "timeout: the provider has no sandboxes without one")
	}
	egress, err := d.s.Effective(spec.Network)
	if err != nil {
		return nil, err
	}
	body := createBody{
		TemplateID: cmp.Or(spec.Snapshot, spec.Template), Timeout: control.Seconds(d.TTL(policy)), Secure: true,
		AutoPause: policy.Action == backend.TimeoutPause, AllowInternetAccess: egress.Open, Metadata: metadata,
		Network: egress.Body(),
	}
	if len(spec.Network.Rules) > 0 {
		if body.Network.Rules, err = checkRules(spec.Network.Rules, egress); err != nil {
			return nil, err
		}
	}
	if body.AutoPause {
		body.AutoResume = &autoResume{Enabled: policy.AutoResume}
	}
	if spec.Snapshot == "" { // some servers refuse an environment beside a snapshot
		body.EnvVars = spec.Env
	}
	return body, nil
}

// TTL implements remote.Dialect. What is asked for beyond the plan is cut: the
// provider would refuse it.
func (d *dialect) TTL(p backend.TimeoutPolicy) time.Duration {
	ttl := d.s.Timeout(p).Duration
	if most := time.Duration(d.s.MaxTimeoutSeconds) * time.Second; ttl > most || ttl <= 0 {
		return most
	}
	return ttl
}

// Builder implements remote.Dialect.
func (d *dialect) Builder() remote.Builder {
	if d.s.Build == nil {
		return nil
	}
	return &builder{build: *d.s.Build, registry: d.s.Registry, api: d.api}
}
