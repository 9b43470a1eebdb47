package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// transfer is what cp, mv and install are asked for.
type transfer struct {
	*Call
	recursive, preserve, noClobber, update, verbose, follow, link, symlink bool
	target                                                                 string
	noTarget, parents                                                      bool
	mode                                                                   fs.FileMode
}

// targets pairs sources with where they go.
func (t *transfer) targets(operands []string) (pairs [][2]string, err error) {
	if t.target != "" {
		operands = append(operands, t.target)
	}
	switch len(operands) {
	case 0:
		return nil, errors.New("missing file operand")
	case 1:
		return nil, fmt.Errorf("missing destination file operand after %s", quoted(operands[0]))
	}
	sources, last := operands[:len(operands)-1], operands[len(operands)-1]
	info, err := t.FS.Stat(t.path(last))
	isDir := err == nil && info.IsDir() && !t.noTarget
	if !isDir && (len(sources) > 1 || t.target != "") {
		return nil, fmt.Errorf("target %s: %s", quoted(last), map[bool]string{true: "No such file or directory", false: "Not a directory"}[err != nil])
	}
	if !isDir && strings.HasSuffix(last, "/") && err != nil {
		if info, err := t.FS.Stat(t.path(sources[0])); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("cannot create regular file %s: Not a directory", quoted(last))
		}
	}
	for _, s := range sources {
		to := last
		if isDir {
			name := path.Base(t.path(s))
			if t.parents {
				name = strings.TrimLeft(s, "/")
			}
			to = strings.TrimSuffix(last, "/") + "/" + name
		}
		pairs = append(pairs, [2]string{s, to})
	}
	return pairs, nil
}

func cp(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("rRapfinuvLPdHlst:TbxD", "recursive=r", "archive=a", "force=f", "no-clobber=n", "update=u", "verbose=v", "dereference=L", "no-dereference=P", "target-directory=t", "no-target-directory=T", "preserve=p", "link=l", "symbolic-link=s", "parents=D")
	if err != nil {
		return c.usage(err, 1)
	}
	t := transfer{Call: c, follow: true}
	for _, o := range opts {
		switch o.name {
		case 'r', 'R':
			t.recursive, t.follow = true, false
		case 'a':
			t.recursive, t.preserve, t.follow = true, true, false
		case 'p':
			t.preserve = true
		case 'n':
			t.noClobber = true
		case 'u':
			t.update = true
		case 'v':
			t.verbose = true
		case 'L':
			t.follow = true
		case 'P', 'd':
			t.follow = false
		case 'l':
			t.link = true
		case 's':
			t.symlink = true
		case 't':
			t.target = o.arg
		case 'T':
			t.noTarget = true
		case 'D':
			t.parents = true
		}
	}
	pairs, err := t.targets(operands)
	if err != nil {
		return c.usage(err, 1)
	}
	code := 0
	for _, p := range pairs {
		if t.parents {
			_ = mkdirAll(c.FS, path.Dir(c.path(p[1])))
		}
		if err := t.copy(ctx, p[0], p[1]); err != nil {
			c.errorf("%v", err)
			code = 1
		}
	}
	return code
}

// copy copies one file or directory.
func (t *transfer) copy(ctx context.Context, from, to string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stat := t.FS.Lstat
	if t.follow {
		stat = t.FS.Stat
	}
	info, err := stat(t.path(from))
	if err != nil {
		return fmt.Errorf("cannot stat %s: %s", quoted(from), reason(err))
	}
	old, oldErr := t.FS.Stat(t.path(to))
	if oldErr == nil {
		if t.path(from) == t.path(to) || inodeOf(old) != 0 && inodeOf(old) == inodeOf(info) && !info.IsDir() && info.Mode()&fs.ModeSymlink == 0 {
			return fmt.Errorf("%s and %s are the same file", quoted(from), quoted(to))
		}
		if !info.IsDir() && (t.noClobber || t.update && !info.ModTime().After(old.ModTime())) {
			return nil
		}
	}
	if t.verbose && !info.IsDir() {
		fmt.Fprintf(t.Stdout, "%s -> %s\n", quoted(from), quoted(to))
	}
	switch {
	case info.IsDir():
		return t.copyDir(ctx, from, to, info, old)
	case info.Mode()&fs.ModeSymlink != 0 || t.symlink:
		target := from
		if !t.symlink {
			if target, err = t.FS.Readlink(t.path(from)); err != nil {
				return fmt.Errorf("cannot read symbolic link %s: %s", quoted(from), reason(err))
			}
		}
		_ = t.FS.Unlink(t.path(to))
		if err := t.FS.Symlink(target, t.path(to)); err != nil {
			return fmt.Errorf("cannot create symbolic link %s: %s", quoted(to), reason(err))
		}
		return nil
	case t.link:
		if err := t.FS.Link(t.path(from), t.path(to)); err != nil {
			return fmt.Errorf("cannot create hard link %s to %s: %s", quoted(to), quoted(from), reason(err))
		}
		return nil
	}
	return t.copyFile(from, to, info, old)
}

func (t *transfer) copyDir(ctx context.Context, from, to string, info, old fs.FileInfo) error {
	if !t.recursive {
		return fmt.Errorf("-r not specified; omitting directory %s", quoted(from))
	}
	if inner := t.path(to) + "/"; strings.HasPrefix(inner, t.path(from)+"/") {
		return fmt.Errorf("cannot copy a directory, %s, into itself, %s", quoted(from), quoted(to))
	}
	if old != nil && !old.IsDir() {
		return fmt.Errorf("cannot overwrite non-directory %s with directory %s", quoted(to), quoted(from))
	}
	if old == nil {
		if t.verbose {
			fmt.Fprintf(t.Stdout, "%s -> %s\n", quoted(from), quoted(to))
		}
		if err := t.FS.Mkdir(t.path(to), info.Mode().Perm()); err != nil {
			return fmt.Errorf("cannot create directory %s: %s", quoted(to), reason(err))
		}
	}
	list, err := t.FS.ReadDir(t.path(from))
	if err != nil {
		return fmt.Errorf("cannot access %s: %s", quoted(from), reason(err))
	}
	var errs []error
	for _, entry := range list {
		errs = append(errs, t.copy(ctx, strings.TrimSuffix(from, "/")+"/"+entry.Name(), strings.TrimSuffix(to, "/")+"/"+entry.Name()))
	}
	if t.preserve {
		_ = t.FS.Chtimes(t.path(to), info.ModTime(), info.ModTime())
	}
	return errors.Join(errs...)
}

func (t *transfer) copyFile(from, to string, info, old fs.FileInfo) (err error) {
	if old != nil && old.IsDir() {
		return fmt.Errorf("cannot overwrite directory %s with non-directory", quoted(to))
	}
	r, err := t.FS.Open(t.path(from), syscall.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot open %s for reading: %s", quoted(from), reason(err))
	}
	defer func() { _ = r.Close() }()
	w, err := t.FS.Open(t.path(to), openWrite, info.Mode().Perm())
	if err != nil {
		return fmt.Errorf("cannot create regular file %s: %s", quoted(to), reason(err))
	}
	_, err = io.Copy(w, r)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("error writing %s: %s", quoted(to), reason(err))
	}
	if t.mode != 0 {
		_ = t.FS.Chmod(t.path(to), t.mode)
	}
	if t.preserve {
		_ = t.FS.Chtimes(t.path(to), info.ModTime(), info.ModTime())
	}
	return nil
}

func mv(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("finuvt:Tb", "force=f", "no-clobber=n", "update=u", "verbose=v", "target-directory=t", "no-target-directory=T")
	if err != nil {
		return c.usage(err, 1)
	}
	t := transfer{Call: c, recursive: true, preserve: true}
	for _, o := range opts {
		switch o.name {
		case 'n':
			t.noClobber = true
		case 'u':
			t.update = true
		case 'v':
			t.verbose = true
		case 't':
			t.target = o.arg
		case 'T':
			t.noTarget = true
		}
	}
	pairs, err := t.targets(operands)
	if err != nil {
		return c.usage(err, 1)
	}
	code := 0
	for _, p := range pairs {
		if err := t.move(ctx, p[0], p[1]); err != nil {
			c.errorf("%v", err)
			code = 1
		}
	}
	return code
}

func (t *transfer) move(ctx context.Context, from, to string) error {
	info, err := t.FS.Lstat(t.path(from))
	if err != nil {
		return fmt.Errorf("cannot stat %s: %s", quoted(from), reason(err))
	}
	old, oldErr := t.FS.Lstat(t.path(to))
	switch {
	case oldErr == nil && t.path(from) == t.path(to):
		return fmt.Errorf("%s and %s are the same file", quoted(from), quoted(to))
	case info.IsDir() && strings.HasPrefix(t.path(to)+"/", t.path(from)+"/"):
		return fmt.Errorf("cannot move %s to a subdirectory of itself, %s", quoted(from), quoted(to))
	case oldErr == nil && (t.noClobber || t.update && !info.ModTime().After(old.ModTime())):
		return nil
	case oldErr == nil && old.IsDir() && !info.IsDir():
		return fmt.Errorf("cannot overwrite directory %s with non-directory", quoted(to))
	case oldErr == nil && !old.IsDir() && info.IsDir():
		return fmt.Errorf("cannot overwrite non-directory %s with directory %s", quoted(to), quoted(from))
	}
	err = t.FS.Rename(t.path(from), t.path(to))
	if errors.Is(err, syscall.EXDEV) {
		verbose := t.verbose
		t.verbose = false
		if err = t.copy(ctx, from, to); err == nil {
			err = removeAll(ctx, t.FS, t.path(from))
		}
		t.verbose = verbose
	}
	if err != nil {
		return fmt.Errorf("cannot move %s to %s: %s", quoted(from), quoted(to), reason(err))
	}
	if t.verbose {
		fmt.Fprintf(t.Stdout, "renamed %s -> %s\n", quoted(from), quoted(to))
	}
	return nil
}

// install copies files and sets their mode, or makes directories with -d.
func install(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("dm:Dvt:pTo:g:", "directory=d", "mode=m", "verbose=v", "target-directory=t", "preserve-timestamps=p")
	if err != nil {
		return c.usage(err, 1)
	}
	t := transfer{Call: c, follow: true, mode: 0o755}
	dirs, parents := false, false
	for _, o := range opts {
		switch o.name {
		case 'd':
			dirs = true
		case 'D':
			parents = true
		case 'm':
			if t.mode, err = parseMode(o.arg, 0, false); err != nil {
				return c.usage(err, 1)
			}
		case 't':
			t.target = o.arg
		case 'p':
			t.preserve = true
		case 'v':
			t.verbose = true
		}
	}
	code := 0
	if dirs {
		for _, name := range operands {
			if err := mkdirAll(c.FS, c.path(name)); err != nil {
				c.errorf("cannot create directory %s: %s", quoted(name), reason(err))
				code = 1
			}
		}
		return code
	}
	if parents && t.target == "" && len(operands) == 2 {
		_ = mkdirAll(c.FS, path.Dir(c.path(operands[1])))
	}
	pairs, err := t.targets(operands)
	if err != nil {
		return c.usage(err, 1)
	}
	for _, p := range pairs {
		if err := t.copy(ctx, p[0], p[1]); err != nil {
			c.errorf("%v", err)
			code = 1
		}
	}
	return code
}

// removeAll removes a tree.
func removeAll(ctx context.Context, f FS, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := f.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return f.Unlink(name)
	}
	list, err := f.ReadDir(name)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if err := removeAll(ctx, f, name+"/"+entry.Name()); err != nil && !notFound(err) {
			return err
		}
	}
	return f.Rmdir(name)
}

// mkdirAll makes a directory and those above it.
func mkdirAll(f FS, name string) error {
	info, err := f.Stat(name)
	if err == nil {
		if !info.IsDir() {
			return syscall.ENOTDIR
		}
		return nil
	}
	if name != "/" {
		if err := mkdirAll(f, path.Dir(name)); err != nil {
			return err
		}
	}
	if err := f.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
