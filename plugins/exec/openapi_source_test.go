package exec

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the form of an upload may have is what it is read for.
func TestDocumentHasEveryField(t *testing.T) {
	form := document(t).Components.Schemas["UploadForm"].Value
	for name := range form.Properties {
		if name != "file" && !knownField(name) {
			t.Errorf("openapi.yaml: no upload reads the field %q", name)
		}
	}
	for _, text := range literalsOf(t, "labels.go", "knownField") {
		if form.Properties[text] == nil {
			t.Errorf("openapi.yaml: UploadForm lacks the field %q", text)
		}
	}
}

// Every parameter that a handler reads is in the document, and every status that one
// answers, as far as the source says so.
func TestDocumentHasEveryParameterAndStatus(t *testing.T) {
	doc := document(t)
	params, statuses := make(map[string]bool), make(map[int]bool)
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
				if p.Value.In != "path" {
					params[strings.ToLower(p.Value.Name)] = true
				}
			}
			for status := range op.Responses.Map() {
				n, err := strconv.Atoi(status)
				if err != nil {
					t.Errorf("%s: status %q is no number", op.OperationID, status)
				}
				statuses[n] = true
			}
		}
	}
	used := make(map[int]bool)
	eachSource(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "http" && strings.HasPrefix(n.Sel.Name, "Status") {
					if s, ok := statusNamed[n.Sel.Name]; ok {
						used[s] = true
					}
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Get" || len(n.Args) != 1 {
					return true
				}
				if lit, ok := n.Args[0].(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(lit.Value)
					if text = strings.ToLower(text); !params[text] && !slices.Contains(generic, text) {
						t.Errorf("%s reads %q, which is no parameter in openapi.yaml", name, text)
					}
				}
			}
			return true
		})
	})
	for s := range used {
		if !statuses[s] && !slices.Contains(ofNoOperation, s) {
			t.Errorf("the source has status %d, which no operation in openapi.yaml has", s)
		}
	}
	for s := range statuses {
		if !used[s] && !slices.Contains(ofTheLibrary, s) {
			t.Errorf("openapi.yaml has status %d, which the source has not", s)
		}
	}
}

var (
	// generic headers are HTTP's, not an operation's.
	generic = []string{"content-type", "content-disposition", "www-authenticate", "accept"}
	// ofNoOperation: another method is no operation.
	ofNoOperation = []int{http.StatusMethodNotAllowed}
	// ofTheLibrary are written by http.ServeContent.
	ofTheLibrary = []int{http.StatusPartialContent, http.StatusNotModified, http.StatusPreconditionFailed}
)

// statusNamed are the constants of net/http by name.
var statusNamed = func() map[string]int {
	out := make(map[string]int)
	for s := 100; s < 600; s++ {
		if text := http.StatusText(s); text != "" {
			out["Status"+strings.NewReplacer(" ", "", "-", "", "'", "").Replace(text)] = s
		}
	}
	out["StatusRequestedRangeNotSatisfiable"] = http.StatusRequestedRangeNotSatisfiable
	return out
}()

// eachSource parses the package and what is below it, tests left out.
func eachSource(t *testing.T, f func(name string, file *ast.File)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(notRoutes, name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err == nil {
			f(name, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// notRoutes are directories that answer none of these operations.
var notRoutes = []string{"clienttest", "mcp", "openapi", "testdata"}

// literalsOf lists the strings in one function.
func literalsOf(t *testing.T, file, function string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range parsed.Decls {
		if fd, ok := d.(*ast.FuncDecl); ok && fd.Name.Name == function {
			ast.Inspect(fd, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(lit.Value)
					out = append(out, text)
				}
				return true
			})
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s: no function %s with strings", file, function)
	}
	return out
}
