package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// minMemoryBytes is what a worker needs to start at all: the Go runtime counts
// what it maps, in pieces of 64 MiB, not what it uses.
const minMemoryBytes = 160 << 20

// startTimeout bounds how long a worker takes to be ready; it is milliseconds where
// nothing else runs.
const startTimeout = 30 * time.Second

// Interpreter runs scripts, each in a worker of its own. It is safe for
// concurrent use.
type Interpreter struct {
	cfg Config

	mu     sync.Mutex
	spare  *process // started and waiting, nil if there is none
	closed bool
	starts sync.WaitGroup
}

// New returns an interpreter and starts the first worker.
func New(cfg Config) (*Interpreter, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("shell: Config.Command is empty")
	}
	if cfg.Dir == "" {
		cfg.Dir = os.TempDir()
	}
	s := &Interpreter{cfg: cfg}
	p, err := s.started()
	if err != nil {
		return nil, err
	}
	s.spare = p
	return s, nil
}

// MinMemoryBytes is the least memory limit a run may have.
func (s *Interpreter) MinMemoryBytes() int64 { return minMemoryBytes }

// CacheErr is nil: nothing is compiled.
func (s *Interpreter) CacheErr() error { return nil }

// Close ends the waiting worker. No run may be in progress.
func (s *Interpreter) Close(context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.starts.Wait()
	if s.spare != nil {
		s.spare.end()
		s.spare = nil
	}
	return nil
}

// started starts a worker and waits until it asks for its job: it has limited
// itself by then, or says why it could not.
func (s *Interpreter) started() (*process, error) {
	p, err := start(s.cfg.Command, s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	_ = p.requests.SetReadDeadline(time.Now().Add(startTimeout))
	b, err := wire.ReadFrame(p.requests, wire.MaxFrame)
	if err == nil {
		_ = p.requests.SetReadDeadline(time.Time{})
		var q wire.Request
		if q, err = wire.ParseRequest(b); err == nil && q.Op != wire.OpJob {
			err = wire.ErrMalformed
		}
	}
	if err != nil {
		p.Kill()
		text := p.crashText()
		p.end()
		return nil, fmt.Errorf("start shell worker: %w: %.300s", err, text)
	}
	return p, nil
}

// take returns a worker that waits for its job, and has the next one started.
func (s *Interpreter) take() (*process, error) {
	s.mu.Lock()
	p := s.spare
	s.spare = nil
	if !s.closed {
		s.starts.Add(1)
		go s.refill()
	}
	s.mu.Unlock()
	if p != nil {
		select {
		case <-p.Dead(): // somebody ended it
			p.end()
		default:
			return p, nil
		}
	}
	return s.started()
}

// refill starts the worker of the next run. When that fails the run starts its
// own, and reports the error.
func (s *Interpreter) refill() {
	defer s.starts.Done()
	p, err := s.started()
	if err != nil {
		return
	}
	s.mu.Lock()
	if s.spare == nil && !s.closed {
		s.spare, p = p, nil
	}
	s.mu.Unlock()
	if p != nil {
		p.end()
	}
}
