package control

import (
	"bytes"
	"context"
	"io"
)

// smallFrame is what a connection may hold of a frame without asking; a larger one is
// read by one connection at a time, so that none waits for what another holds.
const smallFrame = 16 << 10

// Conn is one connection of a program. None of its methods waits but Read and Write;
// who must not wait uses TryRead and TryWrite and Run.Suspended's channel. It is safe
// for concurrent use by one reader and one writer.
type Conn struct {
	run    *Run
	ctx    context.Context // of its calls
	cancel context.CancelFunc

	// The rest is guarded by run.mu.
	frame   []byte // what there is of the next frame
	charged int    // bytes of frame that count as held
	out     []byte // answers to be fetched
	waiting map[string]context.CancelFunc
	ended   bool // no further frames: the program broke the rules, or the run is over
	closed  bool // nobody reads or writes any more
}

// TryWrite takes over bytes from the program, as many as there is room for now, and
// begins the calls that are complete. io.ErrClosedPipe: the connection has ended.
func (c *Conn) TryWrite(p []byte) (n int, err error) {
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(p) > 0 {
		if c.ended || c.closed {
			return n, io.ErrClosedPipe
		}
		at := bytes.IndexByte(p, '\n')
		part := p
		if at >= 0 {
			part = p[:at]
		}
		m := c.room(len(part))
		c.frame = append(c.frame, part[:m]...)
		n, p = n+m, p[m:]
		switch {
		case len(c.frame) >= MaxFrame:
			c.fail()
		case m < len(part):
			return n, nil
		case at < 0:
			return n, nil
		case r.asking >= MaxOpen:
			return n, nil
		default:
			n, p = n+1, p[1:]
			c.complete()
		}
	}
	return n, nil
}

// room is how many of n further bytes of a frame may be taken now. The caller holds mu.
func (c *Conn) room(n int) int {
	r := c.run
	free := max(smallFrame-len(c.frame), 0)
	n = min(n, MaxFrame-len(c.frame))
	if n <= free {
		return n
	}
	if r.large != nil && r.large != c {
		return free
	}
	r.large = c
	more := min(n-free, max(MaxHeld-r.held, 0))
	r.held += more
	c.charged += more
	return free + more
}

// complete begins the call whose frame is complete. The caller holds mu.
func (c *Conn) complete() {
	r := c.run
	line := c.frame
	c.release()
	call, err := parseCall(line)
	if err != nil || c.waiting[call.ID] != nil {
		c.fail()
		return
	}
	id := call.ID
	ctx, cancel := context.WithCancel(c.ctx)
	c.waiting[id] = cancel
	call.ID = r.begin(len(call.Input))
	r.announce()
	r.calls.Go(func() {
		defer cancel()
		reply, err := r.cfg.Call(ctx, call)
		// An error of ctx: it was withdrawn, or the run is over: then Close withdraws it.
		settled := err == nil || ctx.Err() == nil
		if err != nil && settled {
			reply = Reply{Error: "the call failed"}
			r.cfg.Gone(err)
		}
		c.returned(id, len(call.Input), reply, settled)
	})
}

// returned is the end of a call of n bytes of input: its answer is queued unless it was
// withdrawn, or is not settled.
func (c *Conn) returned(id string, n int, reply Reply, settled bool) {
	var text []byte
	if settled {
		text = appendReply(nil, id, reply)
	}
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.announce()
	r.asking--
	r.held -= n
	if c.waiting[id] == nil || !settled {
		return
	}
	delete(c.waiting, id)
	if r.kept+len(text) > maxKept {
		text = appendReply(nil, id, Reply{Error: "too many answers wait to be read"})
	}
	r.kept += len(text)
	c.out = append(c.out, text...)
	r.settle()
}

// TryRead hands over what there is for the program. io.EOF: there is and will be
// nothing more. (0, nil): not now.
func (c *Conn) TryRead(p []byte) (int, error) {
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(c.out) == 0 {
		if c.ended || c.closed {
			return 0, io.EOF
		}
		return 0, nil
	}
	n := copy(p, c.out)
	if c.out = c.out[n:]; len(c.out) == 0 {
		c.out = nil
	}
	r.kept -= n
	return n, nil
}

// Readable reports whether TryRead has something to say, Writable whether TryWrite
// takes at least one byte more of any frame, or says why not.
func (c *Conn) Readable() bool {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	return len(c.out) > 0 || c.ended || c.closed
}

// Writable: see Readable.
func (c *Conn) Writable() bool {
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.ended || c.closed {
		return true
	}
	large := len(c.frame) >= smallFrame && (r.large != nil && r.large != c || r.held >= MaxHeld)
	return !large && r.asking < MaxOpen
}

// Read is io.Reader for goroutines of the host.
func (c *Conn) Read(p []byte) (int, error) {
	return c.wait(func() (int, error) { return c.TryRead(p) })
}

// Write is io.Writer for goroutines of the host.
func (c *Conn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := c.wait(func() (int, error) { return c.TryWrite(p[n:]) })
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (c *Conn) wait(try func() (int, error)) (int, error) {
	for {
		_, changed := c.run.Suspended()
		if n, err := try(); n > 0 || err != nil {
			return n, err
		}
		<-changed // at the latest when the run is closed
	}
}

// Close withdraws the calls that are open on the connection.
func (c *Conn) Close() error {
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	c.drop()
	r.announce()
	return nil
}

// fail ends the connection of a program that breaks the rules. The caller holds mu.
func (c *Conn) fail() {
	c.release()
	c.ended = true
	c.withdraw()
	c.run.announce()
}

// drop forgets the connection. The caller holds mu.
func (c *Conn) drop() {
	if c.closed {
		return
	}
	c.closed = true
	c.release()
	c.withdraw()
	c.run.kept -= len(c.out)
	c.out = nil
	c.cancel()
	delete(c.run.conns, c)
}

// withdraw cancels the open calls, whose answers nobody waits for any more. The clock
// goes on at once; their room is free when those who were asked have returned, who would
// otherwise be asked more than MaxOpen calls at once.
func (c *Conn) withdraw() {
	for id, cancel := range c.waiting {
		delete(c.waiting, id)
		cancel()
		c.run.settle()
	}
}

// release gives back what the frame held.
func (c *Conn) release() {
	c.run.held -= c.charged
	c.frame, c.charged = nil, 0
	if c.run.large == c {
		c.run.large = nil
	}
}
