package coreutils

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func rm(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("rRfivdI", "recursive=r", "force=f", "verbose=v", "dir=d", "interactive=i", "preserve-root=I", "no-preserve-root=I")
	if err != nil {
		return c.usage(err, 1)
	}
	var recursive, force, verbose, dirs bool
	for _, o := range opts {
		switch o.name {
		case 'r', 'R':
			recursive = true
		case 'f':
			force = true
		case 'v':
			verbose = true
		case 'd':
			dirs = true
		}
	}
	if len(operands) == 0 && !force {
		return c.usage(errors.New("missing operand"), 1)
	}
	code := 0
	for _, name := range operands {
		info, err := c.FS.Lstat(c.path(name))
		base := path.Base(name)
		switch {
		case err != nil && force && notFound(err):
			continue
		case err != nil:
		case base == "." || base == "..":
			c.errorf("refusing to remove '.' or '..' directory: skipping %s", quoted(name))
			code = 1
			continue
		case info.IsDir() && recursive:
			err = removeAll(ctx, c.FS, c.path(name))
		case info.IsDir() && dirs:
			err = c.FS.Rmdir(c.path(name))
		case info.IsDir():
			err = syscall.EISDIR
		default:
			err = c.FS.Unlink(c.path(name))
		}
		if err != nil {
			c.errorf("cannot remove %s: %s", quoted(name), reason(err))
			code = 1
		} else if verbose {
			fmt.Fprintf(c.Stdout, "removed %s\n", quoted(name))
		}
	}
	return code
}

func mkdir(_ context.Context, c *Call) int {
	opts, operands, err := c.options("pvm:", "parents=p", "verbose=v", "mode=m")
	if err != nil {
		return c.usage(err, 1)
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	parents, verbose, mode := false, false, fs.FileMode(0o755)
	for _, o := range opts {
		switch o.name {
		case 'p':
			parents = true
		case 'v':
			verbose = true
		case 'm':
			if mode, err = parseMode(o.arg, 0o777, true); err != nil {
				return c.usage(err, 1)
			}
		}
	}
	code := 0
	for _, name := range operands {
		if parents {
			if info, err := c.FS.Stat(c.path(name)); err == nil && info.IsDir() {
				continue
			}
			err = mkdirAll(c.FS, path.Dir(c.path(name)))
		} else {
			err = nil
		}
		if err == nil {
			err = c.FS.Mkdir(c.path(name), mode)
		}
		if err != nil {
			c.errorf("cannot create directory %s: %s", quoted(name), reason(err))
			code = 1
		} else if verbose {
			fmt.Fprintf(c.Stdout, "mkdir: created directory %s\n", quoted(name))
		}
	}
	return code
}

func rmdir(_ context.Context, c *Call) int {
	opts, operands, err := c.options("pv", "parents=p", "verbose=v", "ignore-fail-on-non-empty=i")
	if err != nil {
		return c.usage(err, 1)
	}
	code := 0
	for _, name := range operands {
		for at := name; ; at = path.Dir(at) {
			if err := c.FS.Rmdir(c.path(at)); err != nil {
				c.errorf("failed to remove %s: %s", quoted(at), reason(err))
				code = 1
				break
			}
			if len(opts) == 0 || opts[0].name != 'p' || path.Dir(at) == "." || path.Dir(at) == "/" {
				break
			}
		}
	}
	return code
}

func touch(_ context.Context, c *Call) int {
	opts, operands, err := c.options("camd:t:r:h", "no-create=c", "date=d", "reference=r", "time=h")
	if err != nil {
		return c.usage(err, 1)
	}
	now := time.Now()
	create, access, modify := true, true, true
	for _, o := range opts {
		switch o.name {
		case 'c':
			create = false
		case 'a':
			modify = false
		case 'm':
			access = false
		case 'd':
			if now, err = parseDate(o.arg, now, time.Local); err != nil {
				return c.usage(fmt.Errorf("invalid date format %s", quoted(o.arg)), 1)
			}
		case 't':
			if now, err = stampDate(o.arg, now); err != nil {
				return c.usage(fmt.Errorf("invalid date format %s", quoted(o.arg)), 1)
			}
		case 'r':
			info, err := c.FS.Stat(c.path(o.arg))
			if err != nil {
				c.errorf("failed to get attributes of %s: %s", quoted(o.arg), reason(err))
				return 1
			}
			now = info.ModTime()
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing file operand"), 1)
	}
	code := 0
	for _, name := range operands {
		info, err := c.FS.Stat(c.path(name))
		if notFound(err) {
			if !create {
				continue
			}
			var f File
			if f, err = c.FS.Open(c.path(name), syscall.O_WRONLY|syscall.O_CREAT, 0o644); err == nil {
				err = f.Close()
			}
		}
		if err == nil {
			a, m := now, now
			if info != nil && !modify {
				m = info.ModTime()
			}
			if info != nil && !access {
				a = detailsOf(info).Accessed
			}
			err = c.FS.Chtimes(c.path(name), a, m)
		}
		if err != nil {
			c.errorf("cannot touch %s: %s", quoted(name), reason(err))
			code = 1
		}
	}
	return code
}

// stampDate reads [[CC]YY]MMDDhhmm[.ss].
func stampDate(s string, now time.Time) (time.Time, error) {
	main, seconds, _ := strings.Cut(s, ".")
	if seconds == "" {
		seconds = "00"
	}
	switch len(main) {
	case 8:
		main = strconv.Itoa(now.Year()) + main
	case 10:
		main = "20" + main
	}
	return time.ParseInLocation("200601021504.05", main+"."+seconds, time.Local)
}

func mktemp(_ context.Context, c *Call) int {
	opts, operands, err := c.options("dp:tuqs:", "directory=d", "tmpdir=p", "dry-run=u", "quiet=q", "suffix=s")
	if err != nil {
		return c.usage(err, 1)
	}
	dir, suffix, isDir, dry, inTmp := "", "", false, false, len(operands) == 0
	for _, o := range opts {
		switch o.name {
		case 'd':
			isDir = true
		case 'p':
			dir = o.arg
		case 't':
			inTmp = true
		case 'u':
			dry = true
		case 's':
			suffix = o.arg
		}
	}
	template := "tmp.XXXXXXXXXX"
	if len(operands) > 0 {
		template = operands[0]
	}
	if inTmp && dir == "" {
		if dir = c.Env["TMPDIR"]; dir == "" {
			dir = "/tmp"
		}
	}
	end := strings.LastIndex(template, "XXX") + 3
	start := end
	for start > 0 && template[start-1] == 'X' {
		start--
	}
	if end < 3 || end-start < 3 {
		return c.usage(fmt.Errorf("too few X's in template %s", quoted(template)), 1)
	}
	suffix = template[end:] + suffix
	for range 100 {
		name := template[:start] + rand.Text()[:min(end-start, 26)] + suffix
		if dir != "" {
			name = strings.TrimSuffix(dir, "/") + "/" + name
		}
		var err error
		switch {
		case dry:
		case isDir:
			err = c.FS.Mkdir(c.path(name), 0o700)
		default:
			var f File
			if f, err = c.FS.Open(c.path(name), syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL, 0o600); err == nil {
				err = f.Close()
			}
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			c.errorf("failed to create %s via template %s: %s", map[bool]string{true: "directory", false: "file"}[isDir], quoted(template), reason(err))
			return 1
		}
		fmt.Fprintln(c.Stdout, name)
		return 0
	}
	return c.fail(fs.ErrExist)
}
