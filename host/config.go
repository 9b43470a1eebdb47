package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Config is what runs.
type Config struct {
	// Backends are the named configs; at least one. Default names the one where
	// new sessions go; empty means the first.
	Backends []BackendConfig
	Default  string
	// Policies judge every run, in order; any deny stops.
	Policies []PolicyConfig
	// DecisionLog is a file to which every decision of the policies is appended as a
	// line of JSON, code of callers included; empty keeps the latest in memory only.
	DecisionLog string
	// Languages are tables by plugin name; later ones override by language id.
	Languages []string
	// Limits of a run that asks for nothing, and MaxLimits of one that asks for
	// much. Zero members take DefaultLimits and DefaultMaxLimits.
	Limits, MaxLimits backend.Limits
	// Clocks of sessions; the zero value is session.DefaultClocks.
	Clocks session.Clocks
}

// BackendConfig is one named config of one backend plugin.
type BackendConfig struct {
	// ID is ^[a-z0-9][a-z0-9_-]{0,63}$ and unique. It is stamped on sandboxes, so
	// renaming a config loses sight of its sessions. Empty means Plugin.
	ID string
	// Plugin is the plugin's name.
	Plugin string
	// Tenant, when set, is the only one that may use it.
	Tenant string
	// Config is the plugin's own, checked against its manifest before launch.
	Config json.RawMessage
}

// PolicyConfig is one policy in the chain.
type PolicyConfig struct {
	Plugin string
	Config json.RawMessage
	// Mode says what its verdicts do; empty means PolicyDeny.
	Mode PolicyMode
	// FailOpen lets requests pass that it fails to judge. Without it they are denied.
	FailOpen bool
}

// of returns the configs of one plugin.
func (c *Config) of(plugin string) (out []BackendConfig) {
	for _, b := range c.Backends {
		if b.Plugin == plugin {
			out = append(out, b)
		}
	}
	return out
}

var configID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (c *Config) complete() error {
	if len(c.Backends) == 0 {
		return errors.New("no backend is configured")
	}
	seen := make(map[string]BackendConfig)
	list := make([]BackendConfig, len(c.Backends))
	for i, b := range c.Backends {
		if b.ID == "" {
			b.ID = b.Plugin
		}
		if !configID.MatchString(b.ID) && b.ID != backend.NoConfig {
			return fmt.Errorf("backends[%d].id %q: must match %s", i, b.ID, configID)
		}
		if _, dup := seen[b.ID]; dup {
			return fmt.Errorf("backends[%d].id %q: is used twice", i, b.ID)
		}
		seen[b.ID] = b
		list[i] = b
	}
	c.Backends = list
	for i, p := range c.Policies {
		switch p.Mode {
		case "", PolicyDeny, PolicyWarn, PolicyObserve:
		default:
			return fmt.Errorf("policies[%d].mode %q: must be deny, warn or observe", i, p.Mode)
		}
	}
	if c.Default == "" {
		c.Default = list[0].ID
	}
	switch d, ok := seen[c.Default]; {
	case !ok:
		return fmt.Errorf("default %q: names no backend config", c.Default)
	case d.Tenant != "":
		return fmt.Errorf("default %q: belongs to one tenant, so it cannot be everybody's", c.Default)
	}
	c.Limits = fold(c.Limits, DefaultLimits(), orDefault)
	c.MaxLimits = fold(c.MaxLimits, DefaultMaxLimits(), orDefault)
	return nil
}
