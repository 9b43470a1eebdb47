package config

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Host returns what host.Open needs to know, with the secrets of backends put
// in their places. A secret that is not there is an error that names the key.
func (f File) Host(lookup func(string) (string, bool)) (host.Config, error) {
	c := host.Config{
		Default:   f.DefaultBackend,
		Languages: f.Languages,
		Limits:    f.Limits.backend(),
		MaxLimits: f.MaxLimits.backend(),
		Clocks:    f.Sessions.Clocks(),

		DecisionLog: f.DecisionLog,
	}
	for _, b := range f.Backends {
		raw, err := b.withSecrets(lookup)
		if err != nil {
			return host.Config{}, fmt.Errorf("backend %q: %w", b.ID, err)
		}
		c.Backends = append(c.Backends, host.BackendConfig{ID: b.ID, Plugin: b.Plugin, Tenant: b.Tenant, Config: raw})
	}
	for _, p := range f.Policies {
		c.Policies = append(c.Policies, host.PolicyConfig{
			Plugin: p.Plugin, Config: json.RawMessage(p.Config),
			Mode: host.PolicyMode(p.Mode), FailOpen: p.Fail == FailOpen,
		})
	}
	return c, nil
}

// Trust returns which plugins may be used. The keys were checked when the file was
// read.
func (f File) Trust() (host.Trust, error) {
	keys, err := manifest.ParseKeys(f.Plugins.Keys)
	if err != nil {
		return host.Trust{}, fmt.Errorf("plugins.%w", err)
	}
	return host.Trust{StrictDigests: f.StrictDigests, SigningKeys: keys}, nil
}

func (b Backend) withSecrets(lookup func(string) (string, bool)) (json.RawMessage, error) {
	if len(b.Secrets) == 0 {
		return json.RawMessage(b.Config), nil
	}
	members := make(map[string]json.RawMessage)
	if b.Config != nil {
		if err := json.Unmarshal(b.Config, &members); err != nil {
			return nil, err
		}
	}
	for name, s := range b.Secrets {
		v, err := s.Read(lookup)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		if members[name], err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}

func (l Limits) backend() backend.Limits {
	return backend.Limits{
		Wall: time.Duration(l.Wall), CPU: time.Duration(l.CPU),
		MemoryBytes: int64(l.Memory), CPUs: float64(l.CPUs), Processes: int64(l.Processes),
		StdoutBytes: int64(l.Stdout), StderrBytes: int64(l.Stderr),
		DiskBytes: int64(l.Disk), DiskFiles: int64(l.Files),
	}
}

// Clocks returns the clocks in force. What the file leaves open is filled one
// by one: session.Options takes its defaults only as a whole.
func (s Sessions) Clocks() session.Clocks {
	c := session.DefaultClocks()
	for _, x := range []struct {
		to   *time.Duration
		from Duration
	}{{&c.TTL, s.TTL}, {&c.Idle, s.Idle}, {&c.UnusedUpload, s.UnusedUpload}, {&c.Sweep, s.Sweep}} {
		if x.from > 0 {
			*x.to = time.Duration(x.from)
		}
	}
	return c
}
