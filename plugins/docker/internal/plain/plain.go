// Package plain works in a container with nothing but commands that the engine
// starts there: a POSIX shell, GNU find and coreutils. It is what is left where the
// resident agent cannot run, tens of times slower and as safe: everything happens
// as the user that programs are, who can reach nothing through a link that a program
// could not open itself.
package plain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Box is one running container.
type Box struct {
	Engine *engine.Engine
	// Container is its id at the engine, ID the sandbox's.
	Container, ID string
	// User is UID:GID of programs.
	User string
	// Env is the sandbox's environment, added to the image's.
	Env map[string]string
	// Spool is a directory for content whose size is not known yet.
	Spool string
	// Others counts what runs beside a run: commands and terminals.
	Others *atomic.Int64
}

// Statuses with which scripts say what is in the way. They are above what tools
// return and below signals.
const (
	exitLink    = 71 // a component of the path is a link
	exitAbsent  = 72
	exitNotFile = 73
	exitNotDir  = 74
	exitExists  = 75
	exitFailed  = 78 // whatever the tool said
)

// prelude refuses paths that lead through a link. It and all that follows it get
// paths as arguments, never as text of a script.
const prelude = `set -f
guard() {
	cur=; IFS=/
	for part in ${1%/*}; do
		[ -n "$part" ] || continue
		cur=$cur/$part
		[ ! -L "$cur" ] || exit 71
	done
	unset IFS
}
present() { [ -e "$1" ] || [ -L "$1" ]; }
`

// maxTrouble is how much of a tool's complaint is looked at.
const maxTrouble = 2 << 10

// script runs a script as the user of programs; what it prints goes to stdout.
func (b *Box) script(ctx context.Context, op, path, text string, stdin io.Reader, stdout func([]byte) error, args ...string) error {
	var trouble, head bytes.Buffer
	code, err := b.Engine.Exec(ctx, engine.Command{
		Container: b.Container, User: b.User, Dir: "/", Stdin: stdin,
		Argv: append([]string{"/bin/sh", "-c", prelude + text, "caisson"}, args...),
	}, engine.Streams{
		Stdout: func(p []byte) error {
			keep(&head, p)
			if stdout == nil {
				return nil
			}
			return stdout(p)
		},
		Stderr: func(p []byte) error {
			keep(&trouble, p)
			return nil
		},
	})
	if err != nil {
		return b.fail(ctx, op, err)
	}
	if engine.NotStarted(code, head.String()) {
		return engine.Errorf(backend.KindUnsupported, op, backend.SubjectTemplate, "the image has no /bin/sh, which files need without the agent")
	}
	return fileError(op, path, code, trouble.String())
}

func keep(b *bytes.Buffer, p []byte) {
	b.Write(p[:min(len(p), max(0, maxTrouble-b.Len()))])
}

// fail types an error of the engine about this container.
func (b *Box) fail(ctx context.Context, op string, err error) error {
	if errors.Is(err, engine.ErrLost) && ctx.Err() == nil {
		return engine.Errorf(backend.KindUnavailable, op, backend.SubjectSandbox, "the engine went away before the answer came")
	}
	if engine.IsAbsent(err) && strings.Contains(err.Error(), "No such container") {
		return engine.Absent(op, b.ID)
	}
	return engine.Fail(ctx, op, backend.SubjectSandbox, err)
}

// fileError makes an error of how a script ended.
func fileError(op, path string, code int, trouble string) error {
	says := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(trouble, p) {
				return true
			}
		}
		return false
	}
	switch {
	case code == 0:
		return nil
	case says("No space left", "Disk quota"):
		return engine.FileError(backend.KindCapacity, op, path, "the sandbox's storage is full")
	case code == exitLink:
		return engine.FileError(backend.KindInvalidRequest, op, path, "the path leads through a link")
	case code == exitAbsent:
		return engine.FileError(backend.KindNotFound, op, path, "no such file")
	case code == exitNotFile:
		return engine.FileError(backend.KindInvalidRequest, op, path, "not a regular file")
	case code == exitNotDir, says("Not a directory"):
		return engine.FileError(backend.KindInvalidRequest, op, path, "not a directory")
	case code == exitExists:
		return engine.FileError(backend.KindConflict, op, path, "exists already")
	case says("ermission denied", "Read-only"):
		return engine.FileError(backend.KindInvalidRequest, op, path, "permission denied")
	case says("File name too long"):
		return engine.FileError(backend.KindInvalidRequest, op, path, "the name is too long")
	case code == 127, says("not found"):
		return engine.FileError(backend.KindUnsupported, op, path, "the image lacks a tool that files need without the agent")
	}
	return engine.FileError(backend.KindInternal, op, path, fmt.Sprintf("the sandbox's tools failed with status %d", code))
}

func checkPath(op, path string) error {
	if err := backend.CheckPath(path); err != nil {
		return engine.FileError(backend.KindInvalidRequest, op, shorten(path), err.Error())
	}
	return nil
}

func shorten(path string) string {
	if len(path) > 200 {
		return path[:200] + "…"
	}
	return path
}
