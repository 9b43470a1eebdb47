package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// visit is one file that find looks at.
type visit struct {
	name  string // as printed
	base  string // the operand below which it was found
	depth int
	info  fs.FileInfo
	prune bool
}

// predicate is one node of find's expression.
type predicate func(ctx context.Context, v *visit) bool

// finder holds what an expression needs.
type finder struct {
	c        *Call
	w        *bufio.Writer
	now      time.Time
	args     []string
	minDepth int
	maxDepth int
	depth    bool // contents before the directory
	acts     bool // the expression prints or does something
	quit     bool
	code     int
	batches  []*batch
	nesting  int
}

// batch collects the names of -exec ... {} +.
type batch struct {
	argv  []string
	names []string
	bytes int
}

func find(ctx context.Context, c *Call) int {
	args := c.Argv[1:]
	for len(args) > 0 && (args[0] == "-H" || args[0] == "-L" || args[0] == "-P") {
		args = args[1:]
	}
	var roots []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "(" && args[0] != "!" {
		roots, args = append(roots, args[0]), args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	f := &finder{c: c, w: c.output(), now: time.Now(), args: args, maxDepth: 1 << 30}
	expr, err := f.or()
	if err == nil && len(f.args) > 0 {
		err = fmt.Errorf("paths must precede expression: `%s'", f.args[0])
	}
	if err != nil {
		return c.usage(err, 1)
	}
	if !f.acts {
		inner := expr
		expr = func(ctx context.Context, v *visit) bool { return inner(ctx, v) && f.print(v, "\n") }
	}
	for _, root := range roots {
		info, err := c.FS.Lstat(c.path(root))
		if err != nil {
			c.errorf("%s: %s", quoted(root), reason(err))
			f.code = 1
			continue
		}
		f.walk(ctx, expr, &visit{name: root, base: root, info: info})
	}
	for _, b := range f.batches {
		if len(b.names) > 0 {
			f.runBatch(ctx, b)
		}
	}
	return c.flush(f.w, f.code)
}

func (f *finder) print(v *visit, end string) bool {
	if _, err := f.w.WriteString(v.name + end); err != nil {
		f.quit = true
	}
	return true
}

func (f *finder) walk(ctx context.Context, expr predicate, v *visit) {
	if f.quit || ctx.Err() != nil {
		return
	}
	if !f.depth && v.depth >= f.minDepth {
		expr(ctx, v)
	}
	if v.info.IsDir() && v.depth < f.maxDepth && !v.prune {
		list, err := f.c.FS.ReadDir(f.c.path(v.name))
		if err != nil {
			f.c.errorf("%s: %s", quoted(v.name), reason(err))
			f.code = 1
		}
		for _, info := range list {
			f.walk(ctx, expr, &visit{name: strings.TrimSuffix(v.name, "/") + "/" + info.Name(), base: v.base, depth: v.depth + 1, info: info})
		}
	}
	if f.depth && v.depth >= f.minDepth && !f.quit {
		expr(ctx, v)
	}
}

// or, and and not are the levels of an expression.
func (f *finder) or() (predicate, error) {
	left, err := f.and()
	for err == nil && len(f.args) > 0 && (f.args[0] == "-o" || f.args[0] == "-or") {
		f.args = f.args[1:]
		a := left
		b, rerr := f.and()
		err = rerr
		left = func(ctx context.Context, v *visit) bool { return a(ctx, v) || b(ctx, v) }
	}
	return left, err
}

func (f *finder) and() (predicate, error) {
	left, err := f.not()
	for err == nil && len(f.args) > 0 && f.args[0] != "-o" && f.args[0] != "-or" && f.args[0] != ")" {
		if f.args[0] == "-a" || f.args[0] == "-and" {
			f.args = f.args[1:]
		}
		a := left
		b, rerr := f.not()
		err = rerr
		left = func(ctx context.Context, v *visit) bool { return a(ctx, v) && b(ctx, v) }
	}
	return left, err
}

// maxNesting bounds parentheses and negations.
const maxNesting = 200

func (f *finder) not() (predicate, error) {
	always := func(context.Context, *visit) bool { return true }
	if f.nesting++; f.nesting > maxNesting {
		return nil, errors.New("the expression nests too deep")
	}
	defer func() { f.nesting-- }()
	if len(f.args) == 0 {
		return always, nil
	}
	switch f.args[0] {
	case "!", "-not":
		f.args = f.args[1:]
		if len(f.args) == 0 {
			return nil, errors.New("expected an expression after `!'")
		}
		p, err := f.not()
		return func(ctx context.Context, v *visit) bool { return !p(ctx, v) }, err
	case "(":
		f.args = f.args[1:]
		p, err := f.or()
		if err != nil {
			return nil, err
		}
		if len(f.args) == 0 || f.args[0] != ")" {
			return nil, errors.New("missing closing ')'")
		}
		f.args = f.args[1:]
		return p, nil
	}
	name := f.args[0]
	f.args = f.args[1:]
	return f.primary(name)
}

// arg takes the argument of a test.
func (f *finder) arg(name string) (string, error) {
	if len(f.args) == 0 {
		return "", fmt.Errorf("missing argument to `%s'", name)
	}
	a := f.args[0]
	f.args = f.args[1:]
	return a, nil
}

func (f *finder) primary(name string) (predicate, error) {
	yes := func(context.Context, *visit) bool { return true }
	switch name {
	case "-true", "-mount", "-xdev", "-noleaf", "-daystart", "-warn", "-nowarn":
		return yes, nil
	case "-false":
		return func(context.Context, *visit) bool { return false }, nil
	case "-depth", "-d":
		f.depth = true
		return yes, nil
	case "-print":
		f.acts = true
		return func(_ context.Context, v *visit) bool { return f.print(v, "\n") }, nil
	case "-print0":
		f.acts = true
		return func(_ context.Context, v *visit) bool { return f.print(v, "\x00") }, nil
	case "-prune":
		return func(_ context.Context, v *visit) bool { v.prune = true; return true }, nil
	case "-quit":
		f.acts = true
		return func(context.Context, *visit) bool { f.quit = true; return true }, nil
	case "-delete":
		f.acts, f.depth = true, true
		return func(_ context.Context, v *visit) bool { return f.remove(v) }, nil
	case "-ls":
		f.acts = true
		return func(_ context.Context, v *visit) bool {
			fmt.Fprintf(f.w, "%9d %6d %s %3d sandbox  sandbox  %8d %s %s\n", inodeOf(v.info), (v.info.Size()+1023)/1024, modeString(v.info.Mode()),
				linksOf(v.info), v.info.Size(), (&listing{}).time(v.info.ModTime()), v.name)
			return true
		}, nil
	case "-empty":
		return func(_ context.Context, v *visit) bool {
			if v.info.IsDir() {
				list, err := f.c.FS.ReadDir(f.c.path(v.name))
				return err == nil && len(list) == 0
			}
			return v.info.Mode().IsRegular() && v.info.Size() == 0
		}, nil
	case "-executable", "-readable", "-writable":
		bit := map[string]fs.FileMode{"-executable": 0o111, "-readable": 0o444, "-writable": 0o222}[name]
		return func(_ context.Context, v *visit) bool { return v.info.Mode()&bit != 0 }, nil
	case "-exec", "-execdir", "-ok", "-okdir":
		return f.exec(name)
	}
	a, err := f.arg(name)
	if err != nil {
		if !knownTests[name] {
			err = fmt.Errorf("unknown predicate `%s'", name)
		}
		return nil, err
	}
	return f.test(name, a)
}
