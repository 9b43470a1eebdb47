//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

func prepare(cmd *exec.Cmd, _ *binary, _ bool) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }
