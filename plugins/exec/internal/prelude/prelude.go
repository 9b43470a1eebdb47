// Package prelude writes what stands in front of a program that calls tools: functions
// with the tools' names, as the program's language can have them. It knows how a program
// reaches its control channel (package sdk/backend/control) and nothing of who answers.
//
// The names follow the rules that models are told by clients (docs/wire.md).
package prelude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend/control"
)

// Tool is one that a program may call.
type Tool struct {
	// Name is the tool's own: 1 to control.MaxName bytes of UTF-8.
	Name string
	// Description is for people who read the program; it may be empty.
	Description string
	// Parameters is a JSON Schema of the input object, or anything else, which is as
	// good as none.
	Parameters json.RawMessage
}

// CollisionError: two tools would have the same name in the program.
type CollisionError struct {
	// First and Second are the tools' own names, Identifier is what both would be.
	First, Second, Identifier string
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("the tools %q and %q would both be called %s", e.First, e.Second, e.Identifier)
}

// normalize makes letters, digits and underscores of a name: characters of become is
// replaced, others are dropped. It is empty when nothing is left.
func normalize(name string, becomes func(rune) bool) string {
	var b strings.Builder
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
			b.WriteRune(c)
		case becomes(c):
			b.WriteByte('_')
		}
	}
	s := b.String()
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	return s
}

// numbered gives each tool a name of its own: later ones that would have an earlier one's
// get a number.
func numbered(tools []Tool, name func(string) string) []string {
	taken := make(map[string]bool, len(tools))
	out := make([]string, len(tools))
	for i, t := range tools {
		id := name(t.Name)
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf("%s_%d", name(t.Name), n)
		}
		taken[id], out[i] = true, id
	}
	return out
}

// parameter is one member of a tool's input that can be given by position.
type parameter struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
	// Object says that the schema takes an object for it.
	Object bool `json:"object"`
}

// maxParameters bounds what is read of one schema.
const maxParameters = 256

// parameters reads the properties of a schema, required ones first, each group in the
// schema's order. A schema that is not understood has none.
func parameters(schema json.RawMessage) []parameter {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		// Required may be nonsense while the properties are not.
		s.Required = nil
		var only struct {
			Properties json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(schema, &only) != nil {
			return nil
		}
		s.Properties = only.Properties
	}
	must := make(map[string]bool, len(s.Required))
	for _, r := range s.Required {
		must[r] = true
	}
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var required, optional []parameter
	seen := make(map[string]bool)
	for d.More() && len(seen) < maxParameters {
		t, err := d.Token()
		if err != nil {
			return nil
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil
		}
		name, _ := t.(string)
		if name == "" || len(name) > control.MaxName || seen[name] {
			continue
		}
		seen[name] = true
		p := parameter{Name: name, Required: must[name], Object: takesObject(raw)}
		if p.Required {
			required = append(required, p)
		} else {
			optional = append(optional, p)
		}
	}
	return append(required, optional...)
}

// takesObject reports whether a schema may take an object.
func takesObject(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return true
	}
	switch t := s.Type.(type) {
	case string:
		return t == "object"
	case []any:
		for _, x := range t {
			if x == "object" {
				return true
			}
		}
		return false
	}
	return true // it says nothing
}
