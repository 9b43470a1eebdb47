// Package contracttest holds the tests that every JSON contract of the SDK passes:
// the frozen schema, the Go type, the canonical encoder and the strict decoder say
// the same. It is for tests only.
package contracttest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Contract is one JSON form: Name is its schema's file name without extension and
// the prefix of its examples.
type Contract struct {
	Name string
	// Dir is testdata/schemas, seen from the test.
	Dir string
	// Type is the Go struct of the form's top level; Defs those of its $defs.
	Type reflect.Type
	Defs map[string]reflect.Type
	// Decode reads the form and returns a pointer to the struct.
	Decode func(data []byte) (any, error)
	// Append writes, canonically, what Decode returned.
	Append func(dst []byte, v any) []byte
	// Adjust makes a struct valid whose every field was filled with arbitrary text
	// and numbers; nil if nothing needs it.
	Adjust func(v any)
	// SkipsUnknown is set for forms whose reader skips unknown members.
	SkipsUnknown bool
}

// Run runs all tests of c.
func (c Contract) Run(t *testing.T) {
	t.Run("schema covers type", c.covers)
	t.Run("encoder covers type", c.encodes)
	t.Run("examples", c.examples)
	t.Run("refused", c.refused)
}

// covers fails when a field was added to a struct and not to the schema, or the
// other way round, or when one of them calls a member optional and the other not.
func (c Contract) covers(t *testing.T) {
	var schema struct {
		node
		Defs map[string]node `json:"$defs"`
	}
	read(t, filepath.Join(c.Dir, c.Name+".json"), &schema)
	schema.compare(t, c.Name, c.Type, c.SkipsUnknown)
	for name, def := range schema.Defs {
		typ, ok := c.Defs[name]
		if !ok {
			t.Errorf("$defs/%s: no Go type is named for it", name)
			continue
		}
		def.compare(t, name, typ, c.SkipsUnknown)
	}
	for name := range c.Defs {
		if _, ok := schema.Defs[name]; !ok {
			t.Errorf("$defs/%s: is missing", name)
		}
	}
}

type node struct {
	Properties           map[string]any `json:"properties"`
	Required             []string       `json:"required"`
	AdditionalProperties *bool          `json:"additionalProperties"`
}

func (n node) compare(t *testing.T, name string, typ reflect.Type, open bool) {
	t.Helper()
	seen := map[string]bool{}
	for i := range typ.NumField() {
		tag, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		seen[tag] = true
		if _, ok := n.Properties[tag]; !ok {
			t.Errorf("%s: field %s (%q) is not in the schema", name, typ.Field(i).Name, tag)
		}
		optional := strings.HasPrefix(options, "omit")
		if optional == slices.Contains(n.Required, tag) {
			t.Errorf("%s.%s: optional is %v in Go and %v in the schema", name, tag, optional, !optional)
		}
	}
	for property := range n.Properties {
		if !seen[property] {
			t.Errorf("%s: schema has %q, %v has not", name, property, typ)
		}
	}
	if closed := n.AdditionalProperties != nil && !*n.AdditionalProperties; closed == open {
		t.Errorf("%s: additionalProperties is closed: %v, want %v", name, closed, !open)
	}
}

// encodes fills every field and compares the canonical encoder with encoding/json
// and a sort, and then the decoder with what went in.
func (c Contract) encodes(t *testing.T) {
	v := reflect.New(c.Type)
	fill(v.Elem(), 1)
	if c.Adjust != nil {
		c.Adjust(v.Interface())
	}
	got := c.Append(nil, v.Interface())
	if want := Canonical(t, v.Interface()); !bytes.Equal(got, want) {
		t.Fatalf("encoder and encoding/json differ\ngot  %s\nwant %s", got, want)
	}
	back, err := c.Decode(got)
	if err != nil || !reflect.DeepEqual(back, v.Interface()) {
		t.Fatalf("came back changed\ngot  %+v, %v\nwant %+v", back, err, v.Interface())
	}
}

// examples checks the golden files: valid by the schema, readable, canonical.
// Together they must use every member of the contract.
func (c Contract) examples(t *testing.T) {
	schema := c.compile(t)
	used := map[string]bool{}
	for _, file := range c.files(t, "examples") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value(t, data)); err != nil {
			t.Errorf("%s: schema: %v", file, err)
		}
		v, err := c.Decode(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := c.Append(nil, v); !bytes.Equal(got, data) {
			t.Errorf("%s: came back as\n%s", file, got)
		}
		members(reflect.ValueOf(v).Elem(), used)
	}
	for _, typ := range append([]reflect.Type{c.Type}, slices.Collect(maps.Values(c.Defs))...) {
		for i := range typ.NumField() {
			if key := typ.Name() + "." + typ.Field(i).Name; !used[key] {
				t.Errorf("no example uses %s", key)
			}
		}
	}
}

// refused checks that schema and decoder refuse the same texts.
func (c Contract) refused(t *testing.T) {
	if c.SkipsUnknown {
		data, err := c.Decode([]byte(`{"a_later_member":{"x":[1]}}`))
		if err != nil || data == nil {
			t.Errorf("an unknown member is not skipped: %v", err)
		}
		return
	}
	schema := c.compile(t)
	for _, file := range c.files(t, "refused") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(value(t, data)) == nil {
			t.Errorf("%s: the schema accepts it", file)
		}
		if v, err := c.Decode(data); err == nil {
			t.Errorf("%s: decoded as %+v", file, v)
		} else {
			t.Logf("%s: %v", filepath.Base(file), err)
		}
	}
}

func (c Contract) compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join(c.Dir, c.Name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func (c Contract) files(t *testing.T, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.Dir, kind, c.Name+".*json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s for %s: %v", kind, c.Name, err)
	}
	return files
}

// Canonical encodes v with encoding/json and sorts its members.
func Canonical(t *testing.T, v any) []byte {
	t.Helper()
	plain, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value(t, plain)); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func value(t *testing.T, data []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// fill gives every field below v a value of its own that is not the zero value.
func fill(v reflect.Value, n int64) int64 {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n = fill(v.Field(i), n)
		}
		return n
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		return fill(v.Index(1), fill(v.Index(0), n))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"b", "a"} {
			item := reflect.New(v.Type().Elem()).Elem()
			n = fill(item, n)
			v.SetMapIndex(reflect.ValueOf(key), item)
		}
		return n
	case reflect.String:
		v.SetString("text " + string(rune('a'+n%26)) + "\n<é>")
	case reflect.Int64:
		v.SetInt(n)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("contracttest: no filler for " + v.Kind().String())
	}
	return n + 1
}

// members notes which fields below v are set.
func members(v reflect.Value, used map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				used[v.Type().Name()+"."+v.Type().Field(i).Name] = true
			}
			members(v.Field(i), used)
		}
	case reflect.Slice:
		for i := range v.Len() {
			members(v.Index(i), used)
		}
	}
}
