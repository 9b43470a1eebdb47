package manifest

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/mod/semver"
)

// stringRule is what a string must look like, and how to say so.
type stringRule struct {
	expr *regexp.Regexp
	say  string
}

var (
	nameRule = stringRule{
		regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`),
		"must be a lower-case letter followed by at most 62 letters, digits or hyphens",
	}
	digestRule = stringRule{
		regexp.MustCompile(`^[0-9a-f]{64}$`),
		"must be the SHA-256 of the artifact as 64 lower-case hexadecimal digits",
	}
	lineRule = stringRule{
		regexp.MustCompile(`^[^\n\r]{1,500}$`),
		"must be one line of 1 to 500 printable characters",
	}
	licenceRule = stringRule{
		regexp.MustCompile(`^[A-Za-z0-9(][A-Za-z0-9.+() -]{0,127}$`),
		"must be an SPDX expression such as Apache-2.0",
	}
	envRule = stringRule{
		regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`),
		"must be the name of one environment variable: letters, digits and underscores",
	}
	capabilityRule = stringRule{
		regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`),
		"must be a capability such as pause or fs_enum: lower-case letters, digits and underscores",
	}
	stateRule = stringRule{
		regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`),
		"must be the label of a state version: letters, digits, dots, underscores and hyphens",
	}
	segmentExpr  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)
	integerExpr  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	sizeExpr     = regexp.MustCompile(`^([1-9][0-9]{0,15})(B|KiB|MiB|GiB)$`)
	durationExpr = regexp.MustCompile(`^([1-9][0-9]{0,11})(ms|s|m)$`)
)

// text reads a string. YAML turns an unquoted 1.0 or true into something else,
// and turning it back would lose how it was written.
func (d *decoder) text(n *node) (string, bool) {
	if n.kind == stringNode {
		return n.text, true
	}
	if n.kind == numberNode || n.kind == boolNode {
		d.bad(n, "must be a string, not %s: put %s in quotes", n.kind, printable(n.text))
	} else {
		d.bad(n, "must be a string, not %s", n.kind)
	}
	return "", false
}

func (d *decoder) match(n *node, rule stringRule) string {
	s, ok := d.text(n)
	if !ok {
		return ""
	}
	if !rule.expr.MatchString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		d.bad(n, "%s", rule.say)
		return ""
	}
	return s
}

func rule(r stringRule) func(*decoder, *node) string {
	return func(d *decoder, n *node) string { return d.match(n, r) }
}

func (d *decoder) choice(n *node, known ...string) string {
	s, ok := d.text(n)
	if !ok {
		return ""
	}
	if !slices.Contains(known, s) {
		d.bad(n, "unknown value %s: must be one of %s", printable(s), strings.Join(known, ", "))
		return ""
	}
	return s
}

func oneOf(known ...string) func(*decoder, *node) string {
	return func(d *decoder, n *node) string { return d.choice(n, known...) }
}

// list reads a list of at most limit different strings.
func (d *decoder) list(n *node, limit int, each func(*decoder, *node) string) []string {
	if n.kind != listNode {
		d.bad(n, "must be a list, not %s", n.kind)
		return nil
	}
	if len(n.items) > limit {
		d.bad(n, "must have at most %d entries", limit)
		return nil
	}
	var out []string
	for _, item := range n.items {
		before := len(d.errs)
		s := each(d, item)
		switch {
		case len(d.errs) > before:
		case slices.Contains(out, s):
			d.bad(item, "%s is listed twice", s)
		default:
			out = append(out, s)
		}
	}
	return out
}

func (d *decoder) boolean(n *node) bool {
	if n.kind != boolNode {
		d.bad(n, "must be true or false, not %s", n.kind)
	}
	return n.kind == boolNode && n.text == "true"
}

func (d *decoder) integer(n *node, lowest, highest int64) int64 {
	if n.kind != numberNode || !integerExpr.MatchString(n.text) {
		d.bad(n, "must be a whole number in plain decimal digits")
		return 0
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil || v < lowest || v > highest {
		if lowest == highest {
			d.bad(n, "must be %d, the only version that this host reads", lowest)
		} else {
			d.bad(n, "must be between %d and %d", lowest, highest)
		}
		return 0
	}
	return v
}

// bytes reads a size: a plain number of bytes, or a string with a unit.
func (d *decoder) bytes(n *node, lowest, highest int64) int64 {
	number, unit := n.text, int64(1)
	if n.kind == stringNode {
		parts := sizeExpr.FindStringSubmatch(n.text)
		if parts == nil {
			d.bad(n, "must be a number of bytes or a size such as 64MiB (units: B, KiB, MiB, GiB)")
			return 0
		}
		number, unit = parts[1], map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[parts[2]]
	} else if n.kind != numberNode || !integerExpr.MatchString(n.text) {
		d.bad(n, "must be a number of bytes or a size such as 64MiB")
		return 0
	}
	v, err := strconv.ParseInt(number, 10, 64)
	// Dividing the bound instead of multiplying the value cannot overflow.
	if err != nil || v > highest/unit || v*unit < lowest {
		d.bad(n, "must be between %s and %s", size(lowest), size(highest))
		return 0
	}
	return v * unit
}

func size(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if one := int64(1) << (30 - 10*i); n%one == 0 {
			return fmt.Sprintf("%d%s", n/one, unit)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// duration reads one number with one unit, so that it can be read at a glance.
func (d *decoder) duration(n *node, lowest, highest time.Duration) time.Duration {
	parts := durationExpr.FindStringSubmatch(n.text)
	if n.kind != stringNode || parts == nil {
		d.bad(n, "must be a duration such as 500ms, 10s or 2m")
		return 0
	}
	unit := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute}[parts[2]]
	v, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || v > int64(highest/unit) || time.Duration(v)*unit < lowest {
		d.bad(n, "must be between %s and %s", formatDuration(lowest), formatDuration(highest))
		return 0
	}
	return time.Duration(v) * unit
}

// formatDuration writes what duration reads.
func formatDuration(t time.Duration) string {
	switch {
	case t%time.Minute == 0:
		return fmt.Sprintf("%dm", t/time.Minute)
	case t%time.Second == 0:
		return fmt.Sprintf("%ds", t/time.Second)
	default:
		return fmt.Sprintf("%dms", t/time.Millisecond)
	}
}

func (d *decoder) version(n *node) {
	s, ok := d.text(n)
	if !ok {
		return
	}
	// semver takes v1 and v1.2 for versions; a release has three numbers.
	v := "v" + s
	if len(s) > 64 || !semver.IsValid(v) || semver.Canonical(v)+semver.Build(v) != v {
		d.bad(n, "must be a semantic version of three numbers without a leading v, such as 1.2.3 or 1.2.3-rc.1")
		return
	}
	d.m.Version = s
}

func (d *decoder) path(n *node) {
	switch s := d.relative(n); s {
	case "": // it was told why
	case FileName:
		d.bad(n, "must name the artifact, not the manifest")
	default:
		d.m.Path = s
	}
}

// relative reads the path of something in the plugin directory; it is empty when it is
// none.
func (d *decoder) relative(n *node) string {
	s, ok := d.text(n)
	if !ok {
		return ""
	}
	plain := true
	for segment := range strings.SplitSeq(s, "/") {
		plain = plain && segmentExpr.MatchString(segment)
	}
	switch {
	case strings.ContainsAny(s, "\\\x00"):
		d.bad(n, "must have forward slashes and no NUL")
	case path.IsAbs(s) || filepath.IsAbs(s):
		d.bad(n, "must be relative to the plugin directory")
	case slices.Contains(strings.Split(s, "/"), ".."):
		d.bad(n, "must stay inside the plugin directory: no ..")
	case !plain || !filepath.IsLocal(s) || len(s) > 255:
		d.bad(n, "must be a clean path of letters, digits, and . _ + - inside names")
	default:
		return s
	}
	return ""
}

// CheckName says what is wrong with the name of a plugin; nil is that nothing is.
func CheckName(name string) error {
	if !nameRule.expr.MatchString(name) {
		return errors.New(nameRule.say)
	}
	return nil
}
