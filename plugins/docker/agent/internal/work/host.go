//go:build linux

package work

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/launch"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/tree"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

const (
	// maxWaiting is how many foreground runs may wait for another to end.
	maxWaiting = 32
	// maxJobs is how many runs are known at a time, ended ones included.
	maxJobs = 256
	// keepEnded is how long a run that ended is known, for those who lost their
	// connection, or who attach to a detached one late.
	keepEnded         = time.Minute
	keepDetachedEnded = time.Hour
	// keepOutput is how much output of runs that ended is kept at the most.
	keepOutput = 32 << 20
	// cleanTime bounds what is done after a program ended.
	cleanTime = 30 * time.Second
	// reservedPids are processes and threads of the container that programs do not get.
	reservedPids = 64
)

// Host is what work is done with. Its exported fields are set before anything else
// and stay.
type Host struct {
	FS       *tree.FS
	Pool     *Pool
	Killer   *kernel.Killer
	Launcher *launch.Launcher
	Index    *changes.Index
	// Programs is the directory for programs; see MakePrograms.
	Programs string
	// Env is the container's environment, as NAME=value.
	Env []string
	// User is what the session's user is called.
	User string

	turn    chan struct{} // holds a token while no foreground run is under way
	mu      sync.Mutex
	waiting int
	jobs    map[string]*Job
	over    []*Job // those of jobs that ended, the oldest first
	terms   map[int]*Terminal
	busy    int
	idle    time.Time // since when nothing is under way
}

// Open makes the host ready; its exported fields are set.
func (h *Host) Open() {
	h.turn = make(chan struct{}, 1)
	h.turn <- struct{}{}
	h.jobs, h.terms, h.idle = make(map[string]*Job), make(map[int]*Terminal), time.Now()
}

// enter counts something that is under way; leave must follow.
func (h *Host) enter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy++
}

func (h *Host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy--
	h.idle = time.Now()
}

// Touch says that the host was used.
func (h *Host) Touch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = time.Now()
}

// Busy returns how much is under way, and how long nothing has been.
func (h *Host) Busy() (n int, idle time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy > 0 {
		return h.busy, 0
	}
	return 0, time.Since(h.idle)
}

// takeTurn waits until no other foreground run is under way; giveTurn must follow.
func (h *Host) takeTurn(ctx context.Context) error {
	h.mu.Lock()
	if h.waiting > maxWaiting {
		h.mu.Unlock()
		return &agentwire.Fault{Kind: "capacity", Text: fmt.Sprintf("%d runs wait for this sandbox", maxWaiting)}
	}
	h.waiting++
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting--
	}()
	select {
	case <-h.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *Host) giveTurn() { h.turn <- struct{}{} }

// MakePrograms makes the directory for programs: each run makes its own in there, by a
// group that programs are not in, and nobody may list it.
func MakePrograms(dir string) error {
	return kernel.As(0, KeeperGID, func() error {
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return err
		}
		if err := os.Chown(dir, -1, KeeperGID); err != nil {
			return err
		}
		return unix.Chmod(dir, 0o1731)
	})
}

// programDir makes the directory of one run, which its user owns and no other enters.
func (h *Host) programDir(uid int) (string, error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	dir := path.Join(h.Programs, hex.EncodeToString(random[:]))
	err := kernel.As(uid, KeeperGID, func() error { return os.Mkdir(dir, 0o700) })
	if err == nil {
		err = kernel.As(uid, h.FS.GID, func() error { return os.Chown(dir, -1, h.FS.GID) })
	}
	return dir, err
}

func (h *Host) removeProgramDir(uid int, dir string) {
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	own := &tree.FS{UID: uid, GID: KeeperGID, Programs: IsProgram}
	_ = own.Remove(ctx, dir) // what stays is in nobody's way: the next run has another
}

// end gives a lease back once nothing runs as its user, and removes what the user left
// where everybody may write. Where something does not die the user id is not used again.
func (h *Host) end(l *Lease) {
	if err := h.Killer.KillAll(l.UID, killPatience, l.woken); err != nil {
		go func() {
			if h.Killer.KillAll(l.UID, time.Hour, l.woken) == nil {
				h.clean(l)
			}
		}()
		return
	}
	h.clean(l)
}

// clean gives a lease back in any case: programs of other users may fill what this one's
// left faster than it is removed.
func (h *Host) clean(l *Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	_ = h.FS.Clean(ctx, l.UID) // a later run of the same user tries again
	h.Killer.RemoveIPC(l.UID)
	h.Pool.Give(l)
}

// environment returns the container's environment with what programs are told, the
// later the stronger.
func (h *Host) environment(add []agentwire.Pair, dir string) []string {
	env := []string{"HOME=/tmp", "USER=" + h.User, "LOGNAME=" + h.User, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	index := make(map[string]int, len(h.Env)+len(add))
	put := func(name, value string) {
		if i, ok := index[name]; ok {
			env[i] = name + "=" + value
			return
		}
		index[name] = len(env)
		env = append(env, name+"="+value)
	}
	for i, v := range env {
		name, _, _ := strings.Cut(v, "=")
		index[name] = i
	}
	for _, v := range h.Env {
		if name, value, ok := strings.Cut(v, "="); ok && name != "HOME" && name != "HOSTNAME" {
			put(name, value)
		}
	}
	for _, p := range add {
		value := p.Value
		if dir != "" {
			value = strings.ReplaceAll(value, "{dir}", dir)
		}
		put(p.Name, value)
	}
	return env
}

// limits of a program's processes.
func limits(l agentwire.Limits) (processes, fileBytes, cpuSeconds uint64) {
	if all := kernel.PidsLimit(); all > 0 {
		processes = uint64(max(all-reservedPids, all/4, 1))
	}
	if l.Processes > 0 && (processes == 0 || uint64(l.Processes) < processes) {
		processes = uint64(l.Processes)
	}
	fileBytes = uint64(l.DiskBytes)
	if l.CPU > 0 {
		cpuSeconds = uint64((l.CPU+time.Second-1)/time.Second) + 1 // the watch is finer
	}
	return processes, fileBytes, cpuSeconds
}
