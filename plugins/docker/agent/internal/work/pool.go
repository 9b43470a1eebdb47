//go:build linux

package work

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/reap"
)

// The user ids of programs, and the group that owns what the agent keeps for them. The
// group of the programs themselves is that of the working directory.
const (
	FirstUID   = 20000
	LastUID    = 59999
	KeeperGID  = 19999
	DefaultGID = 20000
)

// IsProgram reports whether a user id is one of those that programs have.
func IsProgram(uid int) bool { return uid >= FirstUID && uid <= LastUID }

// Pool leases user ids. A user id is not leased while anything runs as it.
type Pool struct {
	// session is the user id of foreground runs, one after the other, so that each may
	// do with the files of the one before what an owner may.
	session int

	mu     sync.Mutex
	leased map[int]*Lease
	next   int
}

// NewPool returns a pool in which foreground runs have the user id session.
func NewPool(session int) *Pool {
	return &Pool{session: session, leased: make(map[int]*Lease), next: session}
}

// Lease is a user id while something runs as it.
type Lease struct {
	UID int

	mu     sync.Mutex
	cpu    time.Duration
	rss    int64
	killed int           // processes that SIGKILL ended
	woken  chan struct{} // one of them was reaped
}

var errNoUID = errors.New("every user id is in use")

// Take leases a user id, that of the session when it is free and asked for.
func (p *Pool) Take(session bool) (*Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session && p.free(p.session) {
		return p.take(p.session), nil
	}
	for range LastUID - FirstUID {
		if p.next++; p.next > LastUID {
			p.next = FirstUID
		}
		if p.next != p.session && p.free(p.next) {
			return p.take(p.next), nil
		}
	}
	return nil, errNoUID
}

func (p *Pool) free(uid int) bool { return p.leased[uid] == nil && !kernel.Alive(uid) }

func (p *Pool) take(uid int) *Lease {
	l := &Lease{UID: uid, woken: make(chan struct{}, 1)}
	p.leased[uid] = l
	return l
}

// Give ends a lease.
func (p *Pool) Give(l *Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.leased, l.UID)
}

// Leased counts leases.
func (p *Pool) Leased() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.leased)
}

// Ended takes note of a process that ended; it is the reaper's.
func (p *Pool) Ended(e reap.Exit) {
	p.mu.Lock()
	l := p.leased[e.UID]
	p.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	l.cpu += e.CPU
	l.rss = max(l.rss, e.RSS)
	if e.Signal == sigKill {
		l.killed++
	}
	l.mu.Unlock()
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// used is what processes that ended had used.
func (l *Lease) used() (cpu time.Duration, rss int64, killed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cpu, l.rss, l.killed
}

// discount takes off what was used before a program began.
func (l *Lease) discount(cpu time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cpu -= cpu
}

// EndOrphans ends what runs as a program's user although no agent knows of it: what an
// agent that died left behind.
func EndOrphans(k *kernel.Killer) error {
	seen := make(map[int]bool)
	for _, p := range kernel.Processes() {
		if IsProgram(p.UID) && !seen[p.UID] {
			seen[p.UID] = true
			if err := k.KillAll(p.UID, 5*time.Second, nil); err != nil {
				return fmt.Errorf("end what an earlier agent left: %w", err)
			}
		}
	}
	return nil
}
