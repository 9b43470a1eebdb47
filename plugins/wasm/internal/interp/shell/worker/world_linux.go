package worker

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/coreutils"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// world is the tree that a script sees: the client's directories, devices, and
// directories in which commands seem to be.
type world struct {
	*client
	// command tells whether there is a command of that name outside of the
	// shell.
	command func(name string) bool
	names   func() []string
}

// streams are what /dev/stdin and its kin stand for.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// binDirs are where commands seem to be; the first is what "which" says.
var binDirs = []string{"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin"}

// parents are directories that only lead to others.
var parents = map[string][]string{
	"/":          {"bin", "dev", "mnt", "run", "sbin", "tmp", "usr"},
	"/mnt":       {"data"},
	"/run":       {"caisson"},
	"/usr":       {"bin", "local", "sbin"},
	"/usr/local": {"bin"},
	"/dev":       {"fd", "full", "null", "random", "stderr", "stdin", "stdout", "urandom", "zero"},
	"/dev/fd":    {"0", "1", "2"},
}

// device returns the canonical name of a device, empty if it is none.
func device(name string) string {
	rest, ok := strings.CutPrefix(name, "/dev/")
	if !ok {
		return ""
	}
	switch rest {
	case "null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr":
		return rest
	case "fd/0":
		return "stdin"
	case "fd/1":
		return "stdout"
	case "fd/2":
		return "stderr"
	}
	return ""
}

// commandAt returns the command that a path in one of binDirs names.
func (w *world) commandAt(name string) (string, bool) {
	dir, base := path.Split(name)
	if !slices.Contains(binDirs, path.Clean(dir)) || !w.command(base) {
		return "", false
	}
	return base, true
}

// pipe tells whether name is a named pipe of a process substitution.
func pipe(name string) bool {
	rest, ok := strings.CutPrefix(name, pipesDir+"/sh-interp-")
	return ok && !strings.Contains(rest, "/")
}

func made(name string, mode fs.FileMode) fs.FileInfo {
	return newInfo(wire.Entry{Name: path.Base(name), Mode: uint32(mode), Links: 1})
}

// Stat describes a file.
func (w *world) Stat(name string) (fs.FileInfo, error) {
	switch {
	case device(name) != "":
		return made(name, fs.ModeDevice|fs.ModeCharDevice|0o666), nil
	case pipe(name):
		return made(name, fs.ModeNamedPipe|0o600), nil
	}
	if _, ok := w.commandAt(name); ok {
		return made(name, 0o755), nil
	}
	if _, ok := parents[name]; ok || slices.Contains(binDirs, name) {
		return made(name, fs.ModeDir|0o755), nil
	}
	return w.client.Stat(name)
}

// Lstat describes a file or link.
func (w *world) Lstat(name string) (fs.FileInfo, error) {
	info, err := w.client.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return w.Stat(name)
	}
	return info, err
}

// ReadDir lists a directory in the order of names.
func (w *world) ReadDir(name string) (list []fs.FileInfo, err error) {
	switch children, ok := parents[name]; {
	case ok:
		for _, child := range children {
			if info, err := w.Stat(path.Join(name, child)); err == nil {
				list = append(list, info)
			}
		}
	case slices.Contains(binDirs, name):
		for _, c := range w.names() {
			list = append(list, made(c, 0o755))
		}
	default:
		list, err = w.client.ReadDir(name)
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, err
}

// Open opens a file for a command whose streams are not known here.
func (w *world) Open(name string, flag int, perm fs.FileMode) (coreutils.File, error) {
	return w.open(name, flag, perm, streams{})
}

// open opens a file or device.
func (w *world) open(name string, flag int, perm fs.FileMode, s streams) (coreutils.File, error) {
	if d := device(name); d != "" {
		return openDevice(d, name, s)
	}
	if pipe(name) {
		f, err := os.OpenFile(name, flag&syscall.O_ACCMODE, 0)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	if _, ok := w.commandAt(name); ok { // there is nothing in it
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	if _, ok := parents[name]; ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return w.client.Open(name, flag, perm)
}

// deviceFile is an open device.
type deviceFile struct {
	io.Reader
	io.Writer
	name string
}

func openDevice(d, name string, s streams) (coreutils.File, error) {
	f := deviceFile{Reader: eof{}, Writer: io.Discard, name: name}
	switch d {
	case "zero":
		f.Reader = zeros{}
	case "full":
		f.Reader, f.Writer = zeros{}, noSpace{}
	case "random", "urandom":
		f.Reader = rand.Reader
	case "stdin":
		f.Reader = s.in
	case "stdout":
		f.Writer = s.out
	case "stderr":
		f.Writer = s.err
	}
	if f.Reader == nil || f.Writer == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENXIO}
	}
	return f, nil
}

func (deviceFile) Close() error                   { return nil }
func (deviceFile) Seek(int64, int) (int64, error) { return 0, syscall.ESPIPE }
func (deviceFile) Truncate(int64) error           { return nil }
func (f deviceFile) Stat() (fs.FileInfo, error) {
	return made(f.name, fs.ModeDevice|fs.ModeCharDevice|0o666), nil
}

type (
	eof     struct{}
	zeros   struct{}
	noSpace struct{}
)

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (noSpace) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
