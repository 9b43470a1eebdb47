package typescript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// MaxSourceBytes is the largest source that is transformed.
const MaxSourceBytes = 4 << 20

// maxTime bounds a transform whose context has no deadline, or a late one.
const maxTime = 20 * time.Second

// Errors of Transform.
var (
	// ErrTooLarge: the source has more than MaxSourceBytes.
	ErrTooLarge = errors.New("the file is too large for the TypeScript compiler")
	// ErrGaveUp: the compiler needed more time or memory than a source is
	// worth.
	ErrGaveUp = errors.New("the TypeScript compiler gave up: the file nests too deep or is too complex")
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("the TypeScript compiler was closed")
)

// Pool starts helper processes and keeps some that have nothing to do. It is
// safe for concurrent use.
type Pool struct {
	command []string

	mu     sync.Mutex
	idle   []*helper
	closed bool
}

// maxIdle is how many helpers are kept for the next transform. Each takes some
// 20 MB.
const maxIdle = 1

// NewPool returns a pool whose helpers are started by command, which must lead
// to Serve. It starts none yet.
func NewPool(command []string) *Pool { return &Pool{command: command} }

// Close ends the helpers that have nothing to do. Transforms in progress end
// theirs.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, h := range p.idle {
		h.end()
	}
	p.idle = nil
}

// Transform turns a source into JavaScript. file names it in messages. An error
// wraps one of this package's, is the context's, or is the host's fault; what
// is wrong with the source is in the Result.
func (p *Pool) Transform(ctx context.Context, file, source string) (Result, error) {
	if len(source) > MaxSourceBytes {
		return Result{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(source), MaxSourceBytes)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, ErrGaveUp)
	defer cancel()
	h, err := p.take()
	if err != nil {
		return Result{}, err
	}
	stop := context.AfterFunc(ctx, h.kill)
	res, err := h.transform(file, source)
	if !stop() || err != nil {
		h.end()
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		return Result{}, err
	}
	p.give(h)
	return res, nil
}

func (p *Pool) take() (*helper, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if n := len(p.idle); n > 0 {
		h := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return h, nil
	}
	return start(p.command)
}

func (p *Pool) give(h *helper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		h.end()
		return
	}
	p.idle = append(p.idle, h)
}

// helper is one process. One goroutine uses it at a time, but for kill.
type helper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *io.LimitedReader
	enc *json.Encoder
	dec *json.Decoder
}

func start(command []string) (*helper, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{} // nothing of ours
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start TypeScript compiler: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start TypeScript compiler: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start TypeScript compiler: %w", err)
	}
	h := &helper{cmd: cmd, in: in, out: &io.LimitedReader{R: out}, enc: json.NewEncoder(in)}
	h.dec = json.NewDecoder(h.out)
	return h, nil
}

// growth bounds the size of an answer, as a multiple of the source's: code, map
// and what JSON adds to both.
const growth = 32

func (h *helper) transform(file, source string) (Result, error) {
	h.out.N = growth*int64(len(source)) + 1<<20
	if err := h.enc.Encode(request{file, source}); err != nil {
		return Result{}, ErrGaveUp // it has died
	}
	var res Result
	if err := h.dec.Decode(&res); err != nil {
		return Result{}, ErrGaveUp // it has died, or does not come to an end
	}
	return res, nil
}

func (h *helper) kill() { _ = h.cmd.Process.Kill() }

// end kills the process and waits for it.
func (h *helper) end() {
	h.kill()
	_ = h.in.Close()
	_ = h.cmd.Wait() // killed: there is nothing to learn from it
}
