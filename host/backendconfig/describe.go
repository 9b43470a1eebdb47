package backendconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Description is what a manifest says about the members of a config.
type Description struct {
	// Required, Secret and Identity are names of members, sorted.
	Required, Secret, Identity []string
	// Noted says that the manifest names what belongs to Identity.
	Noted bool

	plugin   string
	defaults map[string]json.RawMessage
	m        *manifest.Manifest
}

// property is what counts here of a member's schema.
type property struct {
	WriteOnly bool            `json:"writeOnly"`
	Identity  *bool           `json:"x-identity"`
	Default   json.RawMessage `json:"default"`
}

// Describe reads a manifest. Where no member carries the note x-identity, all count
// but those that say false: a plugin that says nothing is not assumed to reach the
// same sandboxes with another config.
func Describe(m *manifest.Manifest) (*Description, error) {
	d := &Description{plugin: m.Name, defaults: map[string]json.RawMessage{}, m: m}
	if len(m.Config) == 0 {
		return d, nil
	}
	var schema struct {
		Required   []string            `json:"required"`
		Properties map[string]property `json:"properties"`
	}
	if err := json.Unmarshal(m.Config, &schema); err != nil {
		return nil, fmt.Errorf("describe the config of plugin %q: %w", m.Name, err)
	}
	d.Required = slices.Sorted(slices.Values(schema.Required))
	for _, p := range schema.Properties {
		d.Noted = d.Noted || p.Identity != nil && *p.Identity
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		if p.WriteOnly {
			d.Secret = append(d.Secret, name)
		}
		if p.Identity != nil && *p.Identity || p.Identity == nil && !d.Noted {
			d.Identity = append(d.Identity, name)
		}
		if len(p.Default) > 0 {
			d.defaults[name] = p.Default
		}
	}
	return d, nil
}

// MissingError lists required members that a config does not have.
type MissingError struct {
	// Plugin is the config's, Fields are names of members, sorted.
	Plugin string
	Fields []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("plugin %q: the config lacks %s", e.Plugin, strings.Join(e.Fields, ", "))
}

// Missing lists the required members that are absent, null or empty. It is the same
// list when a config is saved and when one is resolved, so that nobody learns of a gap
// from the first run.
func (d *Description) Missing(config json.RawMessage) []string {
	members := parse(config)
	var out []string
	for _, name := range d.Required {
		switch strings.TrimSpace(string(members[name])) {
		case "", "null", `""`, "[]", "{}":
			out = append(out, name)
		}
	}
	return out
}

// Check says what is wrong with a config without asking anybody: what it lacks as a
// *MissingError, and everything else that the manifest's schema refuses. No error
// repeats a value.
func (d *Description) Check(config json.RawMessage) error {
	if fields := d.Missing(config); len(fields) > 0 {
		return &MissingError{d.plugin, fields}
	}
	return d.m.ValidateConfig(config)
}

// Identity is whose sandboxes a config reaches. Equal ones reach the same. It is a
// digest, since secrets are part of what it is made of.
type Identity string

// SandboxIdentity returns a config's identity: the plugin and the members that decide,
// defaults filled in. It judges nothing, so that an administrator can still repair a
// config that no longer passes, and does not fail: what cannot be read is another
// identity than anything that can.
func (d *Description) SandboxIdentity(config json.RawMessage) Identity {
	members := parse(config)
	sum := sha256.New()
	write := func(text string) { fmt.Fprintf(sum, "%d:%s", len(text), text) }
	write(d.plugin)
	if members == nil {
		write(string(config))
	}
	for _, name := range d.Identity {
		value, ok := members[name]
		if !ok || string(value) == "null" {
			value = d.defaults[name]
		}
		write(name)
		write(canonical(value))
	}
	return Identity(hex.EncodeToString(sum.Sum(nil)))
}

// canonical writes equal values alike.
func canonical(value json.RawMessage) string {
	var v any
	if len(value) == 0 || json.Unmarshal(value, &v) != nil {
		return string(value)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return string(value)
	}
	return string(text)
}

// parse takes a config apart; nil when it is no object.
func parse(config json.RawMessage) map[string]json.RawMessage {
	if len(strings.TrimSpace(string(config))) == 0 {
		return map[string]json.RawMessage{}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(config, &members) != nil {
		return nil
	}
	return members
}

// Redact returns a config whose secrets are replaced, for whoever may see it but not
// them. Members inside other members count too, by their names at the top.
func (d *Description) Redact(config json.RawMessage) json.RawMessage {
	members := parse(config)
	if members == nil {
		return json.RawMessage(`{}`)
	}
	for name := range members {
		if slices.Contains(d.Secret, name) {
			members[name] = json.RawMessage(`"[secret]"`)
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return text
}

// Probe tests a config that nobody uses yet, as it would be saved: what it lacks, what
// the schema refuses, and then what the backend's own Probe finds, which has
// connections of its own, guards them, and neither makes nor ends anything. A config
// that does not pass is a report, not an error.
func (d *Description) Probe(ctx context.Context, b backend.Backend, config json.RawMessage) (backend.ProbeReport, error) {
	if err := d.Check(config); err != nil {
		return backend.ProbeReport{Detail: err.Error()}, nil
	}
	complete, err := d.m.CompleteConfig(config)
	if err != nil {
		return backend.ProbeReport{Detail: err.Error()}, nil
	}
	report, err := b.Probe(ctx, complete)
	if err != nil {
		return report, fmt.Errorf("probe the config: %w", err)
	}
	return report, nil
}
