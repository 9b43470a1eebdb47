package exec

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caisson-run/caisson/plugins/exec/internal/response"
	"github.com/caisson-run/caisson/plugins/exec/openapi"
	"github.com/getkin/kin-openapi/openapi3"
)

var loadDocument = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(openapi.JSON())
})

func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := loadDocument()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// plain is a route's path as the document spells it.
func plain(path string) string { return strings.ReplaceAll(path, "...}", "}") }

// refusing are routes that answer nothing but a refusal.
var refusing = []string{"/download/{sid}"}

// The document has every route and every method, and no others.
func TestDocumentHasEveryRoute(t *testing.T) {
	doc := document(t)
	want := make(map[string][]string)
	for _, rt := range new(door).routes() {
		if slices.Contains(refusing, rt.path) {
			continue
		}
		for m := range rt.methods {
			want[plain(rt.path)] = append(want[plain(rt.path)], m)
		}
		item := doc.Paths.Value(plain(rt.path))
		if item == nil {
			t.Errorf("openapi.yaml lacks the path %s", rt.path)
			continue
		}
		for m, op := range item.Operations() {
			open := op.Security != nil && len(*op.Security) == 0
			if open != rt.public {
				t.Errorf("%s %s: the route is public: %v, the document says %v", m, rt.path, rt.public, open)
			}
			var params []string
			for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
				if p.Value.In == "path" {
					params = append(params, p.Value.Name)
				}
			}
			var names []string
			for _, m := range regexp.MustCompile(`\{(\w+)`).FindAllStringSubmatch(rt.path, -1) {
				names = append(names, m[1])
			}
			if !slices.Equal(params, names) {
				t.Errorf("%s %s: path parameters %v, want %v", m, rt.path, params, names)
			}
		}
	}
	for p, item := range doc.Paths.Map() {
		got := slices.Sorted(maps.Keys(item.Operations()))
		slices.Sort(want[p])
		if !slices.Equal(got, want[p]) {
			t.Errorf("%s: openapi.yaml has %v, the router %v", p, got, want[p])
		}
	}
}

// What is mounted answers the methods that the document has, HEAD where it has GET, and
// refuses the others by name.
func TestMountedMethodsAreDocumented(t *testing.T) {
	r := newRig(t)
	for p, item := range document(t).Paths.Map() {
		var allow []string
		for _, m := range served {
			if item.GetOperation(m) == nil {
				continue
			}
			allow = append(allow, m)
			if m == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
		path := strings.NewReplacer("{sid}", "AAAAAAAAAAAAAAAAAAAAA", "{fid}", "BBBBBBBBBBBBBBBBBBBBB").Replace(p)
		for _, base := range []string{Path, "/v1", ""} {
			for _, m := range append(slices.Clone(served), http.MethodHead) {
				a := r.do(r.request(m, alice, base+path, nil))
				if there := slices.Contains(allow, m); there == (a.status == http.StatusMethodNotAllowed) || a.status == http.StatusNotFound && len(a.header["Content-Type"]) == 0 {
					t.Errorf("%s %s answers %d, the document has %v", m, base+path, a.status, allow)
				} else if !there && a.header.Get("Allow") != strings.Join(allow, ", ") {
					t.Errorf("%s %s allows %q, the document %v", m, base+path, a.header.Get("Allow"), allow)
				}
				if m == http.MethodHead && len(a.body) > 0 {
					t.Errorf("%s %s has a body", m, base+path)
				}
			}
		}
	}
}

// wireTypes are the schemas of the document and the Go types that they describe.
var wireTypes = map[string]reflect.Type{
	"CodeRun":          reflect.TypeFor[CodeRun](),
	"File":             reflect.TypeFor[CodeFile](),
	"FileOrigin":       reflect.TypeFor[FileOrigin](),
	"CodeResult":       reflect.TypeFor[CodeResult](),
	"ArtifactDelivery": reflect.TypeFor[ArtifactDelivery](),
	"PolicyWarning":    reflect.TypeFor[PolicyWarning](),
	"Uploaded":         reflect.TypeFor[uploaded](),
	"UploadReply":      reflect.TypeFor[uploadReply](),
	"BatchReply":       reflect.TypeFor[batchReply](),
	"ListedFile":       reflect.TypeFor[listed](),
	"FileMetadata":     reflect.TypeFor[metadata](),
	"FileObject":       reflect.TypeFor[objectReply](),
	"Languages":        reflect.TypeFor[languagesReply](),
	"Language":         reflect.TypeFor[offered](),
	"Health":           reflect.TypeFor[health](),
	"Error":            reflect.TypeFor[response.Refusal](),
	"NestedError":      reflect.TypeFor[response.NestedError](),
	"ProgramReply":     reflect.TypeFor[programReply](),
	"ProgramCall":      reflect.TypeFor[toolCall](),
}

// besides are members that no field has.
var besides = map[string][]string{
	// Of a reply that had begun when the run failed.
	"CodeResult": {"error", "retry_after_seconds"},
}

// untyped are schemas that no type has.
var untyped = []string{"UploadForm", "ProgramRun", "ProgramTool", "ProgramResult", "ProgramCancel", "Accepted"}

// Members of bodies that are read or written without a type are at least words of the
// source.
func TestDocumentHasNoOtherMembers(t *testing.T) {
	words := make(map[string]bool)
	eachSource(t, func(_ string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				text, _ := strconv.Unquote(lit.Value)
				words[text] = true
				name, _, _ := strings.Cut(reflect.StructTag(text).Get("json"), ",")
				words[name] = true
			}
			return true
		})
	})
	for _, name := range untyped {
		for member := range document(t).Components.Schemas[name].Value.Properties {
			if !words[member] {
				t.Errorf("openapi.yaml: %s.%s is read and written nowhere", name, member)
			}
		}
	}
}

// The document has every member of every type, with its type, and no others.
func TestDocumentHasEveryMember(t *testing.T) {
	doc := document(t)
	for name := range doc.Components.Schemas {
		if wireTypes[name] == nil && !slices.Contains(untyped, name) {
			t.Errorf("schema %s stands for no type: give it a row in wireTypes", name)
		}
	}
	for name, typ := range wireTypes {
		s := doc.Components.Schemas[name]
		if s == nil {
			t.Errorf("openapi.yaml lacks the schema %s of %v", name, typ)
			continue
		}
		checkMembers(t, name, s.Value, typ)
	}
}

// requests are sent by clients: what must be in them is not what is always written.
var requests = []string{"CodeRun", "File"}

func checkMembers(t *testing.T, name string, s *openapi3.Schema, typ reflect.Type) {
	t.Helper()
	seen := slices.Clone(besides[name])
	for _, f := range fields(typ) {
		tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		seen = append(seen, tag)
		m := s.Properties[tag]
		if m == nil {
			t.Errorf("openapi.yaml: schema %s lacks the member %q", name, tag)
			continue
		}
		if err := compareType(m, f.Type); err != nil {
			t.Errorf("openapi.yaml: %s.%s: %v", name, tag, err)
		}
		always, required := !strings.Contains(opts, "omitempty"), slices.Contains(s.Required, tag)
		if required && !always || always && !required && !slices.Contains(requests, name) {
			t.Errorf("openapi.yaml: %s.%s: required is %v, always written is %v", name, tag, required, always)
		}
	}
	for member := range s.Properties {
		if !slices.Contains(seen, member) {
			t.Errorf("openapi.yaml: %s.%s is a member of nothing", name, member)
		}
	}
}

// fields are those that encoding/json writes. It tells them apart by their tags, where
// reflect.VisibleFields goes by their Go names; those of an embedded pointer may be absent,
// and give way to others of their name.
func fields(typ reflect.Type) []reflect.StructField {
	var out, embedded []reflect.StructField
	for f := range typ.Fields() {
		switch tag := f.Tag.Get("json"); {
		case f.Anonymous && f.Type.Kind() == reflect.Pointer:
			for _, e := range fields(f.Type.Elem()) {
				e.Tag = reflect.StructTag(`json:"` + strings.Split(e.Tag.Get("json"), ",")[0] + `,omitempty"`)
				embedded = append(embedded, e)
			}
		case f.Anonymous:
			embedded = append(embedded, fields(f.Type)...)
		case tag != "" && tag != "-":
			out = append(out, f)
		}
	}
	named := func(f reflect.StructField) string { return strings.Split(f.Tag.Get("json"), ",")[0] }
	for _, e := range embedded {
		if !slices.ContainsFunc(out, func(f reflect.StructField) bool { return named(f) == named(e) }) {
			out = append(out, e)
		}
	}
	return out
}

func compareType(m *openapi3.SchemaRef, t reflect.Type) error {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil // whatever it is, was checked elsewhere
	}
	null := false
	if t.Kind() == reflect.Pointer {
		null, t = t.Elem().Kind() != reflect.Struct && t.Elem().Kind() != reflect.Int64, t.Elem()
	}
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer",
		reflect.Slice: "array", reflect.Struct: "object", reflect.Interface: "", reflect.Map: "object",
	}[t.Kind()]
	var got []string
	if m.Value.Type != nil {
		got = m.Value.Type.Slice()
	}
	var wanted []string
	if want != "" {
		wanted = append(wanted, want)
	}
	if null {
		wanted = append(wanted, "null")
	}
	if !slices.Equal(got, wanted) {
		return fmt.Errorf("type %v, want %v", got, wanted)
	}
	switch t.Kind() {
	case reflect.Slice:
		return compareType(m.Value.Items, t.Elem())
	case reflect.Struct:
		name := path.Base(m.Ref)
		if wireTypes[name] != t {
			return fmt.Errorf("refers to %q, which is no %v", m.Ref, t)
		}
	case reflect.Int64:
		if m.Value.Format != "int64" {
			return fmt.Errorf("format %q, want int64", m.Value.Format)
		}
	}
	return nil
}
