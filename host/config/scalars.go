package config

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Duration is a positive time.Duration, written "30s" or "1h30m".
type Duration time.Duration

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	const rule = `must be a positive duration such as "30s" or "1h30m"`
	s, ok := n.(*ast.StringNode)
	if !ok {
		return fault(n, rule)
	}
	v, err := time.ParseDuration(s.Value)
	if err != nil || v <= 0 {
		return fault(n, rule)
	}
	*d = Duration(v)
	return nil
}

// Size is a positive number of bytes, written 4096 or "512MiB", at most maxSize.
type Size int64

// maxSize leaves room for sums and multiples.
const maxSize = 1 << 50

var sizeExpr = regexp.MustCompile(`^([1-9][0-9]{0,15})(B|KiB|MiB|GiB|TiB)?$`)

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (z *Size) UnmarshalYAML(n ast.Node) error {
	const rule = `must be a number of bytes or a size such as "512MiB" (units: B, KiB, MiB, GiB, TiB)`
	parts := sizeExpr.FindStringSubmatch(scalar(n))
	if parts == nil {
		return fault(n, rule)
	}
	v, err := strconv.ParseInt(parts[1], 10, 64)
	unit := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[parts[2]]
	if err != nil || v > maxSize/unit {
		return fault(n, "must be at most 1024TiB")
	}
	*z = Size(v * unit)
	return nil
}

// Count is a positive whole number.
type Count int64

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (c *Count) UnmarshalYAML(n ast.Node) error {
	v, err := strconv.ParseInt(scalar(n), 10, 32)
	if _, ok := n.(*ast.IntegerNode); !ok || err != nil || v <= 0 {
		return fault(n, "must be a positive whole number")
	}
	*c = Count(v)
	return nil
}

// Number is a positive number, fractions allowed.
type Number float64

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (x *Number) UnmarshalYAML(n ast.Node) error {
	v, err := strconv.ParseFloat(scalar(n), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return fault(n, "must be a positive number")
	}
	*x = Number(v)
	return nil
}

// Object is a free-form mapping, kept as JSON. Nil when the file has none.
type Object json.RawMessage

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (o *Object) UnmarshalYAML(n ast.Node) error {
	var v map[string]any
	if err := yaml.NodeToValue(n, &v, yaml.Strict()); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fault(n, "must be a mapping that JSON can express")
	}
	*o = b
	return nil
}

// has reports whether o has a member of that name.
func (o Object) has(name string) bool {
	var members map[string]json.RawMessage
	if o == nil || json.Unmarshal(o, &members) != nil {
		return false
	}
	_, ok := members[name]
	return ok
}

// MarshalJSON implements json.Marshaler: o is JSON already.
func (o Object) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// scalar is the text of a plain value, or empty for anything else.
func scalar(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value
	default:
		return ""
	}
}

func fault(n ast.Node, format string, args ...any) error {
	return &nodeError{n.GetToken(), fmt.Sprintf(format, args...)}
}

// nodeError is a broken rule at a place, before the file and field are known.
type nodeError struct {
	token  *token.Token
	reason string
}

func (e *nodeError) Error() string { return e.reason }
