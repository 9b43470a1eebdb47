package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/coreutils"
)

// handlers are what one interpreter calls instead of the system.
type handlers struct {
	shell  *shell
	timing timing

	mu      sync.Mutex
	sourced map[string]bool // absolute paths that "source" opens next
}

// absolute makes a path of a script absolute.
func absolute(dir, name string) string {
	if !path.IsAbs(name) {
		name = dir + "/" + name
	}
	return path.Clean(name)
}

// problem is the error of an operation in the words of other shells.
func problem(name string, err error) error {
	return &os.PathError{Op: "bash:", Path: name, Err: said{err}}
}

// said is an error that prints as plain.
type said struct{ err error }

func (s said) Error() string { return plain(s.err) }
func (s said) Unwrap() error { return s.err }

// plain says what went wrong without where.
func plain(err error) string {
	text := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text = errno.Error()
	}
	return string(unicode.ToUpper(rune(text[0]))) + text[1:]
}

func (h *handlers) open(ctx context.Context, name string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	hc := interp.HandlerCtx(ctx)
	if name == "" {
		return nil, problem(name, syscall.ENOENT)
	}
	f, err := h.shell.world.open(absolute(hc.Dir, name), flag, perm, streams{hc.Stdin, hc.Stdout, hc.Stderr})
	if err != nil {
		return nil, problem(name, err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, problem(name, syscall.EISDIR)
	}
	if flag&syscall.O_ACCMODE != syscall.O_RDONLY {
		return f, nil
	}
	if host, ok := f.(*os.File); ok {
		return host, nil
	}
	var in io.ReadCloser = f
	if h.isSourced(absolute(hc.Dir, name)) {
		b, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			return nil, problem(name, err)
		}
		in = io.NopCloser(strings.NewReader(rewrite(string(b))))
	}
	r, err := h.reader(in)
	if err != nil {
		return nil, problem(name, err)
	}
	return r, nil
}

// reader turns a file into the pipe that the interpreter wants for input. It ends
// when whoever has it closes it.
func (h *handlers) reader(f io.ReadCloser) (*os.File, error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	// Most files fit into the pipe, and need nobody to wait for them.
	b := make([]byte, 32<<10)
	n, err := io.ReadFull(f, b)
	if err != nil {
		_, _ = pw.Write(b[:n])
		_ = pw.Close()
		_ = f.Close()
		return pr, nil
	}
	go func() {
		_, err := pw.Write(b)
		if err == nil {
			_, _ = io.Copy(pw, f)
		}
		_ = pw.Close()
		_ = f.Close()
	}()
	return pr, nil
}

// source remembers that a file is about to be opened as a script.
func (h *handlers) source(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sourced == nil {
		h.sourced = map[string]bool{}
	}
	h.sourced[name] = true
}

func (h *handlers) isSourced(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.sourced[name]
	delete(h.sourced, name)
	return is
}

func (h *handlers) stat(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	name = absolute(interp.HandlerCtx(ctx).Dir, name)
	if follow {
		return h.shell.world.Stat(name)
	}
	return h.shell.world.Lstat(name)
}

func (h *handlers) access(ctx context.Context, name string, mode interp.AccessMode) error {
	info, err := h.shell.world.Stat(absolute(interp.HandlerCtx(ctx).Dir, name))
	if err != nil {
		return err
	}
	perm := info.Mode().Perm()
	writable := strings.HasPrefix(name, "/mnt/data") || strings.HasPrefix(name, "/tmp") || info.Mode()&fs.ModeDevice != 0
	if mode&interp.AccessRead != 0 && perm&0o444 == 0 || mode&interp.AccessExec != 0 && perm&0o111 == 0 ||
		mode&interp.AccessWrite != 0 && (perm&0o222 == 0 || !writable) {
		return syscall.EACCES
	}
	return nil
}

func (h *handlers) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	list, err := h.shell.world.ReadDir(absolute(interp.HandlerCtx(ctx).Dir, name))
	entries := make([]fs.DirEntry, len(list))
	for i, info := range list {
		entries[i] = fs.FileInfoToDirEntry(info)
	}
	return entries, err
}

// exec runs a command that is neither a function nor built in.
func (h *handlers) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	if args[0] == ownBuiltin {
		return h.own(ctx, hc, args[1:])
	}
	if strings.HasPrefix(args[0], helperDir) {
		return h.timing.helper(hc, args)
	}
	code := h.shell.run(ctx, h.shell.newCall(hc, args))
	if err := ctx.Err(); err != nil {
		return err
	}
	if code == 0 {
		return nil
	}
	return interp.ExitStatus(code)
}

// newCall is the call of a command from where a script is.
func (s *shell) newCall(hc interp.HandlerContext, args []string) *coreutils.Call {
	c := &coreutils.Call{
		Argv: args, Dir: hc.Dir, Env: map[string]string{}, Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr,
		Run: s.run, Has: s.has,
	}
	if f, ok := hc.Stdin.(*os.File); ok && f == nil || hc.Stdin == nil {
		c.Stdin = eof{}
	}
	c.FS = &placed{s.world, streams{c.Stdin, c.Stdout, c.Stderr}}
	for name, v := range hc.Env.Each {
		delete(c.Env, name)
		if v.Exported && v.IsSet() && v.Kind == expand.String {
			c.Env[name] = v.String()
		}
	}
	return c
}

// placed is the world with the streams of a command.
type placed struct {
	*world
	streams streams
}

func (p *placed) Open(name string, flag int, perm fs.FileMode) (coreutils.File, error) {
	return p.open(name, flag, perm, p.streams)
}

// run runs a command by its name or path. It is also how commands run others.
func (s *shell) run(ctx context.Context, c *coreutils.Call) (code int) {
	defer func() {
		if p := recover(); p != nil { // a library's: the script goes on
			fmt.Fprintf(c.Stderr, "%s: internal error: %v\n", c.Argv[0], p)
			code = 134
		}
	}()
	name := c.Argv[0]
	if base, ok := s.world.commandAt(absolute(c.Dir, name)); ok && strings.Contains(name, "/") {
		name = base
	}
	if name == "" {
		fmt.Fprintln(c.Stderr, "bash: : command not found")
		return 127
	}
	if strings.Contains(name, "/") {
		return s.file(ctx, c)
	}
	for _, sh := range shells {
		if name == sh {
			return s.bash(ctx, c)
		}
	}
	if isLikeBuiltin(name) {
		return s.script(ctx, c, script{source: `"$@"`, name: "bash", args: append([]string{"builtin", name}, c.Argv[1:]...)})
	}
	for _, program := range s.engine {
		if name == program {
			env := c.Env
			c.Env = map[string]string{}
			for k, v := range env {
				c.Env[k] = v
			}
			c.Env["PWD"] = c.Dir
			c.Argv = append([]string{name}, c.Argv[1:]...)
			// Interpreters look for their script before they are in the
			// directory.
			if len(c.Argv) > 1 && !path.IsAbs(c.Argv[1]) && !strings.HasPrefix(c.Argv[1], "-") {
				if at := absolute(c.Dir, c.Argv[1]); s.exists(at) {
					c.Argv[1] = at
				}
			}
			return s.programs.run(ctx, c)
		}
	}
	if cmd, ok := coreutils.Lookup(name); ok {
		return cmd(ctx, c)
	}
	fmt.Fprintf(c.Stderr, "bash: %s: command not found\n", name)
	return 127
}

func (s *shell) exists(name string) bool {
	_, err := s.world.Stat(name)
	return err == nil
}

// file runs a file by its path: a script of this shell, or of the program that
// its first line names.
func (s *shell) file(ctx context.Context, c *coreutils.Call) int {
	name := c.Argv[0]
	info, err := s.world.Stat(absolute(c.Dir, name))
	switch {
	case err != nil:
		fmt.Fprintf(c.Stderr, "bash: %s: %s\n", name, plain(err))
		return 127
	case info.IsDir():
		fmt.Fprintf(c.Stderr, "bash: %s: Is a directory\n", name)
		return 126
	case info.Mode().Perm()&0o111 == 0:
		fmt.Fprintf(c.Stderr, "bash: %s: Permission denied\n", name)
		return 126
	}
	b, err := s.readScript(c, name)
	if err != nil {
		fmt.Fprintf(c.Stderr, "bash: %s: %s\n", name, plain(err))
		return 126
	}
	first, _, _ := strings.Cut(string(b), "\n")
	if strings.IndexByte(first, 0) >= 0 {
		fmt.Fprintf(c.Stderr, "bash: %s: cannot execute binary file: Exec format error\n", name)
		return 126
	}
	interpreter := []string{"bash"}
	if line, ok := strings.CutPrefix(first, "#!"); ok {
		interpreter = strings.Fields(line)
		if len(interpreter) > 1 && path.Base(interpreter[0]) == "env" {
			interpreter = interpreter[1:]
			if interpreter[0] == "-S" && len(interpreter) > 1 {
				interpreter = interpreter[1:]
			}
		}
		if len(interpreter) == 0 || !s.isCommand(path.Base(interpreter[0])) {
			fmt.Fprintf(c.Stderr, "bash: %s: %s: bad interpreter: No such file or directory\n", name, strings.TrimSpace(line))
			return 126
		}
		interpreter[0] = path.Base(interpreter[0])
	}
	again := *c
	again.Argv = append(append(interpreter, name), c.Argv[1:]...)
	return s.run(ctx, &again)
}
