package starts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sandbox says what to run: an image, and what it reads its instructions from. Whose
// work it is it cannot say: that is Start's org, which the request has proven.
type Sandbox struct {
	// Snapshot is the image. The work is its own entry point.
	Snapshot string `json:"snapshot"`
	// Env is the environment of the work.
	Env map[string]string `json:"env,omitempty"`
	// Labels are the caller's own bookkeeping, carried through untouched.
	Labels map[string]string `json:"labels,omitempty"`
}

// Bounds of a Sandbox.
const (
	maxSpec   = 256 << 10 // bytes of JSON
	maxEnv    = 128
	maxLabels = 32
	maxName   = 128
	maxValue  = 32 << 10
	maxLabel  = 1 << 10
)

var (
	snapshotExpr = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,255}$`)
	envExpr      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reserved are the prefixes of labels by which the deployment knows what is whose.
	reserved = []string{"caisson.", "exec."}
)

// SpecError is what is wrong with a Sandbox. Its text is for whoever wrote it.
type SpecError struct{ Field, Rule string }

func (e *SpecError) Error() string { return "sandbox: " + e.Field + " " + e.Rule }

// Parse reads a Sandbox from JSON. A field that is not known is refused: whoever
// wrote "org" there believes that it does something.
func Parse(text []byte) (Sandbox, error) {
	var s Sandbox
	if len(text) > maxSpec {
		return s, &SpecError{"spec", fmt.Sprintf("is larger than %d bytes", maxSpec)}
	}
	if err := unique(text); err != nil {
		return s, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return s, &SpecError{name, "is no field; known are snapshot, env and labels"}
		}
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return s, &SpecError{wrong.Field, "has the wrong type"}
		}
		return s, &SpecError{"spec", "is no JSON object"}
	}
	return s, s.Check()
}

// unique refuses members that stand twice or in another case, which a decoder would
// quietly take: {"snapshot":"a","Snapshot":"b"}.
func unique(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	seen := make(map[string]bool)
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return &SpecError{"spec", "is no JSON object"}
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return &SpecError{"spec", "is no JSON object"}
		}
		if seen[name] {
			return &SpecError{fmt.Sprintf("%q", name), "stands twice"}
		}
		seen[name] = true
		if known := strings.ToLower(name); known != name && (known == "snapshot" || known == "env" || known == "labels") {
			return &SpecError{fmt.Sprintf("%q", name), "is no field; known are snapshot, env and labels"}
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return &SpecError{"spec", "is no JSON object"}
		}
	}
	if _, err := d.Token(); err != nil {
		return &SpecError{"spec", "is no JSON object"}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &SpecError{"spec", "is followed by something else"}
	}
	return nil
}

// Check returns a *SpecError for a Sandbox that cannot be started.
func (s Sandbox) Check() error {
	if !snapshotExpr.MatchString(s.Snapshot) {
		return &SpecError{"snapshot", "must match " + snapshotExpr.String()}
	}
	if len(s.Env) > maxEnv {
		return &SpecError{"env", fmt.Sprintf("has more than %d variables", maxEnv)}
	}
	for k, v := range s.Env {
		if len(k) > maxName || !envExpr.MatchString(k) {
			return &SpecError{"env", fmt.Sprintf("%.40q is no variable", k)}
		}
		if len(v) > maxValue || strings.IndexByte(v, 0) >= 0 {
			return &SpecError{"env." + k, fmt.Sprintf("must be at most %d bytes without NUL", maxValue)}
		}
	}
	if len(s.Labels) > maxLabels {
		return &SpecError{"labels", fmt.Sprintf("has more than %d", maxLabels)}
	}
	for k, v := range s.Labels {
		if k == "" || len(k) > maxName || !plain(k) {
			return &SpecError{"labels", fmt.Sprintf("%.40q is no name", k)}
		}
		for _, prefix := range reserved {
			if strings.HasPrefix(strings.ToLower(k), prefix) {
				return &SpecError{"labels", fmt.Sprintf("%q begins with %q, which is the deployment's own", k, prefix)}
			}
		}
		if len(v) > maxLabel || !plain(v) {
			return &SpecError{"labels." + k, fmt.Sprintf("must be at most %d bytes of text without control characters", maxLabel)}
		}
	}
	return nil
}

func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }
