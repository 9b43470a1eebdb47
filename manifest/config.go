package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ValidateConfig checks an operator's configuration, a JSON object, against the
// manifest's schema. Empty input stands for {}. Unknown keys are errors unless
// the schema allows them. Errors are *ConfigError, joined; they name fields and
// rules and never repeat a value.
func (m *Manifest) ValidateConfig(config []byte) error {
	v, err := m.decodeConfig(config)
	if err != nil {
		return err
	}
	return m.validate(v)
}

// CompleteConfig is ValidateConfig after filling in what the schema gives a
// default for. It returns the complete configuration as JSON with sorted keys,
// which is what a plugin should be sent. A default applies to a property that
// is absent, at the top and inside objects and lists that are present; defaults
// inside allOf, anyOf, oneOf, not and if are notes and are not applied.
func (m *Manifest) CompleteConfig(config []byte) ([]byte, error) {
	v, err := m.decodeConfig(config)
	if err != nil {
		return nil, err
	}
	if m.schema != nil {
		complete(m.schema, v)
	}
	if err := m.validate(v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (m *Manifest) decodeConfig(config []byte) (map[string]any, error) {
	fail := func(format string, args ...any) error {
		return &ConfigError{Plugin: m.Name, Rule: fmt.Sprintf(format, args...)}
	}
	if len(config) > MaxConfigSize {
		return nil, fail("larger than %d KiB", MaxConfigSize>>10)
	}
	if len(bytes.TrimSpace(config)) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fail("not JSON: error at byte %d", syntax.Offset)
		}
		return nil, fail("not JSON: it ends too early")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fail("more than one JSON value")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fail("must be an object")
	}
	if at, ok := insaneNumber(v, nil); ok {
		return nil, &ConfigError{m.Name, pointer(at), "not a number of reasonable size"}
	}
	return object, nil
}

// insaneNumber finds a number that saneNumber refuses.
func insaneNumber(v any, at []string) ([]string, bool) {
	switch v := v.(type) {
	case json.Number:
		return at, !saneNumber(v.String())
	case []any:
		for i, item := range v {
			if at, ok := insaneNumber(item, append(at, strconv.Itoa(i))); ok {
				return at, true
			}
		}
	case map[string]any:
		for k, item := range v {
			if at, ok := insaneNumber(item, append(at, k)); ok {
				return at, true
			}
		}
	}
	return nil, false
}

func (m *Manifest) validate(v map[string]any) error {
	if m.schema == nil {
		if len(v) == 0 {
			return nil
		}
		return &ConfigError{m.Name, "", "this plugin takes no configuration"}
	}
	err := m.schema.Validate(v)
	var verr *jsonschema.ValidationError
	if !errors.As(err, &verr) {
		return err
	}
	var errs []error
	for _, f := range findings(verr, m.properties()) {
		if len(errs) == maxErrors {
			break
		}
		errs = append(errs, &ConfigError{m.Name, pointer(f.at), f.rule})
	}
	return errors.Join(errs...)
}

// properties returns a function that looks up, for suggestions, which
// properties the schema at a place of the configuration's schema names.
func (m *Manifest) properties() func(at []string) []string {
	return func(at []string) []string {
		var root any
		if json.Unmarshal(m.Config, &root) != nil {
			return nil
		}
		schema, _ := follow(root, at).(map[string]any)
		var list []string
		for range maxDepth { // a chain of references ends; a hint may end sooner
			named, _ := schema["properties"].(map[string]any)
			list = slices.AppendSeq(list, maps.Keys(named))
			ref, ok := schema["$ref"].(string)
			if !ok {
				break
			}
			schema, _ = follow(root, fragment(ref)).(map[string]any)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
}

// follow goes where a JSON pointer's tokens lead, or returns nil.
func follow(v any, at []string) any {
	for _, token := range at {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(parent) {
				return nil
			}
			v = parent[i]
		default:
			return nil
		}
	}
	return v
}

// complete fills in defaults for what is absent.
func complete(s *jsonschema.Schema, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, p := range s.Properties {
			child, ok := v[name]
			if !ok {
				d := defaultOf(p)
				if d == nil {
					continue
				}
				child = clone(*d)
				v[name] = child
			}
			complete(p, child)
		}
	case []any:
		if s.Items2020 != nil {
			for _, item := range v[min(len(s.PrefixItems), len(v)):] {
				complete(s.Items2020, item)
			}
		}
	}
	if s.Ref != nil {
		complete(s.Ref, v)
	}
}

func defaultOf(s *jsonschema.Schema) *any {
	for ; s != nil; s = s.Ref {
		if s.Default != nil {
			return s.Default
		}
	}
	return nil
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = clone(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = clone(item)
		}
		return out
	default:
		return v
	}
}

// badDefault finds a default that CompleteConfig would apply and ValidateConfig
// refuse. It returns the default's place in the schema and what is wrong.
func badDefault(s *jsonschema.Schema) (at []string, why string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if d := defaultOf(p); d != nil {
			v := clone(*d)
			complete(p, v)
			var verr *jsonschema.ValidationError
			if errors.As(p.Validate(v), &verr) {
				f := findings(verr, nil)[0]
				if len(f.at) > 0 {
					f.rule = pointer(f.at) + ": " + f.rule
				}
				return append(fragment(p.Location), "default"), f.rule
			}
		}
		if at, why := badDefault(p); why != "" {
			return at, why
		}
	}
	for _, next := range []*jsonschema.Schema{s.Ref, s.Items2020} {
		if next != nil {
			if at, why := badDefault(next); why != "" {
				return at, why
			}
		}
	}
	return nil, ""
}
