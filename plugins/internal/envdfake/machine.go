package envdfake

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options of a Machine.
type Options struct {
	// Version is the daemon's; what it can do depends on it. Default "0.6.13".
	Version string
	// Token is asked for as X-Access-Token, unless it is empty.
	Token string
	// Env is the environment that every program has.
	Env map[string]string
	// Users are the accounts that exist. Default root, user and daemon.
	Users []string
	// KeepAlive is the time between keep-alives where a request asks for none, and
	// bounds what it asks for. Default 90 s.
	KeepAlive time.Duration
}

// Machine is one sandbox. It is an http.Handler: the daemon's port.
type Machine struct {
	opts   Options
	dir    string
	anchor *exec.Cmd
	input  io.Closer
	space  string // the mount namespace
	user   bool   // a user namespace is needed to enter it
	routes http.Handler

	mu         sync.Mutex
	procs      map[uint32]*process
	watchers   map[string]*watcher
	ports      map[int]http.Handler
	violations []string
	requests   []string
	dead       bool
	wg         sync.WaitGroup
	closed     chan struct{}
}

// mapped are the directories that each machine has of its own.
var mapped = []string{"/mnt", "/tmp", "/home", "/root"}

// ErrUnable says that machines cannot be had here, for want of namespaces.
var ErrUnable = errors.New("mount namespaces cannot be made here")

// New makes a machine that keeps its files in dir, which exists, and is closed by
// Close. Its error is ErrUnable where the system does not allow one.
func New(dir string, opts Options) (*Machine, error) {
	if opts.Version == "" {
		opts.Version = "0.6.13"
	}
	if opts.Users == nil {
		opts.Users = []string{"root", "user", "daemon"}
	}
	if opts.KeepAlive == 0 {
		opts.KeepAlive = 90 * time.Second
	}
	m := &Machine{
		opts: opts, dir: dir, closed: make(chan struct{}),
		procs: make(map[uint32]*process), watchers: make(map[string]*watcher), ports: make(map[int]http.Handler),
	}
	for _, p := range append(slices.Clone(mapped), "/home/user") {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "/tmp"), 0o1777); err != nil {
		return nil, err
	}
	if err := m.enter(); err != nil {
		return nil, err
	}
	m.routes = m.newRoutes()
	return m, nil
}

// anchorScript makes the namespace and keeps it until its input ends.
const anchorScript = `mount --make-rprivate / || exit 1
d=$1; shift
for p do mount --bind "$d$p" "$p" || exit 1; done
echo ready; read -r x; :`

// enter starts the process that the namespace belongs to.
func (m *Machine) enter() error {
	var errs error
	for _, user := range []bool{false, true} {
		if err := m.tryEnter(user); err == nil {
			return nil
		} else {
			errs = errors.Join(errs, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrUnable, errs)
}

func (m *Machine) tryEnter(user bool) error {
	// Whatever holds the machine's files is hidden last.
	roots := slices.Clone(mapped)
	slices.SortStableFunc(roots, func(a, b string) int {
		return len(m.dir) - len(strings.TrimPrefix(m.dir, a+"/")) - (len(m.dir) - len(strings.TrimPrefix(m.dir, b+"/")))
	})
	cmd := exec.Command("/bin/sh", append([]string{"-c", anchorScript, "anchor", m.dir}, roots...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: 0}
	if user {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		_ = in.Close()
		_ = cmd.Wait()
		return fmt.Errorf("mount: %s", strings.TrimSpace(said.String()))
	}
	m.anchor, m.input, m.user = cmd, in, user
	m.space, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", cmd.Process.Pid))
	return err
}

// closeTime is what the programs of a machine may take to die.
const closeTime = time.Minute

// Close kills every program of the machine and waits for them. Files stay. A program
// that does not die is an error, which names it.
func (m *Machine) Close() error {
	m.mu.Lock()
	select {
	case <-m.closed:
		m.mu.Unlock()
		return nil
	default:
	}
	close(m.closed)
	m.dead = true
	for _, w := range m.watchers {
		w.close()
	}
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.wg.Wait()
	}()
	late := time.Now().Add(closeTime)
	for over := false; !over; {
		if time.Now().After(late) {
			return errors.Join(m.stuck(), m.input.Close(), m.anchor.Wait())
		}
		// Some are on their way into the namespace, and some just being made.
		m.mu.Lock()
		for _, p := range m.procs {
			_ = p.kill(syscall.SIGKILL)
		}
		m.mu.Unlock()
		if len(m.signal(syscall.SIGKILL)) > 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		select {
		case <-done:
			over = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.Join(m.input.Close(), m.anchor.Wait())
}

// stuck says what keeps the machine from closing.
func (m *Machine) stuck() error {
	var text []string
	for _, pid := range m.signal(0) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		text = append(text, fmt.Sprintf("%d %q", pid, line))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for pid, p := range m.procs {
		if p.lives() {
			text = append(text, fmt.Sprintf("%d, which was started as %q, still has readers", pid, p.config.GetCmd()))
		}
	}
	return fmt.Errorf("the machine does not end within %v: %s", closeTime, strings.Join(text, "; "))
}

// signal sends a signal to every program in the machine, and returns their pids.
func (m *Machine) signal(s syscall.Signal) []int {
	var hit []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == m.anchor.Process.Pid {
			continue
		}
		if space, err := os.Readlink(d + "/ns/mnt"); err == nil && space == m.space && syscall.Kill(pid, s) == nil {
			hit = append(hit, pid)
		}
	}
	return hit
}

// Pause stops every program of the machine where it is.
func (m *Machine) Pause() { m.signal(syscall.SIGSTOP) }

// Resume lets them go on.
func (m *Machine) Resume() { m.signal(syscall.SIGCONT) }

// Processes returns the pids of all programs in the machine, descendants included.
func (m *Machine) Processes() []int { return m.signal(0) }

// Path is where a path of the machine is on this one, links not looked at.
func (m *Machine) Path(p string) string {
	for _, root := range mapped {
		if p == root || strings.HasPrefix(p, root+"/") {
			return filepath.Join(m.dir, p)
		}
	}
	return p
}

// CopyFiles makes the machine's files those of another.
func (m *Machine) CopyFiles(from *Machine) error {
	for _, root := range mapped {
		to := filepath.Join(m.dir, root)
		if out, err := exec.Command("cp", "-a", filepath.Join(from.dir, root)+"/.", to).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", root, err, out)
		}
	}
	return nil
}

// Handle serves a port of the machine, as a program that listens there would.
func (m *Machine) Handle(port int, h http.Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports[port] = h
}

// port is who serves a port; nil is nobody.
func (m *Machine) port(n int) http.Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.dead:
		return nil
	case n == Port:
		return m
	}
	return m.ports[n]
}

// Port is the daemon's.
const Port = 49983

// Violations are what clients did that no client should.
func (m *Machine) Violations() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.violations)
}

// Requests are the methods and paths of all requests so far.
func (m *Machine) Requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

func (m *Machine) violation(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.violations = append(m.violations, fmt.Sprintf(format, args...))
}

// atLeast reports whether the daemon is of that version or later.
func (m *Machine) atLeast(version string) bool {
	a, b := strings.Split(m.opts.Version, "."), strings.Split(version, ".")
	for i := range b {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x > y
		}
	}
	return true
}
