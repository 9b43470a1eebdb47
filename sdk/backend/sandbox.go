package backend

import (
	"time"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Well-known paths inside every sandbox.
const (
	// DataDir is the working directory: persistent and collected.
	DataDir = files.DataDir
	// TmpDir is scratch space, empty at the start of every run.
	TmpDir = files.TmpDir
)

// Ref addresses one sandbox.
type Ref struct {
	// Config is the id given to OpenConfig.
	Config string `json:"config"`
	// ID is the provider's own id (Sandbox.ID).
	ID string `json:"id"`
}

// State is where a sandbox is in its life. An adapter maps what it cannot name
// to StateUnknown, which preserves the sandbox.
type State string

const (
	// StateRunning: ready for work.
	StateRunning State = "running"
	// StatePaused: kept, and ready after Connect. A stopped container is paused.
	StatePaused State = "paused"
	// StateTransitioning: on its way between two states.
	StateTransitioning State = "transitioning"
	// StateTerminated: gone for good.
	StateTerminated State = "terminated"
	// StateUnknown: none of the above can be claimed.
	StateUnknown State = "unknown"
)

// Metadata is stamped on a sandbox when it is made and never changes. It is
// how a sandbox is found and owned again after everything else is forgotten.
// Values are opaque to backends.
type Metadata struct {
	// Deployment tells hosts apart that share one provider.
	Deployment string `json:"deployment"`
	// Config is the named config, or NoConfig for the deployment's default.
	Config string `json:"config"`
	// Session is the id callers hold.
	Session string `json:"session"`
	// Tenant and User own it. User may be empty.
	Tenant string `json:"tenant"`
	User   string `json:"user,omitempty"`
	// Origin is what made it: "exec", "upload", "start" or an embedder's word.
	Origin string `json:"origin"`
	// Labels are the host's and caller's further pairs.
	Labels map[string]string `json:"labels,omitempty"`
}

// NoConfig stands in Metadata.Config for "the default backend, no named
// config", so that such sandboxes can be listed and released like others.
const NoConfig = "_default"

// Sandbox describes one sandbox as its provider sees it.
type Sandbox struct {
	Ref
	State State `json:"state"`
	// RawState is the provider's own word, for diagnostics only.
	RawState string   `json:"raw_state,omitempty"`
	Metadata Metadata `json:"metadata"`
	// Created is zero when the provider does not say; a reaper then protects it.
	Created time.Time `json:"created,omitzero"`
	// LastActive is the last time anything touched it; zero when unknown.
	LastActive time.Time `json:"last_active,omitzero"`
	// Expires is when the provider will act by itself; zero when never or unknown.
	Expires time.Time `json:"expires,omitzero"`
	// Token is a bearer secret for traffic to this sandbox, where the provider
	// issues one. Never log it.
	Token string `json:"-"`
	// StateSchema is the version of on-provider state that it is kept in, one of
	// Info.StateSchema; empty means the first of them. While a version of a plugin
	// takes the place of another, it decides which of the two serves the sandbox.
	StateSchema string `json:"state_schema,omitempty"`
}

// CreateSpec says what sandbox to make.
type CreateSpec struct {
	// Config is the id given to OpenConfig.
	Config string `json:"config"`
	// Session becomes the sandbox's name where the provider allows names.
	Session string `json:"session"`
	// Metadata is stamped as it is. Metadata.Session equals Session.
	Metadata Metadata `json:"metadata"`
	// Template and Snapshot choose what it starts from; at most one is set and
	// both empty means the config's default.
	Template string `json:"template,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	// Entrypoint replaces the template's own, where the provider can.
	Entrypoint []string `json:"entrypoint,omitempty"`
	// Env is the sandbox's environment; programs add to it.
	Env map[string]string `json:"env,omitempty"`
	// Network is what programs may reach. The zero value is closed.
	Network Network `json:"network,omitzero"`
	// Volumes are mounted now or never; they need CapVolumes.
	Volumes []VolumeMount `json:"volumes,omitempty"`
	// Timeout says when the provider acts by itself.
	Timeout TimeoutPolicy `json:"timeout,omitzero"`
	// Limits of the sandbox as a whole.
	Limits Limits `json:"limits,omitzero"`
}

// NetworkMode is the tri-state of a sandbox's network.
type NetworkMode string

const (
	// NetworkDefault leaves the choice to the config, whose own default is closed.
	NetworkDefault NetworkMode = ""
	// NetworkClosed denies everything that Allow does not list.
	NetworkClosed NetworkMode = "closed"
	// NetworkOpen allows everything that Deny does not list.
	NetworkOpen NetworkMode = "open"
)

// Network says what a sandbox may reach. A backend that cannot enforce a rule
// refuses the spec with KindUnsupported.
type Network struct {
	Mode NetworkMode `json:"mode,omitempty"`
	// Allow and Deny hold CIDRs, addresses or host names.
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Rules are provider-specific L7 rules, kept as the provider's own JSON.
	Rules []byte `json:"rules,omitempty"`
	// PublicPorts lets inbound traffic in without a credential. Off by default.
	PublicPorts bool `json:"public_ports,omitempty"`
}

// VolumeMount mounts a named volume.
type VolumeMount struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// TimeoutMode says how Duration is meant.
type TimeoutMode string

const (
	// TimeoutDefault leaves it to the config and provider.
	TimeoutDefault TimeoutMode = ""
	// TimeoutAfter acts Duration after the last refresh; 0 acts now.
	TimeoutAfter TimeoutMode = "after"
	// TimeoutNever asks the provider never to act; where it cannot, Create is
	// KindUnsupported.
	TimeoutNever TimeoutMode = "never"
)

// TimeoutAction is what the provider does then.
type TimeoutAction string

const (
	// TimeoutKill ends the sandbox.
	TimeoutKill TimeoutAction = "kill"
	// TimeoutPause keeps it paused; needs CapPause.
	TimeoutPause TimeoutAction = "pause"
)

// TimeoutPolicy is explicit: nothing is read out of a zero duration.
type TimeoutPolicy struct {
	Mode     TimeoutMode   `json:"mode,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	Action   TimeoutAction `json:"action,omitempty"`
	// AutoResume wakes the sandbox on traffic; refused where absent.
	AutoResume bool `json:"auto_resume,omitempty"`
}

// ListFilter selects sandboxes. Every set member must match.
type ListFilter struct {
	// Config is the id given to OpenConfig; required.
	Config string `json:"config"`
	// Deployment, Tenant and Session match Metadata; empty matches all.
	Deployment string `json:"deployment,omitempty"`
	Tenant     string `json:"tenant,omitempty"`
	Session    string `json:"session,omitempty"`
	// Labels must all be present with equal values.
	Labels map[string]string `json:"labels,omitempty"`
	// States limits the answer; empty means running, paused and transitioning.
	States []State `json:"states,omitempty"`
}

// Matches reports whether s passes the filter. Adapters whose provider cannot
// filter use it; the host applies it again to every listing it receives.
func (f ListFilter) Matches(s Sandbox) bool {
	if f.Config != s.Config ||
		(f.Deployment != "" && f.Deployment != s.Metadata.Deployment) ||
		(f.Tenant != "" && f.Tenant != s.Metadata.Tenant) ||
		(f.Session != "" && f.Session != s.Metadata.Session) {
		return false
	}
	for k, v := range f.Labels {
		if got, ok := s.Metadata.Labels[k]; !ok || got != v {
			return false
		}
	}
	if len(f.States) == 0 {
		return s.State != StateTerminated
	}
	for _, st := range f.States {
		if st == s.State {
			return true
		}
	}
	return false
}
