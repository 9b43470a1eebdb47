package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

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
