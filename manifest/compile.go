package manifest

import (
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaURL names the schema to the compiler. It is never fetched.
const schemaURL = "caisson:///config.json"

// noLoader refuses every load: schemas reach no file and no network.
type noLoader struct{}

var errNoLoader = errors.New("config schemas load nothing")

func (noLoader) Load(string) (any, error) { return nil, errNoLoader }

// compile closes a schema's objects (see the top of this file) and compiles it.
// It changes doc.
func compile(doc map[string]any) (*jsonschema.Schema, error) {
	doc["type"] = "object"
	closer{doc}.value(doc, true)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// compileError reports what the compiler found at its place in the file.
func (d *decoder) compileError(n *node, err error) {
	var invalid *jsonschema.SchemaValidationError
	var verr *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &verr) {
		for _, f := range findings(verr, nil) {
			d.bad(n.at(f.at), "%s", f.rule)
		}
		return
	}
	d.bad(n, "not a JSON Schema: %s", printable(err.Error()))
}

// closer adds to a schema what refuses unknown properties.
type closer struct{ root map[string]any }

// value closes the schema of a value and those of the values inside it.
func (c closer) value(v any, top bool) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	_, additional := s["additionalProperties"]
	_, unevaluated := s["unevaluatedProperties"]
	if !additional && !unevaluated && (top || c.namesProperties(s)) {
		if composed(s) {
			// Only this one sees what the referenced and combined schemas allow.
			s["unevaluatedProperties"] = false
		} else {
			s["additionalProperties"] = false
		}
	}
	for _, k := range []string{"properties", "patternProperties"} {
		if m, ok := s[k].(map[string]any); ok {
			for _, child := range m {
				c.value(child, false)
			}
		}
	}
	c.value(s["additionalProperties"], false)
	c.value(s["items"], false)
	if list, ok := s["prefixItems"].([]any); ok {
		for _, child := range list {
			c.value(child, false)
		}
	}
}

var combiners = []string{"$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"}

func composed(s map[string]any) bool {
	return slices.ContainsFunc(combiners, func(k string) bool { _, ok := s[k]; return ok })
}

// namesProperties reports whether a schema, or one that it is composed of, says
// which properties its value has.
func (c closer) namesProperties(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, c.namesProperties)
	case map[string]any:
		if v["properties"] != nil || v["patternProperties"] != nil {
			return true
		}
		if ref, ok := v["$ref"].(string); ok {
			defs, _ := c.root["$defs"].(map[string]any)
			if c.namesProperties(defs[strings.TrimPrefix(ref, "#/$defs/")]) {
				return true
			}
		}
		return slices.ContainsFunc(combiners[1:], func(k string) bool { return c.namesProperties(v[k]) })
	default:
		return false
	}
}
