package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestContain(t *testing.T) {
	r := &report{file: "f"}
	if n := contain(r, func() *node { panic("inside the library") }); n != nil {
		t.Errorf("got a tree: %v", n)
	}
	if err := r.err(); err == nil || err.Error() != "f:1:1: malformed YAML" {
		t.Errorf("got %v", err)
	}
}

// TestCompileLoadsNothing is about the second line of defence: Parse refuses
// references to elsewhere before the compiler sees them.
func TestCompileLoadsNothing(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(secret, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"https://example.com/s.json", "file://" + secret, "other.json", secret} {
		_, err := compile(map[string]any{"properties": map[string]any{"a": map[string]any{"$ref": ref}}})
		var refused *jsonschema.LoadURLError
		if !errors.As(err, &refused) || !errors.Is(refused.Err, errNoLoader) {
			t.Errorf("%s: got %v, want a refusal to load", ref, err)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		b.WriteString(strings.Repeat("k", i%40+1) + strings.Repeat("x", i/40) + ": 1\n")
	}
	_, err := Parse("f", []byte(b.String()))
	if n := len(err.(interface{ Unwrap() []error }).Unwrap()); n != maxErrors {
		t.Errorf("%d errors, want %d", n, maxErrors)
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"memory", "memory", 0},
		{"memroy", "memory", 2},
		{"license", "licence", 1},
		{"env", "envs", 1},
		{"abi", "wasi", 2},
		{"abc", "xyz", 3},
		{"a", "abcdef", 3},
	} {
		if got := editDistance(tt.a, tt.b, 3); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := editDistance(tt.b, tt.a, 3); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

// scalars counts keys and values that stand in the file.
func scalars(n *node) int {
	sum := 0
	for _, item := range n.items {
		sum += scalars(item)
	}
	for _, p := range n.pairs {
		sum += 1 + scalars(p.value)
	}
	if n.kind == stringNode || n.kind == numberNode || n.kind == boolNode {
		sum++
	}
	return sum
}

// FuzzTree checks what the package relies on the YAML library for: nothing that
// stands in an accepted file is left out of its tree.
func FuzzTree(f *testing.F) {
	addFixtures(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &report{file: "f"}
		root := parseTree(r, data)
		if len(r.errs) > 0 {
			return
		}
		if root == nil {
			t.Fatal("neither a tree nor an error")
		}
		want := 0
		for _, tk := range lexer.Tokenize(string(data)) {
			switch tk.Type {
			case token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.BoolType,
				token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
				token.FloatType, token.InfinityType, token.NanType:
				want++
			}
		}
		// More is fine: an empty block scalar has no token of its own.
		if got := scalars(root); got < want {
			t.Errorf("%d of %d scalars are in the tree", got, want)
		}
	})
}

func addFixtures(f *testing.F) {
	paths, err := filepath.Glob("../testdata/manifests/*/*.yaml")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no fixtures: %v", err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
}
