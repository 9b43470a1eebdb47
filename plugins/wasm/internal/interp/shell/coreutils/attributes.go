package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// parseMode reads an octal or symbolic mode; old is the mode to change.
func parseMode(s string, old fs.FileMode, isDir bool) (fs.FileMode, error) {
	if n, err := strconv.ParseUint(s, 8, 12); err == nil {
		return fs.FileMode(n).Perm(), nil
	}
	mode := old.Perm()
	for clause := range strings.SplitSeq(s, ",") {
		i := strings.IndexAny(clause, "+-=")
		if i < 0 {
			return 0, fmt.Errorf("invalid mode: %s", quoted(s))
		}
		var who fs.FileMode
		for _, r := range clause[:i] {
			switch r {
			case 'u':
				who |= 0o700
			case 'g':
				who |= 0o070
			case 'o':
				who |= 0o007
			case 'a':
				who |= 0o777
			default:
				return 0, fmt.Errorf("invalid mode: %s", quoted(s))
			}
		}
		if i == 0 {
			who = 0o777
		}
		for rest := clause[i:]; rest != ""; {
			op := rest[0]
			rest = rest[1:]
			n := strings.IndexAny(rest, "+-=")
			if n < 0 {
				n = len(rest)
			}
			var bits fs.FileMode
			for _, r := range rest[:n] {
				switch r {
				case 'r':
					bits |= 0o444
				case 'w':
					bits |= 0o222
				case 'x':
					bits |= 0o111
				case 'X':
					if isDir || mode&0o111 != 0 {
						bits |= 0o111
					}
				case 's', 't':
				case 'u':
					bits |= mode >> 6 & 7 * 0o111
				case 'g':
					bits |= mode >> 3 & 7 * 0o111
				case 'o':
					bits |= mode & 7 * 0o111
				default:
					return 0, fmt.Errorf("invalid mode: %s", quoted(s))
				}
			}
			if i == 0 && op != '-' {
				bits &^= 0o022 // as the usual umask says
			}
			bits &= who
			switch op {
			case '+':
				mode |= bits
			case '-':
				mode &^= bits
			case '=':
				mode = mode&^who | bits
			}
			rest = rest[n:]
		}
	}
	return mode, nil
}

func chmod(ctx context.Context, c *Call) int {
	// A mode such as "-x" is no option.
	args := c.Argv[1:]
	recursive, verbose, quiet := false, false, false
	reference := ""
options:
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch a := args[0]; {
		case a == "-R", a == "--recursive":
			recursive = true
		case a == "-v", a == "-c", a == "--verbose", a == "--changes":
			verbose = true
		case a == "-f", a == "--silent", a == "--quiet":
			quiet = true
		case strings.HasPrefix(a, "--reference="):
			reference = a[len("--reference="):]
		case a == "--":
			args = args[1:]
			break options
		default:
			break options
		}
		args = args[1:]
	}
	spec := ""
	if reference != "" {
		info, err := c.FS.Stat(c.path(reference))
		if err != nil {
			c.errorf("failed to get attributes of %s: %s", quoted(reference), reason(err))
			return 1
		}
		spec = strconv.FormatUint(uint64(info.Mode().Perm()), 8)
	} else if len(args) > 0 {
		spec, args = args[0], args[1:]
	}
	if len(args) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	if _, err := parseMode(spec, 0, false); err != nil {
		return c.usage(err, 1)
	}
	code := 0
	var change func(name string)
	change = func(name string) {
		info, err := c.FS.Stat(c.path(name))
		if err == nil {
			mode, _ := parseMode(spec, info.Mode(), info.IsDir())
			if err = c.FS.Chmod(c.path(name), mode); err == nil && verbose {
				fmt.Fprintf(c.Stdout, "mode of %s changed from %04o (%s) to %04o (%s)\n", quoted(name),
					info.Mode().Perm(), modeString(info.Mode())[1:], mode, modeString(mode)[1:])
			}
		}
		if err != nil {
			if !quiet {
				c.errorf("cannot access %s: %s", quoted(name), reason(err))
			}
			code = 1
			return
		}
		if recursive && info.IsDir() && ctx.Err() == nil {
			list, _ := c.FS.ReadDir(c.path(name))
			for _, entry := range list {
				if entry.Mode()&fs.ModeSymlink == 0 {
					change(name + "/" + entry.Name())
				}
			}
		}
	}
	for _, name := range args {
		change(name)
	}
	return code
}

func stat(_ context.Context, c *Call) int {
	opts, operands, err := c.options("c:Lft", "format=c", "dereference=L", "file-system=f", "terse=t")
	if err != nil {
		return c.usage(err, 1)
	}
	form, follow := "", false
	for _, o := range opts {
		switch o.name {
		case 'c':
			form = o.arg + "\n"
		case 'L':
			follow = true
		default:
			return c.usage(fmt.Errorf("option -%c is not available", o.name), 1)
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	if form == "" {
		form = "  File: %N\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\nDevice: 0,1\tInode: %-11i Links: %h\nAccess: (%04a/%A)  Uid: ( 1000/ sandbox)   Gid: ( 1000/ sandbox)\nAccess: %x\nModify: %y\nChange: %z\n Birth: -\n"
	}
	code := 0
	for _, name := range operands {
		op := c.FS.Lstat
		if follow {
			op = c.FS.Stat
		}
		info, err := op(c.path(name))
		if err != nil {
			c.errorf("cannot statx %s: %s", quoted(name), reason(err))
			code = 1
			continue
		}
		fmt.Fprint(c.Stdout, c.statFormat(form, name, info))
	}
	return code
}

// statFormat fills in a format of stat.
func (c *Call) statFormat(form, name string, info fs.FileInfo) string {
	var b strings.Builder
	stamp := func(ns int64) string { return time.Unix(0, ns).Format("2006-01-02 15:04:05.000000000 -0700") }
	st := statOf(info)
	for i := 0; i < len(form); i++ {
		if form[i] != '%' || i+1 == len(form) {
			b.WriteByte(form[i])
			continue
		}
		j := i + 1
		for j < len(form) && strings.IndexByte("-+ #.0123456789", form[j]) >= 0 {
			j++
		}
		if j == len(form) {
			b.WriteString(form[i:])
			break
		}
		flags := form[i+1 : j]
		var v any
		switch form[j] {
		case '%':
			b.WriteByte('%')
			i = j
			continue
		case 'n':
			v = name
		case 'N':
			v = name
			if info.Mode()&fs.ModeSymlink != 0 {
				target, _ := c.FS.Readlink(c.path(name))
				v = name + " -> " + target
			}
		case 's':
			v = info.Size()
		case 'b':
			v = (info.Size() + 4095) / 4096 * 8
		case 'B':
			v = 512
		case 'o':
			v = 4096
		case 'a':
			v = strconv.FormatUint(uint64(info.Mode().Perm()), 8)
			if flags == "04" {
				flags, v = "", fmt.Sprintf("%04o", info.Mode().Perm())
			}
		case 'A':
			v = modeString(info.Mode())
		case 'f':
			v = strconv.FormatUint(uint64(rawMode(info.Mode())), 16)
		case 'F':
			v = kindOf(info)
		case 'i':
			v = inodeOf(info)
		case 'h':
			v = linksOf(info)
		case 'u', 'g':
			v = 1000
		case 'U', 'G':
			v = "sandbox"
		case 'd':
			v = 1
		case 'x':
			v = stamp(st.Atim.Nano())
		case 'X':
			v = st.Atim.Sec
		case 'y':
			v = stamp(info.ModTime().UnixNano())
		case 'Y':
			v = info.ModTime().Unix()
		case 'z':
			v = stamp(st.Ctim.Nano())
		case 'Z':
			v = st.Ctim.Sec
		case 'w', 'W':
			v = "-"
		default:
			v = "?"
		}
		fmt.Fprintf(&b, "%"+limitWidth(flags)+"v", v)
		i = j
	}
	return b.String()
}

// limitWidth drops flags that would make a field of millions of characters.
func limitWidth(flags string) string {
	if len(flags) > 4 {
		return ""
	}
	return flags
}

func rawMode(m fs.FileMode) uint32 {
	kind := uint32(syscall.S_IFREG)
	switch {
	case m.IsDir():
		kind = syscall.S_IFDIR
	case m&fs.ModeSymlink != 0:
		kind = syscall.S_IFLNK
	case m&fs.ModeCharDevice != 0:
		kind = syscall.S_IFCHR
	case m&fs.ModeNamedPipe != 0:
		kind = syscall.S_IFIFO
	}
	return kind | uint32(m.Perm())
}

func kindOf(info fs.FileInfo) string {
	switch m := info.Mode(); {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeCharDevice != 0:
		return "character special file"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case info.Size() == 0:
		return "regular empty file"
	}
	return "regular file"
}

func du(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("sahkmbcd:x", "summarize=s", "all=a", "human-readable=h", "bytes=b", "total=c", "max-depth=d", "apparent-size=A")
	if err != nil {
		return c.usage(err, 1)
	}
	depth, all, total := 1<<30, false, false
	show := func(n int64) string { return strconv.FormatInt((n+1023)/1024, 10) }
	round := true
	for _, o := range opts {
		switch o.name {
		case 's':
			depth = 0
		case 'a':
			all = true
		case 'h':
			show = human
		case 'm':
			show = func(n int64) string { return strconv.FormatInt((n+1<<20-1)>>20, 10) }
		case 'b':
			round, show = false, func(n int64) string { return strconv.FormatInt(n, 10) }
		case 'c':
			total = true
		case 'd':
			if depth, err = strconv.Atoi(o.arg); err != nil || depth < 0 {
				return c.usage(fmt.Errorf("invalid maximum depth %s", quoted(o.arg)), 1)
			}
		}
	}
	if len(operands) == 0 {
		operands = []string{"."}
	}
	w := c.output()
	var walk func(name string, info fs.FileInfo, level int) int64
	walk = func(name string, info fs.FileInfo, level int) int64 {
		n := info.Size()
		if info.IsDir() {
			n = 4096
		} else if round {
			n = (n + 4095) / 4096 * 4096
		}
		if info.IsDir() && ctx.Err() == nil {
			list, _ := c.FS.ReadDir(c.path(name))
			for _, entry := range list {
				n += walk(strings.TrimSuffix(name, "/")+"/"+entry.Name(), entry, level+1)
			}
		}
		if level <= depth && (info.IsDir() || all || level == 0) {
			fmt.Fprintf(w, "%s\t%s\n", show(n), name)
		}
		return n
	}
	code, sum := 0, int64(0)
	for _, name := range operands {
		info, err := c.FS.Lstat(c.path(name))
		if err != nil {
			c.errorf("cannot access %s: %s", quoted(name), reason(err))
			code = 1
			continue
		}
		sum += walk(name, info, 0)
	}
	if total {
		fmt.Fprintf(w, "%s\ttotal\n", show(sum))
	}
	return c.flush(w, code)
}

// df tells of the sandbox's storage: what is used of its limit.
func df(_ context.Context, c *Call) int {
	opts, _, err := c.options("hkTPB:m", "human-readable=h", "print-type=T", "portability=P", "block-size=B")
	if err != nil {
		return c.usage(err, 1)
	}
	used, limit, err := c.FS.Usage()
	if err != nil {
		return c.fail(err)
	}
	show, head := func(n int64) string { return strconv.FormatInt(n/1024, 10) }, "1K-blocks"
	for _, o := range opts {
		if o.name == 'h' {
			show, head = human, "Size"
		}
	}
	free := max(0, limit-used)
	fmt.Fprintf(c.Stdout, "%-14s %10s %10s %10s %4s %s\n", "Filesystem", head, "Used", "Available", "Use%", "Mounted on")
	fmt.Fprintf(c.Stdout, "%-14s %10s %10s %10s %3d%% %s\n", "sandbox", show(limit), show(used), show(free), (used*100+limit-1)/max(limit, 1), "/mnt/data")
	return 0
}

func truncate(_ context.Context, c *Call) int {
	opts, operands, err := c.options("s:cr:", "size=s", "no-create=c", "reference=r")
	if err != nil {
		return c.usage(err, 1)
	}
	n, sign, given, create := int64(0), byte(0), false, true
	for _, o := range opts {
		switch o.name {
		case 's':
			s := o.arg
			if s != "" && strings.IndexByte("+-<>/%", s[0]) >= 0 {
				sign, s = s[0], s[1:]
			}
			if s == "" {
				return c.usage(fmt.Errorf("invalid number: %s", quoted(o.arg)), 1)
			}
			if n, err = size(s); err != nil {
				return c.usage(err, 1)
			}
			given = true
		case 'r':
			info, err := c.FS.Stat(c.path(o.arg))
			if err != nil {
				c.errorf("cannot stat %s: %s", quoted(o.arg), reason(err))
				return 1
			}
			n, given = info.Size(), true
		case 'c':
			create = false
		}
	}
	if !given || sign == '/' || sign == '%' {
		return c.usage(errors.New("you must specify a size"), 1)
	}
	code := 0
	for _, name := range operands {
		flag := syscall.O_WRONLY
		if create {
			flag |= syscall.O_CREAT
		}
		f, err := c.FS.Open(c.path(name), flag, 0o644)
		if err != nil {
			if !create && notFound(err) {
				continue
			}
			c.errorf("cannot open %s for writing: %s", quoted(name), reason(err))
			code = 1
			continue
		}
		info, err := f.Stat()
		if err == nil {
			to := n
			switch sign {
			case '+':
				to = info.Size() + n
			case '-':
				to = max(0, info.Size()-n)
			case '<':
				to = min(info.Size(), n)
			case '>':
				to = max(info.Size(), n)
			}
			err = f.Truncate(to)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			c.errorf("failed to truncate %s: %s", quoted(name), reason(err))
			code = 1
		}
	}
	return code
}

func basename(_ context.Context, c *Call) int {
	opts, operands, err := c.options("+as:z", "multiple=a", "suffix=s", "zero=z")
	if err != nil {
		return c.usage(err, 1)
	}
	several, suffix := false, ""
	for _, o := range opts {
		several = true
		if o.name == 's' {
			suffix = o.arg
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	if !several {
		if len(operands) > 2 {
			return c.usage(fmt.Errorf("extra operand %s", quoted(operands[2])), 1)
		}
		if len(operands) == 2 {
			suffix = operands[1]
		}
		operands = operands[:1]
	}
	for _, name := range operands {
		base := path.Base(name)
		if name == "" {
			base = ""
		}
		if base != suffix {
			base = strings.TrimSuffix(base, suffix)
		}
		fmt.Fprintln(c.Stdout, base)
	}
	return 0
}

func dirname(_ context.Context, c *Call) int {
	_, operands, err := c.options("z", "zero=z")
	if err != nil {
		return c.usage(err, 1)
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	for _, name := range operands {
		dir := strings.TrimRight(name, "/")
		switch i := strings.LastIndexByte(dir, '/'); {
		case dir == "" && name != "":
			dir = "/"
		case i < 0:
			dir = "."
		default:
			if dir = strings.TrimRight(dir[:i], "/"); dir == "" {
				dir = "/"
			}
		}
		fmt.Fprintln(c.Stdout, dir)
	}
	return 0
}

// fileType guesses what a file holds by its first bytes.
func fileType(_ context.Context, c *Call) int {
	opts, operands, err := c.options("bi", "brief=b", "mime=i", "mime-type=i")
	if err != nil {
		return c.usage(err, 1)
	}
	brief, mime := false, false
	for _, o := range opts {
		brief, mime = brief || o.name == 'b', mime || o.name == 'i'
	}
	for _, name := range operands {
		what := c.guess(name, mime)
		if !brief {
			what = name + ": " + what
		}
		fmt.Fprintln(c.Stdout, what)
	}
	return 0
}

func (c *Call) guess(name string, mime bool) string {
	info, err := c.FS.Lstat(c.path(name))
	switch {
	case err != nil:
		return fmt.Sprintf("cannot open `%s' (%s)", name, reason(err))
	case info.IsDir():
		return map[bool]string{true: "inode/directory", false: "directory"}[mime]
	case info.Mode()&fs.ModeSymlink != 0:
		target, _ := c.FS.Readlink(c.path(name))
		return "symbolic link to " + target
	case info.Size() == 0:
		return map[bool]string{true: "inode/x-empty", false: "empty"}[mime]
	}
	r, err := c.open(name)
	if err != nil {
		return reason(err)
	}
	defer func() { _ = r.Close() }()
	b := make([]byte, 512)
	n, _ := io.ReadFull(r, b)
	kind := http.DetectContentType(b[:n])
	if mime {
		return kind
	}
	switch {
	case strings.HasPrefix(string(b), "#!"):
		return "script, text executable"
	case strings.HasPrefix(kind, "text/plain") && utf8.Valid(b[:max(0, n-3)]):
		for _, x := range b[:n] {
			if x >= utf8.RuneSelf {
				return "UTF-8 Unicode text"
			}
		}
		return "ASCII text"
	}
	kind, _, _ = strings.Cut(kind, ";")
	return kind
}
