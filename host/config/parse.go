package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/internal/yamldepth"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize bounds a configuration file, in bytes.
const MaxSize = 1 << 20

// Error is one thing that is wrong with a file, and where.
type Error struct {
	// File is the name given to Parse or Load.
	File string
	// Line and Column count from 1.
	Line, Column int
	// Field is the key as a path, such as backends[0].id; empty for syntax.
	Field string
	// Reason says what the rule is.
	Reason string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Reason
}

// maxDepth is how deep lists and mappings may be nested in brackets and braces.
const maxDepth = 32

// Load reads the file at path. Relative paths inside it are taken from its own
// directory. Errors of content are *Error values, joined.
func Load(path string) (File, error) {
	f, _, err := Read(path)
	return f, err
}

// Read is Load, and tells whether the file is blank: empty, or nothing but comments.
// It means the defaults then, which is what a file looks like too that was cut off, or
// is being written.
func Read(path string) (_ File, blank bool, err error) {
	data, err := read(path)
	if err != nil {
		return File{}, false, fmt.Errorf("configuration: %w", err)
	}
	c, blank, err := parse(path, data)
	if err != nil {
		return File{}, false, err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return File{}, false, fmt.Errorf("configuration: %w", err)
	}
	c.resolve(dir)
	return c, blank, nil
}

func read(path string) ([]byte, error) {
	// Opening what is no file may wait for ever, and the server with it.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Parse reads a configuration; name is used in errors. Relative paths stay as
// they are written.
func Parse(name string, data []byte) (File, error) {
	f, _, err := parse(name, data)
	return f, err
}

func parse(name string, data []byte) (f File, blank bool, err error) {
	// The YAML library is known to panic on some malformed documents.
	defer func() {
		if p := recover(); p != nil {
			f, blank, err = File{}, false, &Error{File: name, Line: 1, Column: 1, Reason: "malformed YAML"}
		}
	}()
	if len(data) > MaxSize {
		return File{}, false, &Error{File: name, Line: 1, Column: 1, Reason: fmt.Sprintf("the file is larger than %d KiB", MaxSize>>10)}
	}
	tokens := lexer.Tokenize(string(data))
	if t := yamldepth.Exceeds(tokens, maxDepth); t != nil {
		return File{}, false, at(name, nil, t, fmt.Sprintf("nested more than %d levels deep", maxDepth))
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		return File{}, false, located(name, nil, err)
	}
	f = defaults()
	var root ast.Node
	if len(tree.Docs) > 0 {
		root = tree.Docs[0].Body
	}
	if len(tree.Docs) > 1 {
		at := tree.Docs[1].GetToken().Position
		return File{}, false, &Error{File: name, Line: at.Line, Column: at.Column, Reason: "a configuration is one document: remove the second one"}
	}
	switch root.(type) {
	case nil, *ast.CommentGroupNode: // an empty file means the defaults
		blank = true
	default:
		if err := yaml.NodeToValue(root, &f, yaml.Strict()); err != nil {
			return File{}, false, located(name, root, err)
		}
	}
	f.complete()
	c := checker{name: name, tree: tree}
	c.file(f)
	if len(c.errs) > 0 {
		slices.SortStableFunc(c.errs, func(a, b *Error) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		errs := make([]error, len(c.errs))
		for i, e := range c.errs {
			errs[i] = e
		}
		return File{}, false, errors.Join(errs...)
	}
	return f, blank, nil
}

// located turns an error of the YAML library, met while decoding root, into one
// of ours.
func located(name string, root ast.Node, err error) error {
	var ours *nodeError
	if errors.As(err, &ours) {
		return at(name, root, ours.token, ours.reason)
	}
	var theirs yaml.Error
	if errors.As(err, &theirs) && theirs.GetToken() != nil {
		return at(name, root, theirs.GetToken(), plain(theirs))
	}
	return &Error{File: name, Line: 1, Column: 1, Reason: "malformed YAML: " + firstLine(err.Error())}
}

func at(name string, root ast.Node, t *token.Token, reason string) *Error {
	e := &Error{File: name, Line: t.Position.Line, Column: t.Position.Column, Reason: reason}
	if root != nil {
		ast.Walk(finder{t, &e.Field}, root)
	}
	return e
}

// finder looks for the key that a token belongs to.
type finder struct {
	token *token.Token
	field *string
}

func (f finder) Visit(n ast.Node) ast.Visitor {
	if n.GetToken() == f.token && *f.field == "" {
		*f.field = strings.TrimPrefix(strings.TrimPrefix(n.GetPath(), "$"), ".")
	}
	return f
}

// plain rewords the library's messages that speak of Go types.
func plain(err yaml.Error) string {
	switch e := err.(type) {
	case *yaml.TypeError:
		want := map[string]string{"string": "text", "bool": "true or false"}[e.DstType.Kind().String()]
		if want != "" {
			return "must be " + want
		}
		return "has the wrong type"
	case *yaml.UnexpectedNodeTypeError:
		return "must be a " + strings.ToLower(e.Expected.YAMLName()) + ", not a " + strings.ToLower(e.Actual.YAMLName())
	case *yaml.UnknownFieldError:
		return "unknown key"
	default:
		return firstLine(err.GetMessage())
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// resolve makes the paths in f absolute.
func (f *File) resolve(dir string) {
	abs := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	abs(&f.Data)
	abs(&f.Billing.Path)
	abs(&f.Sessions.Redis.File)
	abs(&f.Admin.Credential.File)
	abs(&f.DecisionLog)
	for i := range f.Plugins.Dirs {
		abs(&f.Plugins.Dirs[i])
	}
	for i := range f.Admission.ServiceKeys {
		abs(&f.Admission.ServiceKeys[i].KeyFile)
	}
	for _, b := range f.Backends {
		for name, s := range b.Secrets {
			abs(&s.File)
			b.Secrets[name] = s
		}
	}
}
