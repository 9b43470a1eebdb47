//go:build linux

package work

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/reap"
)

// idling is a user id that nothing else has, programs included.
const idling = 60999

// A terminal that nobody is attached to ends, whether or not anybody ever was.
func TestUnattached(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only user 0 may become others")
	}
	killer := kernel.NewKiller()
	for name, before := range map[string]func(*testing.T, *Terminal){
		"never attached": func(*testing.T, *Terminal) {},
		"detached":       attachOnce,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sleep", "1000")
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: idling, Gid: idling}, Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			h := &Host{Killer: killer}
			h.Open()
			term := &Terminal{host: h, child: &reap.Child{PID: cmd.Process.Pid}, lease: &Lease{UID: idling}, changed: make(chan struct{})}
			h.keep(term)
			if h.Terminal(cmd.Process.Pid) != term {
				t.Error("it cannot be attached to")
			}
			before(t, term)
			term.mu.Lock()
			armed := term.idle != nil && term.idle.Reset(0) // its time has passed
			term.mu.Unlock()
			if !armed {
				t.Error("its time does not run")
				_ = cmd.Process.Kill()
			}
			_ = cmd.Wait()
		})
	}
}

// attachOnce attaches, looks and leaves.
func attachOnce(t *testing.T, term *Terminal) {
	ctx, leave := context.WithCancel(t.Context())
	term.show([]byte("$ "))
	if _, err := term.Attach(ctx, func([]byte) error {
		term.mu.Lock()
		defer term.mu.Unlock()
		if term.idle != nil {
			t.Error("its time runs while somebody is attached")
		}
		leave()
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("Attach: %v", err)
	}
}
