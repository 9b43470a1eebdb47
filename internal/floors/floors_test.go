package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module that is not a test.
type source struct {
	dir  string // slash-separated, relative to the module
	file string
	ast  *ast.File
}

// parse reads every Go file below root, whatever its build constraints, except
// tests, which may reach up for the real thing. Directories that the go command
// ignores and modules of their own are left out.
func parse(root fs.FS, set *token.FileSet) ([]source, error) {
	var list []source
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name != "." && (base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		list = append(list, source{path.Dir(name), name, file})
		return nil
	})
	return list, err
}

// violations applies every rule to every file.
func violations(set *token.FileSet, sources []source) []string {
	var list []string
	for _, s := range sources {
		report := func(at token.Pos, format string, args ...any) {
			list = append(list, fmt.Sprintf("%s: %s", set.Position(at), fmt.Sprintf(format, args...)))
		}
		for _, spec := range s.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				report(spec.Pos(), "%v", err)
			} else if wrong := checkImport(s.dir, imported); wrong != "" {
				report(spec.Pos(), "imports %s: %s", imported, wrong)
			}
		}
		if within(nameless, s.dir) && !within(exempt, s.dir) {
			checkNames(s.ast, report)
		}
		if within(public, s.dir) && !within(exempt, s.dir) && s.ast.Name.Name != "main" {
			checkAPI(s.ast, report)
		}
	}
	return list
}

type reporter func(at token.Pos, format string, args ...any)

// checkNames reports string literals that name a backend.
func checkNames(file *ast.File, report reporter) {
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err == nil && slices.Contains(names, strings.ToLower(text)) {
			report(lit.Pos(), "%s names a backend: ask for a capability instead", lit.Value)
		}
		return true
	})
}

// checkAPI reports types of private libraries in exported declarations.
func checkAPI(file *ast.File, report reporter) {
	hidden := map[string]string{} // package name in this file → import path
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !within(private, imported) {
			continue
		}
		name := packageName(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		hidden[name] = imported
	}
	var check func(n ast.Node)
	check = func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType: // its unexported fields are nobody's API
				for _, f := range n.Fields.List {
					if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
						check(f.Type)
					}
				}
				return false
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && hidden[x.Name] != "" {
					report(n.Pos(), "%s.%s of %s is in the exported API", x.Name, n.Sel.Name, hidden[x.Name])
				}
			}
			return true
		})
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				check(d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						check(spec.Type)
					}
				case *ast.ValueSpec:
					if spec.Type != nil && slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported) {
						check(spec.Type)
					}
				}
			}
		}
	}
}

// packageName guesses a package's name from its path, as goimports does: the
// last element that is not a major version, without a "go-" prefix.
func packageName(imported string) string {
	base := path.Base(imported)
	if v, ok := strings.CutPrefix(base, "v"); ok {
		if _, err := strconv.Atoi(v); err == nil {
			base = path.Base(path.Dir(imported))
		}
	}
	return strings.TrimPrefix(base, "go-")
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func TestFloors(t *testing.T) {
	set := token.NewFileSet()
	sources, err := parse(os.DirFS("../.."), set)
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 20 {
		t.Fatalf("only %d files found: the walk is broken", len(sources))
	}
	for _, v := range violations(set, sources) {
		t.Error(v)
	}
}
