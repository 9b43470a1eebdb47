package main

import (
	"fmt"
	"strings"
	"unicode"
)

// How languages write types.

func spelled(t typ, names map[string]string, list func(string) string) string {
	switch t.Kind {
	case "array":
		return list(spelled(*t.Item, names, list))
	case "record":
		return t.Record
	}
	return names[t.Kind]
}

func typescript(f field) string {
	s := spelled(f.Type, map[string]string{"string": "string", "integer": "number", "boolean": "boolean", "object": "object", "any": "unknown"},
		func(item string) string { return item + "[]" })
	if f.Nullable {
		s += " | null"
	}
	return s
}

func python(f field) string {
	s := spelled(f.Type, map[string]string{"string": "str", "integer": "int", "boolean": "bool", "object": "dict", "any": "Any"},
		func(item string) string { return "list[" + item + "]" })
	if f.Nullable {
		s += " | None"
	}
	if !f.Required {
		s = "NotRequired[" + s + "]"
	}
	return s
}

func rust(f field) string {
	s := spelled(f.Type, map[string]string{"string": "String", "integer": "i64", "boolean": "bool", "object": "serde_json::Value", "any": "serde_json::Value"},
		func(item string) string { return "Vec<" + item + ">" })
	if f.Nullable || !f.Required {
		s = "Option<" + s + ">"
	}
	return s
}

func java(f field) string {
	return spelled(f.Type, map[string]string{"string": "String", "integer": "Long", "boolean": "Boolean", "object": "Object", "any": "Object"},
		func(item string) string { return "List<" + item + ">" })
}

// javaNew makes a record whose other members are null.
func javaNew(a *api, name string, values map[string]string) string {
	var args []string
	for _, f := range a.record(name).Fields {
		v, ok := values[f.Name]
		if !ok {
			v = "null"
		}
		args = append(args, v)
	}
	return fmt.Sprintf("new %s(%s)", name, strings.Join(args, ", "))
}

// dict makes a map of pairs.
func dict(pairs ...string) map[string]string {
	m := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// ident is a member's name with underscores: contentType and original-filename become
// content_type and original_filename.
func ident(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '-':
			b.WriteByte('_')
		case unicode.IsUpper(r):
			b.WriteByte('_')
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// camel is the same the other way round.
func camel(s string) string {
	var b strings.Builder
	up := false
	for _, r := range s {
		switch {
		case r == '-' || r == '_':
			up = true
		case up:
			b.WriteRune(unicode.ToUpper(r))
			up = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// pathOf writes an operation's path with its parameters as a format says, %s being a
// parameter's name.
func pathOf(o operation, format string) string {
	s := o.Path
	for _, p := range o.Params {
		s = strings.ReplaceAll(s, "{"+p+"}", fmt.Sprintf(format, p))
	}
	return s
}

// plain is a name without what identifiers cannot have.
func plain(s string) bool { return !strings.ContainsAny(s, "-") }

// rustPath is an operation's path as an array of segments.
func rustPath(o operation) string {
	var parts []string
	for part := range strings.SplitSeq(strings.Trim(o.Path, "/"), "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			parts = append(parts, strings.TrimSuffix(name, "}"))
		} else {
			parts = append(parts, `"`+part+`"`)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// javaPath is the same as an expression of strings.
func javaPath(o operation) string {
	s := `"` + pathOf(o, `" + segment(%s) + "`) + `"`
	return strings.TrimSuffix(s, ` + ""`)
}
