package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/cachedir"
	"github.com/caisson-run/caisson/plugins/wasm/internal/child"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// Supported says why there are no scripts on this system; nil if there are.
func Supported() error { return nil }

// process is one worker. It runs one script and is then gone.
type process struct {
	*child.Process
	pipes string // directory of named pipes

	stdin          *os.File // written
	stdout, stderr *os.File // read
	crash          *os.File // read: what the Go runtime says
	requests       *net.UnixConn
	programs       *net.UnixConn
}

// theirs are the ends of pipes and sockets that a new process gets.
type theirs []*os.File

func (t theirs) close() {
	for _, f := range t {
		_ = f.Close()
	}
}

// start starts a worker. base is where its directory of named pipes is made;
// nobody else may write there.
func start(command []string, base string) (_ *process, err error) {
	p := &process{}
	if p.pipes, err = os.MkdirTemp(base, cachedir.WorkPrefix+"pipes-"); err != nil {
		return nil, fmt.Errorf("start shell worker: %w", err)
	}
	var given theirs
	defer func() {
		given.close()
		if err != nil {
			p.closeFiles()
			_ = os.Remove(p.pipes)
		}
	}()
	pipe := func(ours **os.File, read bool) error {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("start shell worker: %w", err)
		}
		if !read {
			r, w = w, r
		}
		*ours, given = r, append(given, w)
		return nil
	}
	if err = errors.Join(pipe(&p.stdin, false), pipe(&p.stdout, true), pipe(&p.crash, true)); err != nil {
		return nil, err
	}
	for kind, conn := range map[int]**net.UnixConn{unix.SOCK_STREAM: &p.requests, unix.SOCK_SEQPACKET: &p.programs} {
		var their *os.File
		if *conn, their, err = socketPair(kind); err != nil {
			return nil, fmt.Errorf("start shell worker: %w", err)
		}
		defer func() { _ = their.Close() }()
		if kind == unix.SOCK_STREAM {
			given = append(theirs{their}, given...)
		} else {
			given = append(given, their)
		}
	}
	if err = pipe(&p.stderr, true); err != nil {
		return nil, err
	}
	dir, err := os.Open(p.pipes)
	if err != nil {
		return nil, fmt.Errorf("start shell worker: %w", err)
	}
	given = append(given, dir)
	// given is: requests, stdin, stdout, crash, programs, stderr, pipes.
	cmd := &exec.Cmd{
		Path: command[0], Args: command, Env: []string{}, Dir: "/",
		Stdin: given[1], Stdout: given[2], Stderr: given[3],
		ExtraFiles: []*os.File{given[0], given[4], given[5], given[6]},
	}
	if p.Process, err = child.Start(cmd); err != nil {
		return nil, fmt.Errorf("start shell worker: %w", err)
	}
	return p, nil
}

// socketPair returns our end and theirs.
func socketPair(kind int) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	their := os.NewFile(uintptr(fds[1]), "worker")
	own := os.NewFile(uintptr(fds[0]), "shell")
	conn, err := net.FileConn(own) // has a descriptor of its own
	_ = own.Close()
	if err != nil {
		_ = their.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), their, nil
}

// end kills the process, waits for it, and removes what it had.
func (p *process) end() {
	p.Kill()
	_ = p.Wait()
	p.closeFiles()
	_ = os.RemoveAll(p.pipes)
}

func (p *process) closeFiles() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr, p.crash} {
		_ = f.Close() // nil is refused, which is fine
	}
	for _, c := range []*net.UnixConn{p.requests, p.programs} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// usage returns the processor time and the largest memory of a dead process.
func (p *process) usage() (ru syscall.Rusage) {
	if u, ok := p.State().SysUsage().(*syscall.Rusage); ok {
		ru = *u
	}
	return ru
}

// maxCrash is how much of what the runtime says is looked at.
const maxCrash = 16 << 10

// crashText reads what the runtime said, until the process is gone.
func (p *process) crashText() []byte {
	var b bytes.Buffer
	_, _ = io.Copy(&b, io.LimitReader(p.crash, maxCrash))
	_, _ = io.Copy(io.Discard, p.crash)
	return b.Bytes()
}

// descriptors takes the files out of a control message. They do not block.
func descriptors(control []byte, want int) ([]*os.File, error) {
	if len(control) == 0 {
		if want > 0 {
			return nil, fmt.Errorf("%w: %d descriptors are missing", wire.ErrMalformed, want)
		}
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrMalformed, err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			_ = unix.SetNonblock(fd, true)
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	bad := len(files) != want
	for _, f := range files {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			bad = true // only pipes may be read and written without harm
		}
	}
	if bad {
		theirs(files).close()
		return nil, fmt.Errorf("%w: %d descriptors that are pipes are expected", wire.ErrMalformed, want)
	}
	return files, nil
}
