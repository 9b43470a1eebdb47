package binding

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Limits of what a store accepts, in bytes.
const (
	MaxTenant   = 256
	MaxSession  = 128
	MaxProvider = 64
	MaxConfig   = 256
	MaxSandbox  = 256
	MaxTemplate = 512
	MaxToken    = 8 << 10
	MaxWorkID   = 128
	MaxWorkKind = 64
	MaxWorkData = 4 << 10
	// MaxWork is how many live activities of all kinds a session may have.
	MaxWork = 256
)

// Key addresses what a store knows about one session.
type Key struct {
	// Tenant owns the session.
	Tenant string
	// Session is the id within the tenant that the embedder or the caller chose.
	Session string
}

// Validate returns a [FieldError] for a key that cannot address a session: an
// empty or blank part, one that is too long or not UTF-8, a control character, or
// a brace, which would decide where in a Redis cluster the session's keys are.
func (k Key) Validate() error {
	if err := checkName("tenant", k.Tenant, MaxTenant); err != nil {
		return err
	}
	return checkName("session", k.Session, MaxSession)
}

// String is for operators' logs. It names the tenant: never show it to a caller.
func (k Key) String() string {
	return strconv.Quote(k.Tenant) + "/" + strconv.Quote(k.Session)
}

// checkName holds the rules for every name that becomes part of a key.
func checkName(field, s string, max int) error {
	if err := checkText(field, s, max); err != nil {
		return err
	}
	blank := true
	for _, r := range s {
		if r == '{' || r == '}' {
			return &FieldError{Field: field, Rule: "must not contain braces"}
		}
		blank = blank && unicode.IsSpace(r)
	}
	if blank {
		return &FieldError{Field: field, Rule: "must not be empty or blank"}
	}
	return nil
}

// checkText holds the rules for every value; empty is allowed.
func checkText(field, s string, max int) error {
	if len(s) > max {
		return &FieldError{Field: field, Rule: fmt.Sprintf("must not be longer than %d bytes", max)}
	}
	if !utf8.ValidString(s) {
		return &FieldError{Field: field, Rule: "must be UTF-8"}
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return &FieldError{Field: field, Rule: "must not contain control characters"}
		}
	}
	return nil
}
