//go:build unix && !linux

package child

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *Process) own(started chan<- error) {
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended(err)
}

// kill ends the process alone: its number may be somebody else's by now, which only
// the os package knows.
func (p *Process) kill() { _ = p.cmd.Process.Kill() }
