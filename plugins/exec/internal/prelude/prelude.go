// Package prelude writes what stands in front of a program that calls tools: functions
// with the tools' names, as the program's language can have them. It knows how a program
// reaches its control channel (package sdk/backend/control) and nothing of who answers.
//
// The names follow the rules that models are told by clients (docs/wire.md).
package prelude

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/plugins/exec/internal/shallow"
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

// maxRequired bounds the list of required ones, and the members that are looked at for a
// parameter. Of a longer list none is.
const maxRequired = 1024

// parameters reads the properties of a schema, required ones first, each group in the
// schema's order. A schema that is not understood has none.
func parameters(schema json.RawMessage) []parameter {
	s, err := shallow.Members(schema, "properties", "required")
	if err != nil {
		return nil
	}
	must := make(map[string]bool)
	names, _ := shallow.Elements(s["required"], maxRequired) // it may be nonsense while the properties are not
	for _, raw := range names {
		var name string
		if json.Unmarshal(raw, &name) != nil {
			clear(must)
			break
		}
		must[name] = true
	}
	var required, optional []parameter
	seen := make(map[string]bool)
	looked := 0
	err = shallow.Each(s["properties"], func(quoted []byte, value json.RawMessage) error {
		if looked++; looked > maxRequired || len(seen) == maxParameters {
			return errEnough
		}
		var name string
		if len(quoted) > 6*control.MaxName+2 || json.Unmarshal(quoted, &name) != nil || name == "" || len(name) > control.MaxName || seen[name] {
			return nil
		}
		seen[name] = true
		p := parameter{Name: name, Required: must[name], Object: takesObject(value)}
		if p.Required {
			required = append(required, p)
		} else {
			optional = append(optional, p)
		}
		return nil
	})
	if err != nil && err != errEnough {
		return nil
	}
	return append(required, optional...)
}

var errEnough = errors.New("enough parameters")

// takesObject reports whether a schema may take an object.
func takesObject(schema json.RawMessage) bool {
	s, err := shallow.Members(schema, "type")
	if err != nil {
		return true
	}
	const object = `"object"`
	switch t := s["type"]; {
	case len(t) > 0 && t[0] == '"':
		return string(t) == object
	case len(t) > 0 && t[0] == '[':
		types, err := shallow.Elements(t, maxTypes)
		return err != nil || slices.ContainsFunc(types, func(x json.RawMessage) bool { return string(x) == object })
	}
	return true // it says nothing
}

// maxTypes bounds the types of one parameter: JSON has seven.
const maxTypes = 16
