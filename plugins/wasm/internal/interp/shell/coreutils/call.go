package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// FS is the file system that commands see. Paths are absolute and clean. Errors
// hold a syscall.Errno. It is safe for concurrent use.
type FS interface {
	Open(name string, flag int, perm fs.FileMode) (File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	// ReadDir returns the entries without following links, in no order.
	ReadDir(name string) ([]fs.FileInfo, error)
	Readlink(name string) (string, error)
	Mkdir(name string, perm fs.FileMode) error
	Unlink(name string) error
	Rmdir(name string) error
	Rename(from, to string) error
	Link(from, to string) error
	Symlink(target, name string) error
	Chmod(name string, perm fs.FileMode) error
	Chtimes(name string, accessed, modified time.Time) error
	// Usage returns the bytes used of the data directory and their limit.
	Usage() (used, limit int64, err error)
}

// Details are what a fs.FileInfo of an FS may know beyond that interface, if it has
// a method Details that returns them.
type Details struct {
	Links, Inode      uint64
	Accessed, Changed time.Time
}

func detailsOf(info fs.FileInfo) Details {
	if d, ok := info.(interface{ Details() Details }); ok {
		return d.Details()
	}
	return Details{Links: 1, Accessed: info.ModTime(), Changed: info.ModTime()}
}

// File is an open file.
type File interface {
	io.ReadWriteCloser
	io.Seeker
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
}

// Call is one command that runs.
type Call struct {
	// Argv has the command's name first.
	Argv []string
	// Dir is the working directory, absolute.
	Dir string
	// Env is the exported environment.
	Env map[string]string

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	FS FS
	// Run runs another command and returns its exit code. The Call it gets
	// is a changed copy of this one.
	Run func(ctx context.Context, c *Call) int
	// Has tells where a command is: a path, or empty.
	Has func(name string) string

	failed bool // standard output, which was reported
}

// Command is the code of a command. It returns the exit code. When ctx ends it
// returns soon; what then comes out is not looked at.
type Command func(ctx context.Context, c *Call) int

// Lookup finds a command by its name.
func Lookup(name string) (Command, bool) {
	cmd, ok := commands[name]
	return cmd, ok
}

// Names returns the names of all commands, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(commands))
}

// path makes an operand absolute.
func (c *Call) path(name string) string {
	if !path.IsAbs(name) {
		name = c.Dir + "/" + name
	}
	return path.Clean(name)
}

// errorf writes a message with the command's name before it.
func (c *Call) errorf(format string, args ...any) {
	fmt.Fprintf(c.Stderr, "%s: %s\n", c.name(), fmt.Sprintf(format, args...))
}

func (c *Call) name() string { return path.Base(c.Argv[0]) }

// fail is errorf for an error, and exit code 1.
func (c *Call) fail(err error) int {
	c.errorf("%s", reason(err))
	return 1
}

// usage is errorf for a wrong command line; code is what the command exits with.
func (c *Call) usage(err error, code int) int {
	c.errorf("%v", err)
	return code
}

// reason is what GNU commands say of an error: without the operation, which they
// name by themselves, and capitalised.
func reason(err error) string {
	text := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text = errno.Error()
	}
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// notFound tells whether err says that a file does not exist.
func notFound(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// open opens an operand for reading; "-" is standard input. Directories are
// refused.
func (c *Call) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.Stdin), nil
	}
	f, err := c.FS.Open(c.path(name), 0, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, syscall.EISDIR
	}
	return f, nil
}

// How files are opened for writing.
const (
	openWrite  = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_TRUNC
	openAppend = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_APPEND
)

// create opens an operand for writing from its beginning.
func (c *Call) create(name string) (File, error) { return c.FS.Open(c.path(name), openWrite, 0o644) }

// inputs calls do for each operand that can be opened, standard input if there
// are none. Those that cannot are reported; the result is 1 then, else 0.
func (c *Call) inputs(ctx context.Context, operands []string, do func(name string, r io.Reader) error) int {
	if len(operands) == 0 {
		operands = []string{"-"}
	}
	code := 0
	for _, name := range operands {
		if ctx.Err() != nil {
			return 1
		}
		r, err := c.open(name)
		if err == nil {
			err = do(name, r)
			_ = r.Close()
		}
		if errors.Is(err, errStop) {
			return code
		}
		if err != nil {
			if broken(err) {
				return codePipe
			}
			if _, ok := errors.AsType[outputError](err); ok {
				c.outputFailed(err)
				return 1
			}
			c.errorf("%s: %s", name, reason(err))
			code = 1
		}
	}
	return code
}

// errStop makes inputs leave the rest out.
var errStop = errors.New("stop")

// broken tells whether nobody reads the output any more. Commands end quietly
// then, as from SIGPIPE.
func broken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, fs.ErrClosed)
}

// codePipe is the exit code of what ends because nobody reads its output: that
// of a process which SIGPIPE ended.
const codePipe = 128 + int(syscall.SIGPIPE)

// flush ends the output of a command whose code is as given otherwise.
func (c *Call) flush(w *bufio.Writer, code int) int {
	switch err := w.Flush(); {
	case err == nil:
		return code
	case broken(err):
		return codePipe
	default:
		c.outputFailed(err)
		return max(code, 1)
	}
}

// outputFailed reports that standard output cannot be written, once.
func (c *Call) outputFailed(err error) {
	if !c.failed {
		c.errorf("write error: %s", reason(err))
	}
	c.failed = true
}

// output buffers standard output. The caller flushes.
func (c *Call) output() *bufio.Writer { return bufio.NewWriterSize(outputWriter{c.Stdout}, 32<<10) }

// outputError is an error of standard output, told from one of an input.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

type outputWriter struct{ io.Writer }

func (w outputWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = outputError{err}
	}
	return n, err
}

// all reads an input of a command that needs the whole of it.
func (c *Call) all(name string) ([]byte, error) {
	r, err := c.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

// lines calls do for each line of r without its end, and tells whether there was
// one; the memory of the line is used again.
func lines(ctx context.Context, r io.Reader, end byte, do func(line []byte, ended bool) error) error {
	b := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for n := 0; ; n++ {
		if n&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := b.ReadSlice(end)
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if len(long) > 0 {
			long = append(long, line...)
			line, long = long, long[:0]
		}
		ended := err == nil
		if ended {
			line = line[:len(line)-1]
		} else if !errors.Is(err, io.EOF) {
			return err
		} else if len(line) == 0 {
			return nil
		}
		if err := do(line, ended); err != nil {
			return err
		}
		if !ended {
			return nil
		}
	}
}

// quoted is a name as GNU commands put it into messages.
func quoted(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }
