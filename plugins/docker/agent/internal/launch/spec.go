//go:build linux

// Package launch starts programs. A launcher is the agent's own program, started ahead
// and waiting: told what to start, it gives up everything that the program must not
// have and becomes the program. So a run costs one execve, and nothing that happens
// between fork and exec has to be written without Go's runtime.
package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// Spec is what to start.
type Spec struct {
	// UID and GID are never 0.
	UID, GID int
	Argv     []string
	Env      []string
	Dir      string
	// TTY makes stdin the controlling terminal.
	TTY bool
	// Limits of each process, or of the user (Processes); 0 is none.
	Processes, FileBytes, CPUSeconds uint64
}

// maxSpec bounds an encoded spec: what execve takes at most, and the rest.
const maxSpec = 8 << 20

func (s *Spec) encode() []byte {
	b := make([]byte, 4, 1024)
	flags := uint64(0)
	if s.TTY {
		flags = 1
	}
	for _, n := range []uint64{uint64(s.UID), uint64(s.GID), flags, s.Processes, s.FileBytes, s.CPUSeconds, uint64(len(s.Argv)), uint64(len(s.Env))} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, list := range [][]string{s.Argv, s.Env, {s.Dir}} {
		for _, v := range list {
			b = append(append(b, v...), 0) // none holds NUL: execve could not take it
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (s *Spec) decode(b []byte) error {
	const numbers = 8
	bad := errors.New("malformed launch spec")
	if len(b) < 8*numbers {
		return bad
	}
	var n [numbers]uint64
	for i := range n {
		n[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	b = b[8*numbers:]
	*s = Spec{
		UID: int(n[0]), GID: int(n[1]), TTY: n[2] == 1,
		Processes: n[3], FileBytes: n[4], CPUSeconds: n[5],
	}
	texts := bytes.Split(b, []byte{0})
	if n[6] > maxSpec || n[7] > maxSpec || uint64(len(texts)) != n[6]+n[7]+2 || len(texts[len(texts)-1]) > 0 {
		return bad
	}
	for i, t := range texts[:len(texts)-1] {
		switch i := uint64(i); {
		case i < n[6]:
			s.Argv = append(s.Argv, string(t))
		case i < n[6]+n[7]:
			s.Env = append(s.Env, string(t))
		default:
			s.Dir = string(t)
		}
	}
	if s.UID <= 0 || s.GID <= 0 || len(s.Argv) == 0 {
		return bad
	}
	return nil
}

// Error is why a program could not be started.
type Error struct {
	// Stage is "exec", "dir", or what else failed.
	Stage string
	Errno syscall.Errno
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Stage, e.Errno.Error()) }
func (e *Error) Unwrap() error { return e.Errno }
