//go:build linux

package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/launch"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/reap"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
)

const sigKill = unix.SIGKILL

// Reasons for an end, as in sdk/backend.
const (
	stopExit     = "exit"
	stopTimeout  = "timeout"
	stopCPU      = "cpu"
	stopMemory   = "memory"
	stopDisk     = "disk"
	stopOutput   = "output"
	stopCanceled = "canceled"
)

// ended is why a command was stopped: a context's cause.
type ended struct{ stop, message string }

func (e *ended) Error() string { return e.stop + ": " + e.message }

const (
	// holdTime is how long output that somebody still holds open is waited for after
	// everything was killed.
	holdTime = 200 * time.Millisecond
	// killPatience is how long an answer waits for processes to die.
	killPatience = 250 * time.Millisecond
	// drainLimit is how much output is read at the most, kept or not.
	drainLimit = 1 << 30
)

// command is one program with plain input and output.
type command struct {
	spec  launch.Spec
	lease *Lease
	// stdin is copied to the program; nil is an end at once.
	stdin io.Reader
	log   *Log
	// started is called when the program runs.
	started func()
}

// outcome is how a command ended.
type outcome struct {
	stop, message string
	exit          reap.Exit
	// failed: the command ended by itself, with exit, whatever stop says.
	failed bool
}

// run starts a command, waits for its end or that of ctx, and ends everything that runs as
// its user. The cause of ctx may be an *ended. An error means that nothing ran.
func (h *Host) run(ctx context.Context, c *command) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var files, ours []*os.File
	defer func() { closeAll(files); closeAll(ours) }()
	var pumps sync.WaitGroup

	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return outcome{}, err
	}
	files = append(files, null)
	var in *os.File
	if c.stdin != nil {
		r, w, err := pipe(true)
		if err != nil {
			return outcome{}, err
		}
		files, ours, in = append(files, r), append(ours, w), w
	}
	var outs [streams]*os.File
	for i := range outs {
		r, w, err := pipe(false)
		if err != nil {
			return outcome{}, err
		}
		outs[i], ours, files = r, append(ours, r), append(files, w)
	}
	child, err := h.Launcher.Start(&c.spec, files[len(files)-3:]...)
	closeAll(files)
	files = nil
	if err != nil {
		return outcome{}, err
	}
	c.lease.discount(child.Before)
	c.started()
	for i, r := range outs {
		pumps.Go(func() { c.drain(i, r, cancel) })
	}
	if in != nil {
		go func() { // ends when the program's end of the pipe is gone, or ours is closed
			_, _ = io.Copy(in, c.stdin)
			_ = in.Close()
		}()
	}
	refill := time.AfterFunc(5*time.Millisecond, h.Launcher.Refill)
	select {
	case <-child.Done():
	case <-ctx.Done():
	}
	refill.Stop()
	killErr := h.Killer.KillAll(c.lease.UID, killPatience, c.lease.woken)
	var out outcome
	select {
	case <-child.Done():
		out = outcome{stop: stopExit, exit: child.Exit()}
	case <-time.After(holdTime): // it does not die
	}
	var why *ended
	if ctx.Err() != nil {
		out.stop = stopCanceled
		if errors.As(context.Cause(ctx), &why) {
			out.stop, out.message = why.stop, why.message
		}
	} else if killErr != nil {
		out.message = "processes of the program could not be ended"
	}
	h.await(&pumps, ours)
	h.Launcher.Refill()
	return out, nil
}

// await waits for what is left in the pipes, but not for whoever keeps one open.
func (h *Host) await(pumps *sync.WaitGroup, ours []*os.File) {
	over := time.AfterFunc(holdTime, func() {
		for _, f := range ours {
			_ = f.SetDeadline(time.Now())
		}
	})
	defer over.Stop()
	pumps.Wait()
}

// drain reads a stream to its end.
func (c *command) drain(stream int, r *os.File, cancel context.CancelCauseFunc) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 && c.log.append(stream, buf[:n]) > drainLimit {
			cancel(&ended{stopOutput, fmt.Sprintf("more than %d bytes of output", drainLimit)})
		}
		if err != nil {
			return
		}
	}
}

// pipe returns a pipe of which this process's end is waited for by the poller, and the
// other is an ordinary one.
func pipe(write bool) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	ours := fds[0]
	if write {
		ours = fds[1]
	}
	_ = unix.SetNonblock(ours, true)
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// notStarted explains an error of run.
func notStarted(argv0 string, err error) error {
	var e *launch.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Stage == "exec" && e.Errno == syscall.ENOENT:
		return &agentwire.Fault{Kind: "invalid_request", Text: fmt.Sprintf("there is no command %q in the sandbox", argv0)}
	case e.Stage == "exec" && e.Errno == syscall.EAGAIN:
		return &agentwire.Fault{Kind: "capacity", Text: "no more processes can be started in the sandbox"}
	case e.Stage == "exec":
		return &agentwire.Fault{Kind: "invalid_request", Text: fmt.Sprintf("the command %q cannot be executed: %s", argv0, e.Errno.Error())}
	case e.Stage == "dir":
		return &agentwire.Fault{Kind: "invalid_request", Text: "the working directory cannot be entered: " + e.Errno.Error()}
	}
	return err
}
