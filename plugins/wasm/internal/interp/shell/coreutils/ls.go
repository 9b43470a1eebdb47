package coreutils

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// listing is what ls is asked for.
type listing struct {
	all, almost, long, human, reverse, recursive, dir, classify, slash, inode, numeric, full bool
	sort                                                                                     byte
}

// item is one line of ls.
type item struct {
	name string
	info fs.FileInfo
	link string
}

func ls(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("aAlhrRdFpiSt1UXCxmnGgovcuNqQksLHZbBIw:T:K::Y:", "all=a", "almost-all=A", "human-readable=h", "reverse=r", "recursive=R", "directory=d", "classify=F", "inode=i", "color=K", "time-style=Y", "full-time=Z", "group-directories-first=N", "size=s")
	if err != nil {
		return c.usage(err, 2)
	}
	var l listing
	for _, o := range opts {
		switch o.name {
		case 'a':
			l.all = true
		case 'A':
			l.almost = true
		case 'l', 'g', 'o':
			l.long = true
		case 'n':
			l.long, l.numeric = true, true
		case 'Z':
			l.long, l.full = true, true
		case 'Y':
			l.full = o.arg == "full-iso"
		case 'h':
			l.human = true
		case 'r':
			l.reverse = true
		case 'R':
			l.recursive = true
		case 'd':
			l.dir = true
		case 'F':
			l.classify = true
		case 'p':
			l.slash = true
		case 'i':
			l.inode = true
		case 'S', 't', 'U', 'X', 'v':
			l.sort = o.name
		}
	}
	if len(operands) == 0 {
		operands = []string{"."}
	}
	code := 0
	var files, dirs []item
	for _, name := range operands {
		info, err := c.FS.Lstat(c.path(name))
		if err == nil && info.Mode()&fs.ModeSymlink != 0 && !l.long && !l.dir {
			if target, terr := c.FS.Stat(c.path(name)); terr == nil {
				info = target
			}
		}
		switch {
		case err != nil:
			c.errorf("cannot access %s: %s", quoted(name), reason(err))
			code = 2
		case info.IsDir() && !l.dir:
			dirs = append(dirs, item{name, info, ""})
		default:
			files = append(files, l.item(c, name, c.path(name), info))
		}
	}
	w := c.output()
	l.order(files)
	l.order(dirs)
	l.print(w, files)
	several := len(operands) > 1 || l.recursive
	for i, d := range dirs {
		if i > 0 || len(files) > 0 {
			w.WriteByte('\n')
		}
		code = max(code, l.directory(ctx, c, w, d.name, several, i > 0 || len(files) > 0))
	}
	return c.flush(w, code)
}

func (l *listing) item(c *Call, name, at string, info fs.FileInfo) item {
	it := item{name: name, info: info}
	if info.Mode()&fs.ModeSymlink != 0 && (l.long || l.classify) {
		it.link, _ = c.FS.Readlink(at)
	}
	return it
}

// directory prints one directory and, with -R, those in it.
func (l *listing) directory(ctx context.Context, c *Call, w *bufio.Writer, name string, title, _ bool) int {
	list, err := c.FS.ReadDir(c.path(name))
	if err != nil {
		c.errorf("cannot open directory %s: %s", quoted(name), reason(err))
		return 2
	}
	if title {
		w.WriteString(name + ":\n")
	}
	var items []item
	if l.all {
		for _, n := range []string{".", ".."} {
			if info, err := c.FS.Stat(c.path(path.Join(c.path(name), n))); err == nil {
				items = append(items, item{name: n, info: info})
			}
		}
	}
	var below []string
	for _, info := range list {
		if strings.HasPrefix(info.Name(), ".") && !l.all && !l.almost {
			continue
		}
		items = append(items, l.item(c, info.Name(), c.path(name+"/"+info.Name()), info))
	}
	l.order(items)
	if l.long {
		total := int64(0)
		for _, it := range items {
			total += (it.info.Size() + 4095) / 4096 * 4
		}
		if l.human {
			fmt.Fprintf(w, "total %s\n", human(total*1024))
		} else {
			fmt.Fprintf(w, "total %d\n", total)
		}
	}
	l.print(w, items)
	if !l.recursive {
		return 0
	}
	for _, it := range items {
		if it.info.IsDir() && it.name != "." && it.name != ".." {
			below = append(below, strings.TrimSuffix(name, "/")+"/"+it.name)
		}
	}
	code := 0
	for _, b := range below {
		if ctx.Err() != nil {
			return 2
		}
		w.WriteByte('\n')
		code = max(code, l.directory(ctx, c, w, b, true, true))
	}
	return code
}

func (l *listing) order(items []item) {
	if l.sort == 'U' {
		return
	}
	slices.SortStableFunc(items, func(a, b item) int {
		n := 0
		switch l.sort {
		case 'S':
			n = cmp.Compare(b.info.Size(), a.info.Size())
		case 't':
			n = b.info.ModTime().Compare(a.info.ModTime())
		case 'X':
			n = strings.Compare(path.Ext(a.name), path.Ext(b.name))
		case 'v':
			n = compareVersions(a.name, b.name)
		}
		if n == 0 {
			n = strings.Compare(a.name, b.name)
		}
		if l.reverse {
			n = -n
		}
		return n
	})
}

func (l *listing) print(w *bufio.Writer, items []item) {
	var links, sizes int
	size := func(it item) string {
		if l.human {
			return human(it.info.Size())
		}
		return fmt.Sprint(it.info.Size())
	}
	for _, it := range items {
		links = max(links, len(fmt.Sprint(linksOf(it.info))))
		sizes = max(sizes, len(size(it)))
	}
	for _, it := range items {
		if l.inode {
			fmt.Fprintf(w, "%d ", inodeOf(it.info))
		}
		if l.long {
			owner := "sandbox sandbox"
			if l.numeric {
				owner = "1000 1000"
			}
			fmt.Fprintf(w, "%s %*d %s %*s %s ", modeString(it.info.Mode()), links, linksOf(it.info), owner, sizes, size(it), l.time(it.info.ModTime()))
		}
		w.WriteString(it.name)
		mode := it.info.Mode()
		switch {
		case it.link != "" && l.long:
			w.WriteString(" -> " + it.link)
		case mode.IsDir() && (l.classify || l.slash):
			w.WriteByte('/')
		case mode&fs.ModeSymlink != 0 && l.classify:
			w.WriteByte('@')
		case mode.IsRegular() && mode&0o111 != 0 && l.classify:
			w.WriteByte('*')
		}
		w.WriteByte('\n')
	}
}

// time is precise to the minute for the last half year.
func (l *listing) time(t time.Time) string {
	if l.full {
		return t.Format("2006-01-02 15:04:05.000000000 -0700")
	}
	if age := time.Since(t); age < 0 || age > 182*24*time.Hour {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}

func linksOf(info fs.FileInfo) uint64 { return max(1, detailsOf(info).Links) }
func inodeOf(info fs.FileInfo) uint64 { return detailsOf(info).Inode }

// modeString writes a mode the way "ls -l" does.
func modeString(m fs.FileMode) string {
	kind := byte('-')
	switch {
	case m.IsDir():
		kind = 'd'
	case m&fs.ModeSymlink != 0:
		kind = 'l'
	case m&fs.ModeCharDevice != 0:
		kind = 'c'
	case m&fs.ModeNamedPipe != 0:
		kind = 'p'
	}
	b := []byte{kind}
	for i := 8; i >= 0; i-- {
		if m&(1<<i) != 0 {
			b = append(b, "xwr"[i%3])
		} else {
			b = append(b, '-')
		}
	}
	return string(b)
}

// tree draws directories.
func tree(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("adL:fiC", "noreport=C")
	if err != nil {
		return c.usage(err, 1)
	}
	all, only, depth := false, false, -1
	for _, o := range opts {
		switch o.name {
		case 'a':
			all = true
		case 'd':
			only = true
		case 'L':
			if _, err := fmt.Sscan(o.arg, &depth); err != nil || depth < 1 {
				return c.usage(fmt.Errorf("invalid level, must be greater than 0"), 1)
			}
		}
	}
	if len(operands) == 0 {
		operands = []string{"."}
	}
	w := c.output()
	dirs, files := 0, 0
	var walk func(dir, indent string, level int)
	walk = func(dir, indent string, level int) {
		list, err := c.FS.ReadDir(dir)
		if err != nil || level == depth || ctx.Err() != nil {
			return
		}
		list = slices.DeleteFunc(list, func(i fs.FileInfo) bool { return !all && i.Name()[0] == '.' || only && !i.IsDir() })
		for n, info := range list {
			branch, more := "├── ", "│   "
			if n == len(list)-1 {
				branch, more = "└── ", "    "
			}
			w.WriteString(indent + branch + info.Name())
			if info.Mode()&fs.ModeSymlink != 0 {
				target, _ := c.FS.Readlink(dir + "/" + info.Name())
				w.WriteString(" -> " + target)
			}
			w.WriteByte('\n')
			if info.IsDir() {
				dirs++
				walk(path.Join(dir, info.Name()), indent+more, level+1)
			} else {
				files++
			}
		}
	}
	for _, name := range operands {
		w.WriteString(name + "\n")
		walk(c.path(name), "", 0)
	}
	plural := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	fmt.Fprintf(w, "\n%s", plural(dirs, "directory", "directories"))
	if !only {
		fmt.Fprintf(w, ", %s", plural(files, "file", "files"))
	}
	w.WriteByte('\n')
	return c.flush(w, 0)
}
