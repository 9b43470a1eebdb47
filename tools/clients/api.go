package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// api is what the examples need of the document.
type api struct {
	// Base is the path of the first server, KeyHeader the header of the service key.
	Base, KeyHeader string
	// Types are those that the operations need, each after what it refers to.
	Types []*record
	// Run, Upload, List and Download are the operations that the examples call.
	Run, Upload, List, Download, Delete operation
}

// record is one schema.
type record struct {
	Name, Doc string
	Fields    []field
}

// field is one member. Required ones come first.
type field struct {
	Name, Doc          string
	Type               typ
	Required, Nullable bool
}

// typ is the type of a member: a JSON type, an array of Item, or a record.
type typ struct {
	Kind   string
	Item   *typ
	Record string
}

// operation is one call.
type operation struct {
	ID, Method, Path, Summary string
	// Params are the parameters in the path.
	Params []string
	// Body and Result are the records of JSON bodies; Many is a reply of several.
	Body, Result string
	Many         bool
}

func load(source string) (*api, error) {
	doc, err := openapi3.NewLoader().LoadFromFile(source)
	if err != nil {
		return nil, err
	}
	key := doc.Components.SecuritySchemes["key"]
	if len(doc.Servers) == 0 || key == nil {
		return nil, fmt.Errorf("%s: no server, or no security scheme named key", source)
	}
	a := &api{Base: strings.TrimSuffix(doc.Servers[0].URL, "/"), KeyHeader: key.Value.Name}
	seen := make(map[string]bool)
	for id, op := range map[string]*operation{
		"runCode": &a.Run, "uploadFile": &a.Upload, "listFiles": &a.List, "downloadFile": &a.Download, "deleteFile": &a.Delete,
	} {
		if *op, err = find(doc, id); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
	}
	for _, name := range []string{a.Run.Body, a.Run.Result, a.Upload.Result, a.List.Result, "Error"} {
		if err := a.add(doc, name, seen); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func find(doc *openapi3.T, id string) (operation, error) {
	for p, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID != id {
				continue
			}
			out := operation{ID: id, Method: method, Path: p, Summary: op.Summary}
			for part := range strings.SplitSeq(p, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok {
					out.Params = append(out.Params, strings.TrimSuffix(name, "}"))
				}
			}
			if op.RequestBody != nil {
				if m := op.RequestBody.Value.Content["application/json"]; m != nil {
					out.Body = path.Base(m.Schema.Ref)
				}
			}
			if res := op.Responses.Status(200); res != nil {
				if m := res.Value.Content["application/json"]; m != nil {
					s := m.Schema
					if s.Value.Type.Is("array") {
						out.Many, s = true, s.Value.Items
					}
					out.Result = path.Base(s.Ref)
				}
			}
			return out, nil
		}
	}
	return operation{}, fmt.Errorf("no operation %s", id)
}

// add appends a schema after what it refers to.
func (a *api) add(doc *openapi3.T, name string, seen map[string]bool) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	s := doc.Components.Schemas[name]
	if s == nil {
		return fmt.Errorf("no schema %q", name)
	}
	r := &record{Name: name, Doc: s.Value.Description}
	for _, member := range slices.Sorted(maps.Keys(s.Value.Properties)) {
		m := s.Value.Properties[member]
		t, ref := typeOf(m)
		if ref != "" {
			if err := a.add(doc, ref, seen); err != nil {
				return err
			}
		}
		r.Fields = append(r.Fields, field{
			Name: member, Doc: m.Value.Description, Type: t,
			Required: slices.Contains(s.Value.Required, member),
			Nullable: m.Value.Type != nil && slices.Contains(m.Value.Type.Slice(), "null"),
		})
	}
	sort.Slice(r.Fields, func(i, j int) bool {
		x, y := r.Fields[i], r.Fields[j]
		if x.Required != y.Required {
			return x.Required
		}
		return x.Name < y.Name
	})
	a.Types = append(a.Types, r)
	return nil
}

// typeOf returns a member's type and the record that it leads to.
func typeOf(m *openapi3.SchemaRef) (typ, string) {
	if m.Ref != "" {
		name := path.Base(m.Ref)
		return typ{Kind: "record", Record: name}, name
	}
	if m.Value.Type == nil {
		return typ{Kind: "any"}, ""
	}
	kind := m.Value.Type.Slice()[0]
	if kind == "array" {
		item, ref := typeOf(m.Value.Items)
		return typ{Kind: kind, Item: &item}, ref
	}
	return typ{Kind: kind}, ""
}

// record finds a type by its name.
func (a *api) record(name string) *record {
	i := slices.IndexFunc(a.Types, func(r *record) bool { return r.Name == name })
	return a.Types[i]
}
