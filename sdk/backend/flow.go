package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Content that a host sends into a run shares one stream with its cancellation.
// So that the latter is never stuck behind the former, the plugin always reads,
// and what it may have to hold is bounded by credit: feed is the receiving end,
// credit the sending one.

// chunk is a piece of the content with that index (0 for stdin).
type chunk struct {
	index int
	data  []byte
	last  bool
	err   error
}

// feed queues at most window bytes between the goroutine that receives frames
// and the one that reads content.
type feed struct {
	grant func(n int64) // tells the sender; called without mu

	mu       sync.Mutex
	queue    []chunk
	size     int   // bytes in queue
	consumed int64 // not granted again yet
	end      error // set once nothing more can come
	changed  chan struct{}
	discard  bool
}

func newFeed(grant func(int64)) *feed {
	return &feed{grant: grant, changed: make(chan struct{}, 1)}
}

// push queues what was received. It never blocks.
func (f *feed) push(c chunk) error {
	f.mu.Lock()
	if f.discard {
		f.mu.Unlock()
		return nil
	}
	if f.size+len(c.data) > window {
		f.mu.Unlock()
		return errors.New("content beyond what was granted")
	}
	f.size += len(c.data)
	f.queue = append(f.queue, c)
	f.mu.Unlock()
	f.wake()
	return nil
}

// finish makes readers fail with err once the queue is empty.
func (f *feed) finish(err error) {
	f.mu.Lock()
	if f.end == nil {
		f.end = err
	}
	f.mu.Unlock()
	f.wake()
}

// drop discards what is queued and what may still come, without granting more:
// nobody will read it.
func (f *feed) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.size, f.discard = nil, 0, true
}

func (f *feed) next(ctx context.Context) (chunk, error) {
	for {
		f.mu.Lock()
		if len(f.queue) > 0 {
			c := f.queue[0]
			f.queue = f.queue[1:]
			f.size -= len(c.data)
			f.mu.Unlock()
			return c, nil
		}
		end := f.end
		f.mu.Unlock()
		if end != nil {
			return chunk{}, end
		}
		select {
		case <-ctx.Done():
			return chunk{}, ctx.Err()
		case <-f.changed:
		}
	}
}

// took counts bytes that left the queue and grants them again in good portions.
func (f *feed) took(n int) {
	f.mu.Lock()
	f.consumed += int64(n)
	give := int64(0)
	if f.consumed >= window/4 {
		give, f.consumed = f.consumed, 0
	}
	f.mu.Unlock()
	if give > 0 {
		f.grant(give)
	}
}

func (f *feed) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// feedReader reads the content with one index. One at a time reads a feed.
type feedReader struct {
	ctx   context.Context
	feed  *feed
	index int

	cur []byte
	err error
}

func (r *feedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.cur) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		c, err := r.feed.next(r.ctx)
		if err != nil {
			r.err = err
			return 0, err
		}
		switch {
		case c.index < r.index: // the rest of one that was not read to its end
			r.feed.took(len(c.data))
			continue
		case c.index > r.index:
			r.err = fmt.Errorf("content %d came before the end of content %d", c.index, r.index)
			return 0, r.err
		}
		r.cur = c.data
		switch {
		case c.err != nil:
			r.err = c.err
		case c.last:
			r.err = io.EOF
		}
	}
	n := copy(p, r.cur)
	r.cur = r.cur[n:]
	r.feed.took(n)
	return n, nil
}

// credit is what may still be sent.
type credit struct {
	mu     sync.Mutex
	left   int64
	gained chan struct{}
}

func newCredit() *credit { return &credit{left: window, gained: make(chan struct{}, 1)} }

// take waits for credit and returns between 1 and most bytes of it. One
// goroutine takes.
func (c *credit) take(ctx context.Context, most int) (int, error) {
	for {
		c.mu.Lock()
		n := min(int64(most), c.left)
		c.left -= n
		c.mu.Unlock()
		if n > 0 {
			return int(n), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-c.gained:
		}
	}
}

// give returns or adds credit, up to the window: a peer that grants more than
// it took is wrong.
func (c *credit) give(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 || n > window || c.left+n > window {
		return errors.New("credit beyond the window")
	}
	c.left += n
	select {
	case c.gained <- struct{}{}:
	default:
	}
	return nil
}
