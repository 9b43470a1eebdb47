package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// drainTime is how long output that was written before the end is waited for.
// A descendant that left the process group may hold the pipes open for ever.
const drainTime = 250 * time.Millisecond

// child is the operating system's side of a process.
type child struct {
	pid int
	// exited is closed once the process is reaped, its group is dead and its
	// output is read.
	exited chan struct{}
	// dead is closed before that, once the process and its group are dead.
	dead chan struct{}

	mu     sync.Mutex
	reaped bool // its number may be another's by now
	byUs   bool // ended by a signal of ours
	state  *os.ProcessState
	// adopted processes are not our children: nobody tells us their status.
	adopted bool
	pidfd   *os.File // of an adopted process
}

// Exit says how a process ended.
type Exit struct {
	// Code is the exit status, -1 when a signal ended the process.
	Code int
	// Signal is its name, empty when there was none.
	Signal string

	byUs, adopted bool
}

// byItself reports whether it was not we who ended the process.
func (e Exit) byItself() bool {
	return !e.byUs || e.Signal != syscall.SIGKILL.String() && e.Signal != syscall.SIGTERM.String()
}

func (e Exit) String() string {
	switch {
	case e.adopted:
		return "ended, with a status that is not known: another host had started it"
	case e.Signal == syscall.SIGKILL.String() && !e.byUs:
		return "ended by signal killed: perhaps it ran out of memory"
	case e.Signal != "":
		return "ended by signal " + e.Signal
	default:
		return fmt.Sprintf("exited with status %d", e.Code)
	}
}

// spawn starts cmd in a process group of its own. What it writes goes to stdout
// and stderr, which are closed after its end. A kept process writes into its log
// instead, from which stderr is fed.
func spawn(cmd *exec.Cmd, bin *binary, stdout, stderr io.WriteCloser, kept *keptLog) (*child, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		_ = outR.Close()
		return nil, err
	}
	defer errW.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, outW, errW
	prepare(cmd, bin, kept != nil)
	if kept != nil {
		cmd.Stderr = kept.file
	}

	c := &child{exited: make(chan struct{}), dead: make(chan struct{})}
	started := make(chan error)
	go c.run(cmd, started)
	if err := <-started; err != nil {
		_ = outR.Close()
		_ = errR.Close()
		_ = stdout.Close()
		_ = stderr.Close()
		return nil, err
	}
	var readers sync.WaitGroup
	pipes := map[*os.File]io.WriteCloser{outR: stdout, errR: stderr}
	if kept != nil {
		pipes[errR] = nothing{}
	}
	for r, w := range pipes {
		readers.Go(func() {
			_, _ = io.Copy(w, newPaced(r, c.dead))
			_ = w.Close()
			_ = r.Close()
		})
	}
	if kept != nil {
		readers.Go(func() { kept.follow(c.dead, stderr) })
	}
	go func() {
		<-c.dead
		// What was written is in the pipes; whoever still holds them is not ours.
		deadline := time.Now().Add(drainTime)
		_ = outR.SetReadDeadline(deadline)
		_ = errR.SetReadDeadline(deadline)
		readers.Wait()
		close(c.exited)
	}()
	return c, nil
}

// nothing takes what nobody writes.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Close() error                { return nil }

// signal sends sig to the process group, unless it is over.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.byUs = true
		signalGroup(c.pid, sig)
	}
}

// linger waits for the end of the process, at most that long.
func (c *child) linger(ctx context.Context, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.dead:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

// exit is known once exited is closed.
func (c *child) exit() Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := Exit{Code: -1, byUs: c.byUs, adopted: c.adopted}
	if c.state == nil {
		return e
	}
	e.Code = c.state.ExitCode()
	if ws, ok := c.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = ws.Signal().String()
	}
	return e
}
