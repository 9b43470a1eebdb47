package manifest

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A plugin's config is described in a subset of JSON Schema draft 2020-12
// (https://json-schema.org/draft/2020-12): everything that describes data, and
// nothing that reaches elsewhere, renames, or recurses. Two rules are ours:
//
//   - Formats are checked, and an unknown format or keyword is an error. A
//     keyword that begins with x- is a note and is left alone.
//   - An operator's typing error is an error. The whole configuration, and each
//     property or item that names its own properties, accepts no others unless
//     the schema says something about them (additionalProperties: true, say).
//     Schemas below $defs, allOf, anyOf, oneOf, not and if are taken as written,
//     since closing a condition would change what it asks.

// shape is what the value of a schema keyword holds.
type shape uint8

const (
	data     shape = iota // data, which the meta-schema checks
	one                   // a schema
	listed                // a list of schemas
	named                 // a mapping of names to schemas
	topLevel              // as data, but only at the top
)

var schemaKeywords = map[string]shape{
	"$schema": topLevel, "$defs": named, "$ref": data, "$comment": data,
	"title": data, "description": data, "default": data, "examples": data,
	"deprecated": data, "readOnly": data, "writeOnly": data,
	"type": data, "enum": data, "const": data, "format": data,
	"multipleOf": data, "minimum": data, "maximum": data,
	"exclusiveMinimum": data, "exclusiveMaximum": data,
	"minLength": data, "maxLength": data, "pattern": data,
	"minItems": data, "maxItems": data, "uniqueItems": data,
	"minContains": data, "maxContains": data,
	"minProperties": data, "maxProperties": data,
	"required": data, "dependentRequired": data,
	"properties": named, "patternProperties": named, "dependentSchemas": named,
	"additionalProperties": one, "unevaluatedProperties": one,
	"items": one, "contains": one, "prefixItems": listed,
	"allOf": listed, "anyOf": listed, "oneOf": listed,
	"not": one, "if": one, "then": one, "else": one,
}

// insteadOf has advice for keywords that are left out. Most reach elsewhere or
// belong to older drafts; the validator names the wrong field when propertyNames
// fails (its error shares memory with the location of later fields).
var insteadOf = map[string]string{
	"propertyNames":    ": use patternProperties with additionalProperties: false",
	"definitions":      ": use $defs",
	"dependencies":     ": use dependentRequired or dependentSchemas",
	"additionalItems":  ": use prefixItems and items",
	"$id":              ": a config schema has no name",
	"$anchor":          ": refer to #/$defs/NAME",
	"$dynamicAnchor":   ": refer to #/$defs/NAME",
	"$dynamicRef":      ": use $ref",
	"$recursiveRef":    ": use $ref",
	"contentEncoding":  ": use pattern",
	"contentMediaType": ": use pattern",
	"contentSchema":    ": use pattern",
	"unevaluatedItems": ": use items: false",
}

// formats are those that the validator checks; it ignores any other.
var formats = []string{
	"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri",
	"iri-reference", "json-pointer", "period", "regex", "relative-json-pointer",
	"semver", "time", "uri", "uri-reference", "uri-template", "uuid",
}

const (
	draft = "https://json-schema.org/draft/2020-12/schema"
	// maxSubschemas bounds a schema with its references written out: ten
	// definitions that each use the next one twice are a thousand schemas to check.
	maxSubschemas = 4096
)

var (
	refExpr    = regexp.MustCompile(`^#/\$defs/([A-Za-z0-9_.-]+)$`)
	numberExpr = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// config reads the schema of the plugin's configuration and compiles it.
func (d *decoder) config(n *node) {
	if n.kind != mapNode {
		d.bad(n, "must be a JSON Schema for an object, not %s", n.kind)
		return
	}
	if t := n.get("type"); t != nil && (t.kind != stringNode || t.text != "object") {
		d.bad(t, "must be object: a configuration is a mapping")
		return
	}
	before := len(d.errs)
	c := schemaCheck{d: d, root: n, sizes: map[string]int{}}
	c.keywords(n)
	if len(d.errs) == before && c.size(n) > maxSubschemas {
		d.bad(n, "has more than %d schemas when its references are written out", maxSubschemas)
	}
	doc, ok := d.json(n)
	if !ok || len(d.errs) > before {
		return
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		d.bad(n, "cannot be written as JSON: %v", err)
		return
	}
	schema, err := compile(doc.(map[string]any))
	if err != nil {
		d.compileError(n, err)
		return
	}
	if at, why := badDefault(schema); why != "" {
		d.bad(n.at(at), "does not satisfy its own schema: %s", why)
		return
	}
	d.m.Config, d.m.schema = raw, schema
}

// schemaCheck looks at a schema before it is compiled.
type schemaCheck struct {
	d    *decoder
	root *node
	// sizes remembers how many schemas a definition is; -1 while it is counted.
	sizes map[string]int
}

// subschemas calls f for each schema directly inside another, other than
// definitions.
func subschemas(n *node, f func(*node)) {
	for _, p := range n.pairs {
		switch form := schemaKeywords[p.key]; {
		case p.key == "$defs":
		case form == one:
			f(p.value)
		case form == listed:
			for _, item := range p.value.items {
				f(item)
			}
		case form == named:
			for _, q := range p.value.pairs {
				f(q.value)
			}
		}
	}
}

// keywords checks the words of a schema and of those inside it. What they may
// hold otherwise, the meta-schema says.
func (c *schemaCheck) keywords(n *node) {
	top := n == c.root
	if n.kind == boolNode {
		return
	}
	if n.kind != mapNode {
		c.d.bad(n, "must be a schema (a mapping, true or false), not %s", n.kind)
		return
	}
	for _, p := range n.pairs {
		form, known := schemaKeywords[p.key]
		switch {
		case strings.HasPrefix(p.key, "x-"):
		case !known:
			advice := insteadOf[p.key]
			if advice == "" {
				advice = nearest(p.key, slices.Sorted(maps.Keys(schemaKeywords)))
			}
			c.d.fail(p.pos, p.value.field, "not a keyword of a config schema%s", advice)
		case (form == topLevel || p.key == "$defs") && !top:
			c.d.fail(p.pos, p.value.field, "only at the top of config")
		case p.key == "$schema" && p.value.text != draft:
			c.d.bad(p.value, "must be %s", draft)
		case p.key == "format" && !slices.Contains(formats, p.value.text):
			c.d.bad(p.value, "unknown format %s%s", printable(p.value.text), nearest(p.value.text, formats))
		case p.key == "$ref" && !refExpr.MatchString(p.value.text):
			c.d.bad(p.value, "must be #/$defs/NAME: a config schema refers to nothing outside itself")
		case p.key == "$ref" && c.target(p.value) == nil:
			c.d.bad(p.value, "no such definition")
		case p.key == "$defs":
			for _, q := range p.value.pairs {
				c.keywords(q.value)
			}
		case p.key == "pattern":
			c.pattern(p.value.pos, p.value.field, p.value.text)
		case p.key == "patternProperties":
			for _, q := range p.value.pairs {
				c.pattern(q.pos, q.value.field, q.key)
			}
		}
	}
	subschemas(n, c.keywords)
}

func (c *schemaCheck) pattern(at pos, field, expr string) {
	if _, err := regexp.Compile(expr); err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		c.d.fail(at, field, "not a regular expression (RE2 syntax): %s", printable(reason))
	}
}

// target finds the definition that a $ref means.
func (c *schemaCheck) target(ref *node) *node {
	if defs := c.root.get("$defs"); defs != nil {
		return defs.get(strings.TrimPrefix(ref.text, "#/$defs/"))
	}
	return nil
}

// size counts a schema with its references written out, to just above
// maxSubschemas, and reports references that lead back to themselves.
func (c *schemaCheck) size(n *node) int {
	total := 1
	subschemas(n, func(child *node) { total = min(total+c.size(child), maxSubschemas+1) })
	ref := n.get("$ref")
	if ref == nil {
		return total
	}
	switch c.sizes[ref.text] {
	case -1:
		c.d.bad(ref, "refers to itself: a config schema must not recurse")
	case 0:
		c.sizes[ref.text] = -1
		c.sizes[ref.text] = c.size(c.target(ref))
		fallthrough
	default:
		total = min(total+c.sizes[ref.text], maxSubschemas+1)
	}
	return total
}

// json turns a YAML value into the JSON value it stands for.
func (d *decoder) json(n *node) (any, bool) {
	switch n.kind {
	case boolNode:
		return n.text == "true", true
	case stringNode:
		return n.text, true
	case numberNode:
		if !saneNumber(n.text) {
			d.bad(n, "not a JSON number of reasonable size: %s", printable(n.text))
			return nil, false
		}
		return json.Number(n.text), true
	case listNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			v, ok := d.json(item)
			if !ok {
				return nil, false
			}
			list[i] = v
		}
		return list, true
	case mapNode:
		object := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			v, ok := d.json(p.value)
			if !ok {
				return nil, false
			}
			object[p.key] = v
		}
		return object, true
	default:
		return nil, true
	}
}

// saneNumber keeps numbers to what a float64 can be near to. The validator
// computes with exact fractions, to which 1e999999999 is a gigabyte of digits.
func saneNumber(s string) bool {
	if len(s) > 64 || !numberExpr.MatchString(s) {
		return false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e < -308 || e > 308 {
			return false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && !math.IsInf(f, 0)
}

// at follows a JSON pointer's tokens as far as they lead.
func (n *node) at(tokens []string) *node {
	for _, t := range tokens {
		next := n.get(t)
		if i, err := strconv.Atoi(t); err == nil && n.kind == listNode && i >= 0 && i < len(n.items) {
			next = n.items[i]
		}
		if next == nil {
			break
		}
		n = next
	}
	return n
}
