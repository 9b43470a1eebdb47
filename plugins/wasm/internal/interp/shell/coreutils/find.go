package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/pattern"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/posixre"
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

var knownTests = map[string]bool{
	"-name": true, "-iname": true, "-path": true, "-wholename": true, "-ipath": true, "-regex": true, "-iregex": true, "-type": true,
	"-size": true, "-mtime": true, "-mmin": true, "-atime": true, "-amin": true, "-ctime": true, "-cmin": true, "-newer": true,
	"-maxdepth": true, "-mindepth": true, "-perm": true, "-user": true, "-group": true, "-printf": true, "-links": true, "-inum": true,
	"-lname": true, "-regextype": true, "-newermt": true,
}

// test makes the tests that take an argument.
func (f *finder) test(name, a string) (predicate, error) {
	bad := fmt.Errorf("invalid argument `%s' to `%s'", a, name)
	switch name {
	case "-name", "-iname", "-path", "-wholename", "-ipath", "-lname":
		fold := name[1] == 'i'
		re, err := globRegexp(a, fold)
		if err != nil {
			return nil, bad
		}
		return func(_ context.Context, v *visit) bool {
			switch {
			case strings.HasSuffix(name, "lname"):
				target, err := f.c.FS.Readlink(f.c.path(v.name))
				return err == nil && re.MatchString(target)
			case strings.HasSuffix(name, "path"), name == "-wholename":
				return re.MatchString(v.name)
			}
			return re.MatchString(path.Base(v.name))
		}, nil
	case "-regex", "-iregex":
		text, err := posixre.Translate(a, true)
		if err != nil {
			return nil, bad
		}
		flags := "(?s)"
		if name == "-iregex" {
			flags = "(?si)"
		}
		re, err := regexp.Compile(flags + `\A(?:` + text + `)\z`)
		if err != nil {
			return nil, bad
		}
		return func(_ context.Context, v *visit) bool { return re.MatchString(v.name) }, nil
	case "-regextype":
		return func(context.Context, *visit) bool { return true }, nil
	case "-type", "-xtype":
		return func(_ context.Context, v *visit) bool {
			return strings.IndexByte(a, map[byte]byte{'-': 'f', 'd': 'd', 'l': 'l', 'c': 'c', 'p': 'p'}[modeString(v.info.Mode())[0]]) >= 0
		}, nil
	case "-maxdepth", "-mindepth":
		n, err := strconv.Atoi(a)
		if err != nil || n < 0 {
			return nil, bad
		}
		if name == "-maxdepth" {
			f.maxDepth = n
		} else {
			f.minDepth = n
		}
		return func(context.Context, *visit) bool { return true }, nil
	case "-size":
		return f.sizeTest(a, bad)
	case "-links", "-inum":
		cmp, n, err := signed(a)
		if err != nil {
			return nil, bad
		}
		return func(_ context.Context, v *visit) bool {
			if name == "-links" {
				return cmp(int64(linksOf(v.info)), n)
			}
			return cmp(int64(inodeOf(v.info)), n)
		}, nil
	case "-mtime", "-ctime", "-atime", "-mmin", "-cmin", "-amin":
		cmp, n, err := signed(a)
		if err != nil {
			return nil, bad
		}
		unit := 24 * time.Hour
		if strings.HasSuffix(name, "min") {
			unit = time.Minute
		}
		return func(_ context.Context, v *visit) bool {
			t := v.info.ModTime()
			switch st := statOf(v.info); name[1] {
			case 'c':
				t = time.Unix(0, st.Ctim.Nano())
			case 'a':
				t = time.Unix(0, st.Atim.Nano())
			}
			age := f.now.Sub(t)
			units := int64(age / unit)
			if unit == time.Minute && age%unit != 0 {
				units++ // minutes are rounded up
			}
			return cmp(units, n)
		}, nil
	case "-newer", "-newermt":
		var than time.Time
		if name == "-newermt" {
			t, err := parseDate(a, f.now, time.Local)
			if err != nil {
				return nil, bad
			}
			than = t
		} else {
			info, err := f.c.FS.Stat(f.c.path(a))
			if err != nil {
				return nil, fmt.Errorf("%s: %s", quoted(a), reason(err))
			}
			than = info.ModTime()
		}
		return func(_ context.Context, v *visit) bool { return v.info.ModTime().After(than) }, nil
	case "-perm":
		return permTest(a, bad)
	case "-user", "-group":
		return func(context.Context, *visit) bool { return a == "sandbox" || a == "1000" }, nil
	case "-printf":
		f.acts = true
		return func(_ context.Context, v *visit) bool {
			f.w.WriteString(f.format(a, v))
			return true
		}, nil
	}
	return nil, fmt.Errorf("unknown predicate `%s'", name)
}

// signed reads "+n", "-n" or "n".
func signed(s string) (func(v, n int64) bool, int64, error) {
	cmp := func(v, n int64) bool { return v == n }
	switch {
	case strings.HasPrefix(s, "+"):
		s, cmp = s[1:], func(v, n int64) bool { return v > n }
	case strings.HasPrefix(s, "-"):
		s, cmp = s[1:], func(v, n int64) bool { return v < n }
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	return cmp, n, err
}

func (f *finder) sizeTest(a string, bad error) (predicate, error) {
	unit := int64(512)
	number := a
	if a != "" {
		if u, ok := map[byte]int64{'c': 1, 'w': 2, 'b': 512, 'k': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[a[len(a)-1]]; ok {
			unit, number = u, a[:len(a)-1]
		}
	}
	cmp, n, err := signed(number)
	if err != nil {
		return nil, bad
	}
	return func(_ context.Context, v *visit) bool { return cmp((v.info.Size()+unit-1)/unit, n) }, nil
}

func permTest(a string, bad error) (predicate, error) {
	kind, spec := byte(0), a
	if a != "" && (a[0] == '-' || a[0] == '/') {
		kind, spec = a[0], a[1:]
	}
	want, err := parseMode(spec, 0, false)
	if err != nil {
		return nil, bad
	}
	return func(_ context.Context, v *visit) bool {
		m := v.info.Mode().Perm()
		switch kind {
		case '-':
			return m&want == want
		case '/':
			return want == 0 || m&want != 0
		}
		return m == want
	}, nil
}

func (f *finder) remove(v *visit) bool {
	if v.name == "." {
		return true
	}
	op := f.c.FS.Unlink
	if v.info.IsDir() {
		op = f.c.FS.Rmdir
	}
	if err := op(f.c.path(v.name)); err != nil {
		f.c.errorf("cannot delete %s: %s", quoted(v.name), reason(err))
		f.code = 1
		return false
	}
	return true
}

func (f *finder) exec(name string) (predicate, error) {
	f.acts = true
	end := -1
	for i, a := range f.args {
		if a == ";" || a == "+" && i > 0 && f.args[i-1] == "{}" {
			end = i
			break
		}
	}
	if end < 1 {
		return nil, fmt.Errorf("missing argument to `%s'", name)
	}
	argv, many := f.args[:end], f.args[end] == "+"
	f.args = f.args[end+1:]
	inDir := strings.HasSuffix(name, "dir")
	if many && !inDir {
		b := &batch{argv: argv[:len(argv)-1]}
		f.batches = append(f.batches, b)
		return func(ctx context.Context, v *visit) bool {
			if b.names, b.bytes = append(b.names, v.name), b.bytes+len(v.name); b.bytes > maxArguments {
				f.runBatch(ctx, b)
			}
			return true
		}, nil
	}
	return func(ctx context.Context, v *visit) bool {
		_ = f.w.Flush() // what was printed before comes before
		name, dir := v.name, f.c.Dir
		if inDir {
			name, dir = "./"+path.Base(v.name), path.Dir(f.c.path(v.name))
		}
		out := make([]string, len(argv))
		for i, a := range argv {
			out[i] = strings.ReplaceAll(a, "{}", name)
		}
		d := f.c.with(out)
		d.Dir = dir
		return f.c.Run(ctx, d) == 0
	}, nil
}

func (f *finder) runBatch(ctx context.Context, b *batch) {
	_ = f.w.Flush()
	if f.c.Run(ctx, f.c.with(append(append([]string{}, b.argv...), b.names...))) != 0 {
		f.code = 1
	}
	b.names, b.bytes = nil, 0
}

// format fills in a -printf.
func (f *finder) format(form string, v *visit) string {
	var b strings.Builder
	for i := 0; i < len(form); i++ {
		c := form[i]
		if i+1 == len(form) || c != '%' && c != '\\' {
			b.WriteByte(c)
			continue
		}
		i++
		if c == '\\' {
			if at := strings.IndexByte("abfnrtv", form[i]); at >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v"[at])
			} else if form[i] == '0' {
				b.WriteByte(0)
			} else {
				b.WriteByte(form[i])
			}
			continue
		}
		switch form[i] {
		case 'p':
			b.WriteString(v.name)
		case 'f':
			b.WriteString(path.Base(v.name))
		case 'h':
			b.WriteString(path.Dir(v.name))
		case 'P':
			b.WriteString(strings.TrimPrefix(strings.TrimPrefix(v.name, v.base), "/"))
		case 's':
			fmt.Fprint(&b, v.info.Size())
		case 'd':
			fmt.Fprint(&b, v.depth)
		case 'y':
			b.WriteByte(strings.Replace(modeString(v.info.Mode())[:1], "-", "f", 1)[0])
		case 'm':
			fmt.Fprintf(&b, "%o", v.info.Mode().Perm())
		case 'M':
			b.WriteString(modeString(v.info.Mode()))
		case 'u', 'g':
			b.WriteString("sandbox")
		case 'U', 'G':
			b.WriteString("1000")
		case 'i':
			fmt.Fprint(&b, inodeOf(v.info))
		case 'n':
			fmt.Fprint(&b, linksOf(v.info))
		case 'l':
			target, _ := f.c.FS.Readlink(f.c.path(v.name))
			b.WriteString(target)
		case 't':
			b.WriteString(v.info.ModTime().Format("Mon Jan _2 15:04:05.0000000000 2006"))
		case 'T':
			if i++; i < len(form) {
				if form[i] == '@' {
					fmt.Fprintf(&b, "%d.%010d", v.info.ModTime().Unix(), v.info.ModTime().Nanosecond()*10)
				} else {
					b.WriteString(strftime("%"+form[i:i+1], v.info.ModTime()))
				}
			}
		default:
			b.WriteByte(form[i])
		}
	}
	return b.String()
}

// globRegexp turns a pattern, in which * also matches slashes, into an expression.
func globRegexp(p string, fold bool) (*regexp.Regexp, error) {
	mode := pattern.EntireString
	if fold {
		mode |= pattern.NoGlobCase
	}
	text, err := pattern.Regexp(p, mode)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(text)
}
