package binding

import (
	"fmt"
	"log/slog"
	"time"
)

// Version is the schema of a [Binding] that this program writes. Records of any
// other version are [SchemaError]: they are neither read nor changed nor deleted.
const Version = 1

// Binding records which sandbox a session has. It is created once and then only
// patched in two places, Stale and Token.
//
// It holds a bearer secret. Its formatted forms leave that out, and it has no
// JSON form.
type Binding struct {
	Key
	// Provider is the name of the backend plugin that made the sandbox.
	Provider string
	// Config is the named config it was made from, backend.NoConfig for the
	// deployment's default. Empty is a binding from before configs were
	// recorded: it is valid and no config matches it.
	Config string
	// Sandbox is the provider's id of the sandbox.
	Sandbox string
	// Template is what it was started from; empty means the config's default.
	Template string
	// Created is when the binding was made, in whole milliseconds.
	Created time.Time
	// Stale is when the config's image was replaced after this sandbox was made
	// from the old one, in whole milliseconds; zero when it was not. The sandbox
	// serves on until the first resolve of a turn replaces it.
	Stale time.Time
	// Token is the sandbox's inbound credential where the provider issues one.
	// For some providers the binding is the only place where it survives.
	Token string
}

// Validate returns a [FieldError] for a binding that may not be stored.
func (b Binding) Validate() error {
	if err := b.Key.Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name, value string
		max         int
		required    bool
	}{
		{"provider", b.Provider, MaxProvider, true},
		{"sandbox", b.Sandbox, MaxSandbox, true},
		{"config", b.Config, MaxConfig, false},
		{"template", b.Template, MaxTemplate, false},
		{"token", b.Token, MaxToken, false},
	} {
		if f.required && f.value == "" {
			return &FieldError{Field: f.name, Rule: "must not be empty"}
		}
		if err := checkText(f.name, f.value, f.max); err != nil {
			return err
		}
	}
	if b.Created.UnixMilli() <= 0 {
		return &FieldError{Field: "created", Rule: "must be a time after 1970"}
	}
	if !b.Stale.IsZero() && b.Stale.UnixMilli() <= 0 {
		return &FieldError{Field: "stale", Rule: "must be a time after 1970"}
	}
	return nil
}

// Names reports whether b is bound to that sandbox of that provider.
func (b Binding) Names(provider, sandbox string) bool {
	return b.Provider == provider && b.Sandbox == sandbox
}

// String describes b for operators, without the token.
func (b Binding) String() string {
	s := fmt.Sprintf("%v -> %q of %q, config %q", b.Key, b.Sandbox, b.Provider, b.Config)
	if !b.Stale.IsZero() {
		s += ", stale"
	}
	return s
}

// Format writes String for every verb, so that %+v and %#v do not show the token.
func (b Binding) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(b.String())) }

// LogValue is String.
func (b Binding) LogValue() slog.Value { return slog.StringValue(b.String()) }

// MarshalJSON refuses: a binding holds a secret and belongs in a store only.
func (b Binding) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("a binding holds a secret and has no JSON form")
}

// State is everything a resolve needs to know about a session, as of one moment.
type State struct {
	// Binding is valid when Bound.
	Binding Binding
	Bound   bool
	// Turns counts open turns, Work live background activities.
	Turns, Work int
	// Spent: the open turn has had its one chance to rebuild.
	Spent bool
	// Rewinding: somebody holds the rewind lock.
	Rewinding bool
}

// Busy reports an open turn. Live background work is one, which nobody resolves in.
func (s State) Busy() bool { return s.Turns > 0 || s.Work > 0 }

// MayRebuild reports whether a resolve may replace a stale sandbox now: not under
// background work or a rewind, and in a turn only the first resolve. Without a
// turn it always may.
func (s State) MayRebuild() bool {
	return s.Work == 0 && !s.Rewinding && (s.Turns == 0 || !s.Spent)
}

// Rebuild says whether a call is a resolve, which uses up the open turn's one
// chance to rebuild a stale sandbox even if there is nothing to rebuild: what
// becomes stale later in the turn must wait, or files of the turn would be lost.
type Rebuild bool

const (
	// Keep leaves the chance to a later resolve: a lookup.
	Keep Rebuild = false
	// Spend uses it: State.MayRebuild of the answer says whether it was there.
	Spend Rebuild = true
)

// Work is a background activity that protects its session's sandbox from being
// rebuilt or rewound: a detached run, a job.
type Work struct {
	// ID is unique within the session: letters, digits and "_-.", at most MaxWorkID.
	ID string
	// Kind groups activities for limits: letters, digits and "_-.", at most MaxWorkKind.
	Kind string
	// Data is the caller's own, at most MaxWorkData; stored as it is.
	Data string
	// Expires is set in answers: when the lease ends, by the engine's clock.
	Expires time.Time
}

// Validate returns a [FieldError] for an activity that may not be stored.
func (w Work) Validate() error {
	for _, f := range []struct {
		name, value string
		max         int
	}{{"id", w.ID, MaxWorkID}, {"kind", w.Kind, MaxWorkKind}} {
		if f.value == "" {
			return &FieldError{Field: f.name, Rule: "must not be empty"}
		}
		if len(f.value) > f.max {
			return &FieldError{Field: f.name, Rule: fmt.Sprintf("must not be longer than %d bytes", f.max)}
		}
		for _, c := range []byte(f.value) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
				return &FieldError{Field: f.name, Rule: "may contain letters, digits and _-. only"}
			}
		}
	}
	if len(w.Data) > MaxWorkData {
		return &FieldError{Field: "data", Rule: fmt.Sprintf("must not be longer than %d bytes", MaxWorkData)}
	}
	return nil
}
