// Package child starts processes that do not outlive this one.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// Process is a process in a group of its own. It is safe for concurrent use.
type Process struct {
	cmd *exec.Cmd

	mu     sync.Mutex // guards reaped
	reaped bool
	err    error
	dead   chan struct{} // closed when the process is gone
}

// Start starts cmd in a process group of its own and waits for its end in a goroutine
// that lasts as long. Where the system can, it ends the process when this one ends,
// however that comes about. cmd must not be used any more.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, dead: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	return p, nil
}

// PID is the number of the process. Until it is dead nobody else has it.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process and those that it started in its group, if they are there.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.kill()
	}
}

// Signal sends a signal to the process alone, if it is there.
func (p *Process) Signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = p.cmd.Process.Signal(s)
	}
}

// Dead is closed when the process is gone.
func (p *Process) Dead() <-chan struct{} { return p.dead }

// Wait waits until the process is gone and returns what exec.Cmd's Wait does.
func (p *Process) Wait() error {
	<-p.dead
	return p.err
}

// State says how a dead process ended.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// ended notes that the process was collected; p.mu is held.
func (p *Process) ended(err error) {
	p.err, p.reaped = err, true
	close(p.dead)
}
