package guest

import (
	"context"
	"io"
	"sync"
)

// stdin makes a reader's Read end with the run: a guest that waits for input
// is a host call that wazero cannot interrupt. One goroutine reads ahead of the
// guest by at most one Read, and only when the guest asks.
type stdin struct {
	run  *Run
	src  io.Reader
	want chan int       // asks the goroutine for one Read of at most so many bytes
	got  chan readChunk // its answer
	rest []byte
	err  error
	once sync.Once
	end  chan struct{}
}

type readChunk struct {
	b   []byte
	err error
}

// maxRead bounds what one Read of the source is asked for.
const maxRead = 64 << 10

// newStdin returns standard input that ends with the run; a nil src is at its end.
// The caller calls stop after the run.
func newStdin(r *Run, src io.Reader) *stdin {
	s := &stdin{run: r, src: src, want: make(chan int), got: make(chan readChunk, 1), end: make(chan struct{})}
	if src == nil {
		s.err = io.EOF
	}
	return s
}

// pump is the goroutine. It ends with the source, with stop, or, when stopped
// within a Read, as soon as that Read returns.
func (s *stdin) pump() {
	for {
		select {
		case n := <-s.want:
			b := make([]byte, n)
			n, err := s.src.Read(b)
			s.got <- readChunk{b[:n], err} // buffered: the guest may be gone
			if err != nil {
				return
			}
		case <-s.end:
			return
		}
	}
}

// Read implements io.Reader for the guest's goroutine.
func (s *stdin) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.once.Do(func() { go s.pump() })
		n := min(len(p), maxRead)
		if s.run.suspended() {
			s.run.aside(func(ctx context.Context) bool { return s.fetch(ctx, n) })
		} else if !s.fetch(s.run.ctx, n) {
			interrupt()
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// fetch waits for one Read of the goroutine's, and tells false when ctx ended.
func (s *stdin) fetch(ctx context.Context, n int) bool {
	select {
	case s.want <- n:
	case <-ctx.Done():
		return false
	}
	select {
	case c := <-s.got:
		s.rest, s.err = c.b, c.err
		return true
	case <-ctx.Done():
		return false
	}
}

// stop ends the goroutine and closes a source that can be closed.
func (s *stdin) stop() {
	close(s.end)
	if c, ok := s.src.(io.Closer); ok {
		_ = c.Close()
	}
}

// output passes writes on until the first error and counts none of it: limits
// on output are the caller's writer's business.
type output struct {
	dst io.Writer // nil discards
	err *error    // first error of any output of the run
	off bool
}

// Write implements io.Writer. It never fails: a program cannot do anything
// about a caller that no longer listens.
func (o *output) Write(p []byte) (int, error) {
	if o.dst == nil || o.off {
		return len(p), nil
	}
	if _, err := o.dst.Write(p); err != nil {
		o.off = true
		if *o.err == nil {
			*o.err = err
		}
	}
	return len(p), nil
}
