package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

func ln(_ context.Context, c *Call) int {
	opts, operands, err := c.options("sfnvrTt:", "symbolic=s", "force=f", "no-dereference=n", "verbose=v", "relative=r")
	if err != nil {
		return c.usage(err, 1)
	}
	set := map[byte]bool{}
	for _, o := range opts {
		set[o.name] = true
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing file operand"), 1)
	}
	if len(operands) == 1 {
		operands = append(operands, ".")
	}
	sources, last := operands[:len(operands)-1], operands[len(operands)-1]
	stat := c.FS.Stat
	if set['n'] {
		stat = c.FS.Lstat
	}
	info, err := stat(c.path(last))
	isDir := err == nil && info.IsDir() && !set['T']
	code := 0
	for _, s := range sources {
		to := c.path(last)
		if isDir {
			to = c.path(last + "/" + path.Base(s))
		}
		if set['f'] {
			_ = c.FS.Unlink(to)
		}
		var err error
		if set['s'] {
			target := s
			// A link cannot leave its directory, and so is made relative where
			// it can be.
			if path.IsAbs(target) || set['r'] {
				target = relativePath(path.Dir(to), c.path(s))
			}
			err = c.FS.Symlink(target, to)
		} else {
			err = c.FS.Link(c.path(s), to)
		}
		if err != nil {
			c.errorf("failed to create %slink %s: %s", map[bool]string{true: "symbolic ", false: "hard "}[set['s']], quoted(to), reason(err))
			code = 1
		}
	}
	return code
}

// relativePath is the way from a directory to a path; both are absolute.
func relativePath(from, to string) string {
	a, b := strings.Split(strings.Trim(from, "/"), "/"), strings.Split(strings.Trim(to, "/"), "/")
	if from == "/" {
		a = nil
	}
	for len(a) > 0 && len(b) > 1 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	return strings.Repeat("../", len(a)) + strings.Join(b, "/")
}

// resolve follows links in every component. missing tells how many of the last
// components need not exist: 0, 1, or -1 for all.
func resolve(f FS, name string, missing int) (string, error) {
	done := "/"
	todo := strings.Split(strings.Trim(name, "/"), "/")
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := f.Lstat(next)
		switch {
		case err != nil && notFound(err) && (missing < 0 || missing == 1 && len(todo) == 0):
			done = next
			continue
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		if links++; links > 40 {
			return "", syscall.ELOOP
		}
		target, err := f.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = "/"
		}
		todo = append(strings.Split(strings.Trim(target, "/"), "/"), todo...)
	}
	return done, nil
}

func realpath(_ context.Context, c *Call) int {
	opts, operands, err := c.options("emsqzR:LP", "canonicalize-existing=e", "canonicalize-missing=m", "no-symlinks=s", "strip=s", "quiet=q", "relative-to=R", "zero=z")
	if err != nil {
		return c.usage(err, 1)
	}
	missing, quiet, links, base := 1, false, true, ""
	for _, o := range opts {
		switch o.name {
		case 'e':
			missing = 0
		case 'm':
			missing = -1
		case 's':
			links = false
		case 'q':
			quiet = true
		case 'R':
			base = c.path(o.arg)
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	code := 0
	for _, name := range operands {
		p := c.path(name)
		var err error
		if links {
			p, err = resolve(c.FS, p, missing)
		}
		if err != nil {
			if !quiet {
				c.errorf("%s: %s", name, reason(err))
			}
			code = 1
			continue
		}
		if base != "" {
			if p == base {
				p = "."
			} else {
				p = relativePath(base, p)
			}
		}
		fmt.Fprintln(c.Stdout, p)
	}
	return code
}

func readlink(_ context.Context, c *Call) int {
	opts, operands, err := c.options("femnqsvz", "canonicalize=f", "canonicalize-existing=e", "canonicalize-missing=m", "no-newline=n", "quiet=q", "silent=s", "verbose=v", "zero=z")
	if err != nil {
		return c.usage(err, 1)
	}
	missing, canonical, end, verbose := 0, false, "\n", false
	for _, o := range opts {
		switch o.name {
		case 'f':
			canonical, missing = true, 1
		case 'e':
			canonical, missing = true, 0
		case 'm':
			canonical, missing = true, -1
		case 'n':
			end = ""
		case 'z':
			end = "\x00"
		case 'v':
			verbose = true
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	code := 0
	for _, name := range operands {
		var target string
		var err error
		if canonical {
			target, err = resolve(c.FS, c.path(name), missing)
		} else {
			target, err = c.FS.Readlink(c.path(name))
		}
		if err != nil {
			if verbose {
				c.errorf("%s: %s", name, reason(err))
			}
			code = 1
			continue
		}
		fmt.Fprint(c.Stdout, target, end)
	}
	return code
}
