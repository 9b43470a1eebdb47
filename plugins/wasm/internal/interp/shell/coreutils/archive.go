package coreutils

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// archiving is what tar is asked for.
type archiving struct {
	*Call
	mode             byte // c, x, t, r
	file             string
	gzip, bzip, auto bool
	verbose, keep    bool
	toStdout         bool
	dir              string
	strip            int
	exclude          []string
	wanted           []string
	seen             map[string]bool
}

func tarCommand(ctx context.Context, c *Call) int {
	// The first word may be options without a dash.
	if len(c.Argv) > 1 && c.Argv[1] != "" && c.Argv[1][0] != '-' {
		c.Argv = oldOptions(c.Argv)
	}
	opts, operands, err := c.options("cxtruf:zjJavkOpC:T:X:S:hm", "create=c", "extract=x", "get=x", "list=t", "file=f", "gzip=z", "gunzip=z", "bzip2=j", "xz=J", "auto-compress=a", "verbose=v", "keep-old-files=k", "to-stdout=O", "preserve-permissions=p", "directory=C", "files-from=T", "exclude=X", "strip-components=S", "no-same-owner=h", "no-same-permissions=h", "dereference=h", "touch=m", "overwrite=m", "numeric-owner=h")
	if err != nil {
		return c.usage(err, 64)
	}
	a := archiving{Call: c, file: "-", dir: c.Dir, seen: map[string]bool{}}
	for _, o := range opts {
		switch o.name {
		case 'c', 'x', 't':
			a.mode = o.name
		case 'r', 'u':
			return c.usage(fmt.Errorf("option -%c is not available", o.name), 2)
		case 'f':
			a.file = o.arg
		case 'z':
			a.gzip = true
		case 'j':
			a.bzip = true
		case 'J':
			return c.usage(errors.New("xz is not available: use gzip"), 2)
		case 'a':
			a.auto = true
		case 'v':
			a.verbose = true
		case 'k':
			a.keep = true
		case 'O':
			a.toStdout = true
		case 'C':
			a.dir = c.path(o.arg)
		case 'X':
			a.exclude = append(a.exclude, o.arg)
		case 'S':
			if a.strip, err = strconv.Atoi(o.arg); err != nil || a.strip < 0 {
				return c.usage(fmt.Errorf("invalid number of elements %s", quoted(o.arg)), 2)
			}
		case 'T':
			list, err := c.lineList(ctx, o.arg)
			if err != nil {
				c.errorf("%s: %s", o.arg, reason(err))
				return 2
			}
			operands = append(operands, list...)
		}
	}
	a.wanted = operands
	switch a.mode {
	case 'c':
		err = a.create(ctx)
	case 'x', 't':
		err = a.read(ctx)
	default:
		err = errors.New("you must specify one of the '-ctx' options")
	}
	if err != nil {
		if broken(err) {
			return codePipe
		}
		c.errorf("%s", reason(err))
		return 2
	}
	return 0
}

// oldOptions turns "tar xzf file" into "tar -x -z -f file".
func oldOptions(argv []string) []string {
	out, rest := []string{argv[0]}, argv[2:]
	for _, r := range argv[1] {
		out = append(out, "-"+string(r))
		if strings.ContainsRune("fCTX", r) && len(rest) > 0 {
			out, rest = append(out, rest[0]), rest[1:]
		}
	}
	return append(out, rest...)
}

func (a *archiving) create(ctx context.Context) (err error) {
	if len(a.wanted) == 0 {
		return errors.New("cowardly refusing to create an empty archive")
	}
	out := a.Stdout
	list := a.Stdout
	if a.file != "-" {
		f, err := a.Call.create(a.file)
		if err != nil {
			return fmt.Errorf("%s: cannot open: %s", a.file, reason(err))
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	} else {
		list = a.Stderr
	}
	if a.bzip || a.auto && strings.HasSuffix(a.file, "bz2") {
		return errors.New("bzip2 can only be read: use gzip")
	}
	buffered := bufio.NewWriterSize(out, 64<<10)
	defer func() { err = errors.Join(err, buffered.Flush()) }()
	out = buffered
	if a.gzip || a.auto && (strings.HasSuffix(a.file, ".gz") || strings.HasSuffix(a.file, ".tgz")) {
		z := gzip.NewWriter(out)
		defer func() { err = errors.Join(err, z.Close()) }()
		out = z
	}
	w := tar.NewWriter(out)
	var self string
	if a.file != "-" {
		self = a.path(a.file)
	}
	for _, name := range a.wanted {
		if err := a.add(ctx, w, list, name, self); err != nil {
			return err
		}
	}
	return w.Close()
}

// inDir makes a name absolute below -C.
func (a *archiving) inDir(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Clean(a.dir + "/" + name)
}

func (a *archiving) add(ctx context.Context, w *tar.Writer, list io.Writer, name, self string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := a.inDir(name)
	if at == self || globAny(a.exclude, name) || globAny(a.exclude, path.Base(name)) {
		return nil
	}
	info, err := a.FS.Lstat(at)
	if err != nil {
		return fmt.Errorf("%s: cannot stat: %s", name, reason(err))
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		link, _ = a.FS.Readlink(at)
	}
	h := &tar.Header{
		Name: strings.TrimLeft(path.Clean(name), "/"), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second),
		Uid: 1000, Gid: 1000, Uname: "sandbox", Gname: "sandbox", Typeflag: tar.TypeReg, Linkname: link,
	}
	if strings.HasPrefix(name, "./") {
		h.Name = "./" + h.Name
	}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(h.Name, "/")+"/"
		if name == "." {
			h.Name = "./"
		}
	case link != "":
		h.Typeflag = tar.TypeSymlink
	case info.Mode().IsRegular():
		h.Size = info.Size()
	default:
		return nil
	}
	if a.verbose {
		fmt.Fprintln(list, h.Name)
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeReg {
		r, err := a.FS.Open(at, syscall.O_RDONLY, 0)
		if err != nil {
			return fmt.Errorf("%s: cannot open: %s", name, reason(err))
		}
		_, err = io.CopyN(w, r, h.Size)
		_ = r.Close()
		if err != nil {
			return fmt.Errorf("%s: file changed as we read it", name)
		}
	}
	if !info.IsDir() {
		return nil
	}
	entries, err := a.FS.ReadDir(at)
	if err != nil {
		return fmt.Errorf("%s: cannot open: %s", name, reason(err))
	}
	for _, e := range entries {
		if err := a.add(ctx, w, list, strings.TrimSuffix(name, "/")+"/"+e.Name(), self); err != nil {
			return err
		}
	}
	return nil
}

// decompressed recognises compression by its first bytes, as tar does.
func decompressed(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	magic, _ := b.Peek(6)
	switch s := string(magic); {
	case strings.HasPrefix(s, "\x1f\x8b"):
		return gzip.NewReader(b)
	case strings.HasPrefix(s, "BZh"):
		return bzip2.NewReader(b), nil
	case strings.HasPrefix(s, "\xfd7zXZ"):
		return nil, errors.New("xz is not available")
	case strings.HasPrefix(s, "\x28\xb5\x2f\xfd"):
		return nil, errors.New("zstd is not available")
	}
	return b, nil
}

func (a *archiving) read(ctx context.Context) error {
	in := a.Stdin
	if a.file != "-" {
		f, err := a.open(a.file)
		if err != nil {
			return fmt.Errorf("%s: cannot open: %s", a.file, reason(err))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	in, err := decompressed(in)
	if err != nil {
		return err
	}
	w := a.output()
	r := tar.NewReader(in)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			_ = w.Flush()
			return fmt.Errorf("this does not look like a tar archive: %w", err)
		}
		if !a.wants(h.Name) {
			continue
		}
		if a.mode == 't' {
			a.list(w, h)
			continue
		}
		if a.verbose {
			fmt.Fprintln(w, h.Name)
		}
		if a.toStdout {
			if h.Typeflag == tar.TypeReg {
				if _, err := io.Copy(w, r); err != nil {
					return err
				}
			}
			continue
		}
		if err := a.extract(h, r); err != nil {
			_ = w.Flush()
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, name := range a.wanted {
		if !a.seen[name] {
			return fmt.Errorf("%s: not found in archive", name)
		}
	}
	return nil
}

func (a *archiving) wants(name string) bool {
	if globAny(a.exclude, strings.TrimSuffix(name, "/")) || globAny(a.exclude, path.Base(name)) {
		return false
	}
	if len(a.wanted) == 0 {
		return true
	}
	i := slices.IndexFunc(a.wanted, func(w string) bool {
		w = strings.TrimSuffix(w, "/")
		return name == w || strings.HasPrefix(name, w+"/")
	})
	if i < 0 {
		return false
	}
	a.seen[a.wanted[i]] = true
	return true
}

func (a *archiving) list(w *bufio.Writer, h *tar.Header) {
	if a.verbose {
		fmt.Fprintf(w, "%s %s/%s %9d %s ", modeString(h.FileInfo().Mode()), h.Uname, h.Gname, h.Size, h.ModTime.Format("2006-01-02 15:04"))
	}
	w.WriteString(h.Name)
	if h.Linkname != "" && a.verbose {
		w.WriteString(" -> " + h.Linkname)
	}
	w.WriteByte('\n')
}

// extract makes one member. Names that lead elsewhere are refused here, links
// that do by the file system.
func (a *archiving) extract(h *tar.Header, r io.Reader) error {
	name, err := memberName(h.Name)
	if err != nil {
		return err
	}
	parts := strings.Split(name, "/")
	if name == "." || len(parts) <= a.strip {
		return nil
	}
	at := path.Join(a.dir, path.Join(parts[a.strip:]...))
	mode := fs.FileMode(h.Mode).Perm()
	if h.Typeflag == tar.TypeDir {
		if err := mkdirAll(a.FS, at); err != nil {
			return fmt.Errorf("%s: cannot mkdir: %s", h.Name, reason(err))
		}
		return nil
	}
	if err := mkdirAll(a.FS, path.Dir(at)); err != nil {
		return fmt.Errorf("%s: cannot open: %s", h.Name, reason(err))
	}
	if _, err := a.FS.Lstat(at); err == nil {
		if a.keep {
			return fmt.Errorf("%s: cannot open: File exists", h.Name)
		}
		_ = a.FS.Unlink(at)
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		if err := a.FS.Symlink(h.Linkname, at); err != nil {
			return fmt.Errorf("%s: cannot create symlink to %s: %s", h.Name, quoted(h.Linkname), reason(err))
		}
		return nil
	case tar.TypeLink:
		target, err := memberName(h.Linkname)
		if err == nil {
			err = a.FS.Link(path.Join(a.dir, target), at)
		}
		if err != nil {
			return fmt.Errorf("%s: cannot hard link to %s: %s", h.Name, quoted(h.Linkname), reason(err))
		}
		return nil
	case tar.TypeReg:
		return writeMember(a.FS, at, mode, h.ModTime, r)
	}
	a.errorf("%s: special files are not extracted", h.Name)
	return nil
}

// memberName cleans the name of an archive's member, and refuses one that leads
// out of the directory.
func memberName(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%s: member name contains '..'", name)
	}
	return clean, nil
}
