package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Operation is one operation of the document.
type Operation struct {
	// ID is the operationId, Method in capitals and Path below a server of the document.
	ID, Method, Path string
	// Summary is one sentence.
	Summary string
	// Detail is the operation's part of the document, with what it refers to in the
	// place of the references. It is JSON.
	Detail json.RawMessage
}

// methods in the order in which they are listed.
var methods = []string{"get", "post", "put", "patch", "delete"}

var operations = sync.OnceValue(func() []Operation {
	b, _ := document()
	var d map[string]any
	if err := json.Unmarshal(b, &d); err != nil {
		panic("openapi: the embedded document: " + err.Error()) // a test reads it
	}
	var out []Operation
	for path, item := range d["paths"].(map[string]any) {
		item := item.(map[string]any)
		for _, method := range methods {
			op, ok := item[method].(map[string]any)
			if !ok {
				continue
			}
			whole := make(map[string]any, len(op)+1)
			for k, v := range op {
				whole[k] = v
			}
			if shared, ok := item["parameters"].([]any); ok {
				own, _ := op["parameters"].([]any)
				whole["parameters"] = append(slices.Clone(shared), own...)
			}
			detail, err := json.Marshal(resolved(d, whole, nil))
			if err != nil {
				panic("openapi: the embedded document: " + err.Error())
			}
			id, _ := op["operationId"].(string)
			summary, _ := op["summary"].(string)
			out = append(out, Operation{ID: id, Method: strings.ToUpper(method), Path: path, Summary: summary, Detail: detail})
		}
	}
	slices.SortFunc(out, func(a, b Operation) int { return strings.Compare(a.ID, b.ID) })
	return out
})

// Operations lists what there is, by id. The caller may change the slice.
func Operations() []Operation { return slices.Clone(operations()) }

// resolved copies a part of the document with references replaced, except those that
// lead into themselves.
func resolved(d map[string]any, v any, within []string) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = resolved(d, v[i], within)
		}
		return out
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && !slices.Contains(within, ref) {
			target, err := lookup(d, ref)
			if err != nil {
				panic(err.Error()) // a test resolves them all
			}
			return resolved(d, target, append(slices.Clone(within), ref))
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = resolved(d, e, within)
		}
		return out
	}
	return v
}

func lookup(d map[string]any, ref string) (any, error) {
	var at any = d
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, fmt.Errorf("openapi: reference %s leads out of the document", ref)
	}
	for part := range strings.SplitSeq(path, "/") {
		m, _ := at.(map[string]any)
		if at, ok = m[part]; !ok {
			return nil, fmt.Errorf("openapi: reference %s leads nowhere", ref)
		}
	}
	return at, nil
}
