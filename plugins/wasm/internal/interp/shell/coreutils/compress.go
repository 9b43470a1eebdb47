package coreutils

import (
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
)

// writeMember writes a file of an archive.
func writeMember(f FS, at string, mode fs.FileMode, modified time.Time, r io.Reader) error {
	w, err := f.Open(at, openWrite, mode)
	if err != nil {
		return fmt.Errorf("%s: cannot open: %s", path.Base(at), reason(err))
	}
	_, err = io.Copy(w, r)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("%s: cannot write: %s", path.Base(at), reason(err))
	}
	if !modified.IsZero() {
		_ = f.Chtimes(at, modified, modified)
	}
	return nil
}

// gzipFiles is gzip, gunzip and zcat, and what reads bzip2.
func gzipFiles(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("cdfknqrtv123456789S:", "stdout=c", "to-stdout=c", "decompress=d", "uncompress=d", "force=f", "keep=k", "no-name=n", "quiet=q", "test=t", "verbose=v", "fast=1", "best=9")
	if err != nil {
		return c.usage(err, 1)
	}
	name := c.name()
	bzip := strings.HasPrefix(name, "b")
	decompress, stdout := name != "gzip", strings.HasSuffix(name, "cat")
	force, keep, test, level := false, false, false, gzip.DefaultCompression
	for _, o := range opts {
		switch o.name {
		case 'c':
			stdout = true
		case 'd':
			decompress = true
		case 'f':
			force = true
		case 'k':
			keep = true
		case 't':
			test, decompress = true, true
		default:
			if isDigit(o.name) {
				level = int(o.name - '0')
			}
		}
	}
	convert := func(w io.Writer, r io.Reader) error {
		switch {
		case bzip:
			_, err := io.Copy(w, bzip2.NewReader(r))
			return err
		case decompress:
			z, err := gzip.NewReader(r)
			if err != nil {
				return errors.New("not in gzip format")
			}
			_, err = io.Copy(w, z)
			return err
		}
		z, _ := gzip.NewWriterLevel(w, level)
		_, err := io.Copy(z, r)
		return errors.Join(err, z.Close())
	}
	if test {
		return c.inputs(ctx, operands, func(_ string, r io.Reader) error { return convert(io.Discard, r) })
	}
	if len(operands) == 0 || stdout {
		w := c.output()
		code := c.inputs(ctx, operands, func(_ string, r io.Reader) error { return convert(w, r) })
		return c.flush(w, code)
	}
	code := 0
	suffix := map[bool]string{true: ".bz2", false: ".gz"}[bzip]
	for _, name := range operands {
		to := name + suffix
		if decompress {
			switch {
			case strings.HasSuffix(name, suffix):
				to = strings.TrimSuffix(name, suffix)
			case strings.HasSuffix(name, ".tgz"):
				to = strings.TrimSuffix(name, ".tgz") + ".tar"
			default:
				c.errorf("%s: unknown suffix -- ignored", name)
				code = 2
				continue
			}
		}
		if err := c.convertFile(name, to, force, keep, convert); err != nil {
			c.errorf("%s: %s", name, reason(err))
			code = 1
		}
	}
	return code
}

// convertFile replaces a file by another that is made of it.
func (c *Call) convertFile(from, to string, force, keep bool, convert func(io.Writer, io.Reader) error) error {
	r, err := c.open(from)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	info, err := c.FS.Stat(c.path(from))
	if err != nil {
		return err
	}
	flag := openWrite
	if !force {
		flag |= syscall.O_EXCL
	}
	w, err := c.FS.Open(c.path(to), flag, info.Mode().Perm())
	if err != nil {
		return err
	}
	if err := errors.Join(convert(w, r), w.Close()); err != nil {
		_ = c.FS.Unlink(c.path(to))
		return err
	}
	_ = c.FS.Chtimes(c.path(to), info.ModTime(), info.ModTime())
	if keep {
		return nil
	}
	return c.FS.Unlink(c.path(from))
}

func zipCommand(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("rqj0123456789x:", "recurse-paths=r", "quiet=q", "junk-paths=j")
	if err != nil {
		return c.usage(err, 16)
	}
	recursive, quiet, junk := false, false, false
	for _, o := range opts {
		recursive, quiet, junk = recursive || o.name == 'r', quiet || o.name == 'q', junk || o.name == 'j'
	}
	if len(operands) < 2 {
		return c.usage(errors.New("an archive and files are needed"), 16)
	}
	target := operands[0]
	if path.Ext(target) == "" {
		target += ".zip"
	}
	f, err := c.create(target)
	if err != nil {
		c.errorf("%s: %s", target, reason(err))
		return 15
	}
	w := zip.NewWriter(f)
	var add func(name string) error
	add = func(name string) error {
		info, err := c.FS.Stat(c.path(name))
		if err != nil || c.path(name) == c.path(target) {
			return err
		}
		h, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		h.Name, h.Method = strings.TrimLeft(path.Clean(name), "/"), zip.Deflate
		if junk {
			h.Name = path.Base(name)
		}
		if info.IsDir() {
			h.Name, h.Method = h.Name+"/", zip.Store
			if !junk && h.Name != "./" {
				if _, err := w.CreateHeader(h); err != nil {
					return err
				}
			}
			if !recursive {
				return nil
			}
			list, err := c.FS.ReadDir(c.path(name))
			for _, e := range list {
				if err == nil && ctx.Err() == nil {
					err = add(path.Join(name, e.Name()))
				}
			}
			return err
		}
		out, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		r, err := c.open(name)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		if !quiet {
			fmt.Fprintf(c.Stdout, "  adding: %s\n", h.Name)
		}
		_, err = io.Copy(out, r)
		return err
	}
	code := 0
	for _, name := range operands[1:] {
		if err := add(name); err != nil {
			c.errorf("%s: %s", name, reason(err))
			code = 18
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		return c.fail(err)
	}
	return code
}

// maxZip bounds an archive that unzip reads, in bytes: it is read as a whole.
const maxZip = 128 << 20

func unzip(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("lpqond:j", "list=l")
	if err != nil {
		return c.usage(err, 10)
	}
	var list, pipe, quiet, never, junk bool
	dir := c.Dir
	for _, o := range opts {
		switch o.name {
		case 'l':
			list = true
		case 'p':
			pipe = true
		case 'q':
			quiet = true
		case 'n':
			never = true
		case 'j':
			junk = true
		case 'd':
			dir = c.path(o.arg)
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("an archive is needed"), 10)
	}
	r, err := c.open(operands[0])
	if err != nil {
		c.errorf("cannot find or open %s", operands[0])
		return 9
	}
	b, err := io.ReadAll(io.LimitReader(r, maxZip+1))
	_ = r.Close()
	if err == nil && len(b) > maxZip {
		err = fmt.Errorf("the archive has more than %d bytes", maxZip)
	}
	if err != nil {
		return c.fail(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		c.errorf("%s is no zip archive", operands[0])
		return 9
	}
	w := c.output()
	total := uint64(0)
	if list {
		fmt.Fprintf(w, "Archive:  %s\n  Length      Date    Time    Name\n---------  ---------- -----   ----\n", operands[0])
	} else if !quiet && !pipe {
		fmt.Fprintf(w, "Archive:  %s\n", operands[0])
	}
	code := 0
	for _, f := range z.File {
		if ctx.Err() != nil {
			return 1
		}
		if len(operands) > 1 && !globAny(operands[1:], f.Name) {
			continue
		}
		if list {
			fmt.Fprintf(w, "%9d  %s   %s\n", f.UncompressedSize64, f.Modified.Format("2006-01-02 15:04"), f.Name)
			total += f.UncompressedSize64
			continue
		}
		if err := c.unzipFile(w, f, dir, pipe, never, junk, quiet); err != nil {
			c.errorf("%s: %s", f.Name, reason(err))
			code = 1
		}
	}
	if list {
		fmt.Fprintf(w, "---------                     -------\n%9d                     %d files\n", total, len(z.File))
	}
	return c.flush(w, code)
}

func (c *Call) unzipFile(w io.Writer, f *zip.File, dir string, pipe, never, junk, quiet bool) error {
	name, err := memberName(f.Name)
	if err != nil {
		return err
	}
	if junk {
		name = path.Base(name)
	}
	at := path.Join(dir, name)
	if f.FileInfo().IsDir() {
		if pipe || junk {
			return nil
		}
		return mkdirAll(c.FS, at)
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if pipe {
		_, err := io.Copy(w, r)
		return err
	}
	if !f.Mode().IsRegular() {
		return errors.New("special files and links are not extracted")
	}
	if _, err := c.FS.Lstat(at); err == nil && never {
		return nil
	}
	if err := mkdirAll(c.FS, path.Dir(at)); err != nil {
		return err
	}
	if !quiet {
		fmt.Fprintf(w, "  inflating: %s\n", name)
	}
	return writeMember(c.FS, at, f.Mode().Perm(), f.Modified, r)
}
