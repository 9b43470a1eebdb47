package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/internal/pluginwire"
	"github.com/caisson-run/caisson/internal/procstat"
)

// ErrNothingKept says that there is no process to adopt.
var ErrNothingKept = errors.New("no process is kept")

// Adopt takes over the process that a host, which has died since, had started from an
// equal spec with Spec.Keep. It is proven to be that process: by its number, the time
// of its start, the start of the machine, the digest of the program it executes, its
// user, and as the one that listens at the recorded address. What is proven to be
// ours and does not fit any more, because the program or its environment changed, is
// ended; what is not proven is left alone, and its record is removed.
//
// The error is ErrNothingKept when there was none, and otherwise says why what there
// was could not be adopted: a fresh start follows either way.
func Adopt(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("plugin %q: adopt: %w", spec.Name, err)
	}
	if spec.Keep.For == 0 {
		return nil, ErrNothingKept
	}
	records, err := filepath.Glob(filepath.Join(spec.Keep.Dir, spec.Name+"-*"+recordEnding))
	if err != nil {
		return nil, err
	}
	var errs []error
	var adopted *Process
	for _, path := range records {
		r, f, err := readRecord(path)
		if r == nil {
			if err != nil {
				_ = os.Remove(path)
				errs = append(errs, fmt.Errorf("plugin %q: adopt: %w", spec.Name, err))
			}
			continue
		}
		if r.Name != spec.Name { // of a plugin whose name begins alike
			_ = f.Close()
			continue
		}
		k := &kept{path: path, file: f, record: *r}
		if adopted != nil {
			err = errors.New("there are two")
			k.end(spec.Keep.Dir)
		} else {
			adopted, err = k.adopt(ctx, spec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %q: adopt process %d: %w", spec.Name, r.PID, err))
		}
	}
	switch {
	case adopted != nil:
		return adopted, nil
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	default:
		return nil, ErrNothingKept
	}
}

// EndKept ends the kept processes in dir that no living host has and spare does not
// name, and removes what dead ones left. It returns what it did, for the log.
func EndKept(dir string, spare func(name string) bool) []string {
	records, err := filepath.Glob(filepath.Join(dir, "*"+recordEnding))
	if err != nil {
		return nil
	}
	var out []string
	for _, path := range records {
		r, f, err := readRecord(path)
		switch {
		case err != nil:
			_ = os.Remove(path)
			out = append(out, fmt.Sprintf("removed %s: %v", filepath.Base(path), err))
		case r == nil:
		case spare(r.Name):
			_ = f.Close()
		default:
			k := &kept{path: path, file: f, record: *r}
			out = append(out, fmt.Sprintf("plugin %q: process %d %s", r.Name, r.PID, k.end(dir)))
		}
	}
	removeLoose(dir)
	return out
}

// looseAge is how old a file without a record is that nobody is about to name in one.
const looseAge = 2 * maxStart

// maxStart is the longest start that a manifest may ask for.
const maxStart = 5 * time.Minute

// removeLoose removes what hosts left that died before they had written it down.
func removeLoose(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		if !isLog && !strings.HasPrefix(e.Name(), ".kept-") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, name+recordEnding)); isLog && err == nil {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > looseAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// end ends the process of a record, if it is proven to be it, and forgets it.
func (k *kept) end(dir string) string {
	did := "is gone"
	if c, err := k.prove(); err == nil {
		c.stop()
		did = "was ended"
	}
	k.forget(dir)
	return did
}

// adopt makes the recorded process ours, or clears what is recorded.
func (k *kept) adopt(ctx context.Context, spec Spec) (_ *Process, err error) {
	c, err := k.prove()
	if err != nil {
		k.forget(spec.Keep.Dir)
		return nil, err
	}
	p := &Process{
		name: spec.Name, log: spec.Log, child: c, kept: k, sockets: &socketDir{k.record.Sockets},
		stopping: make(chan struct{}), done: make(chan struct{}),
	}
	if p.log == nil {
		p.log = hclog.NewNullLogger()
	}
	p.logs = newBridge(p.log.Named(spec.Name))
	defer func() {
		if err != nil {
			c.stop()
			if p.conn != nil {
				_ = p.conn.Close()
			}
			k.forget(spec.Keep.Dir)
		}
	}()
	if err := k.fits(ctx, spec); err != nil {
		return nil, err
	}
	if err := checkPrivate(p.sockets.path); err != nil {
		return nil, err
	}
	if filepath.Dir(k.record.Log) != spec.Keep.Dir {
		return nil, errors.New("its log is elsewhere")
	}
	if k.log, err = openKeptLog(k.record.Log); err != nil {
		return nil, err
	}
	timeout := spec.StartTimeout
	if timeout == 0 {
		timeout = DefaultStartTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	run := &launch{spec: spec, sockets: p.sockets, logs: p.logs, kept: k.log, proc: c, shake: &handshake{found: true, addr: k.record.Address}}
	if err := p.connect(ctx, run); err != nil {
		return nil, err
	}
	go func() {
		k.log.follow(c.dead, p.logs.writer())
		close(c.exited)
	}()
	go p.watch()
	go p.collect()
	p.log.Info("plugin adopted", "plugin", p.name, "pid", c.pid)
	return p, nil
}

// fits says why a process that was started once is not what would be started now.
func (k *kept) fits(ctx context.Context, spec Spec) error {
	r := k.record
	if r.Protocol != pluginwire.ProtocolVersion {
		return fmt.Errorf("it speaks version %d of the backend protocol, this host version %d", r.Protocol, pluginwire.ProtocolVersion)
	}
	bin, err := openBinary(ctx, spec)
	if err != nil {
		return err
	}
	defer bin.close()
	sum, err := digest(bin.file)
	switch {
	case err != nil:
		return err
	case sum != r.SHA256:
		return errors.New("its program was replaced since: it is ended, and started anew")
	case fit(spec) != r.Fit:
		return errors.New("it would be started in another way now: it is ended, and started anew")
	}
	return nil
}

// prove returns the process of the record, if it still is that one.
func (k *kept) prove() (*child, error) {
	r := k.record
	gone := errors.New("it has ended")
	if r.PID <= 1 { // numbers that stand for more than one process
		return nil, fmt.Errorf("%w: it had not been started", gone)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if boot != r.Boot {
		return nil, fmt.Errorf("%w: the machine was started since", gone)
	}
	fd, err := unix.PidfdOpen(r.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, gone
	}
	// From here on the descriptor names one process, and what is read below is its, if
	// it has not ended by then.
	pidfd := os.NewFile(uintptr(fd), "pidfd")
	c := &child{pid: r.PID, adopted: true, pidfd: pidfd, exited: make(chan struct{}), dead: make(chan struct{})}
	if err := func() error {
		started, err := procstat.Started(r.PID)
		if err != nil || started != r.Started {
			return fmt.Errorf("%w: its number is another's", gone)
		}
		info, err := os.Stat(fmt.Sprintf("/proc/%d", r.PID))
		if err != nil {
			return gone
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			return errors.New("it is another user's")
		}
		exe, err := os.Open(fmt.Sprintf("/proc/%d/exe", r.PID))
		if err != nil {
			return gone
		}
		defer exe.Close()
		if sum, err := digest(exe); err != nil || sum != r.SHA256 {
			return errors.New("it executes another program")
		}
		return nil
	}(); err != nil {
		_ = pidfd.Close()
		return nil, err
	}
	go c.await()
	return c, nil
}

// await waits for the end of an adopted process.
func (c *child) await() {
	defer c.pidfd.Close()
	raw, err := c.pidfd.SyscallConn()
	if err == nil {
		_ = raw.Read(func(fd uintptr) bool { // a pidfd becomes readable with the end
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return err == nil && n == 1
		})
	}
	c.mu.Lock()
	// Its number may be another's from now on, except where its group lives on.
	signalGroup(c.pid, syscall.SIGKILL)
	c.reaped = true
	c.mu.Unlock()
	close(c.dead)
}

// stop ends an adopted process that nobody talks to.
func (c *child) stop() {
	c.signal(syscall.SIGTERM)
	c.linger(context.Background(), 2*time.Second)
	c.kill()
	c.linger(context.Background(), killTime)
}

// bootID is another after every start of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// openRecord opens a file of ours alone.
func openRecord(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || wrongOwner(info) != "") {
		err = &FileError{Path: path, Reason: "not a file of this user alone"}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
