package agentwire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// Stream is one request with what flows until its answer. Sending is safe for concurrent
// use; Recv is for one goroutine at a time.
type Stream struct {
	conn    *Conn
	id      uint32
	op      Op
	request []byte

	mu       sync.Mutex
	changed  chan struct{} // closed and renewed when anything below changes
	credit   int           // what this side may send
	queue    []Item
	queued   int // cost of what came and was not consumed
	owed     int // cost of what was consumed and not granted again
	canceled chan struct{}
	end      []byte // the answer, on the plugin's side
	err      error  // the connection's
	closed   bool   // this side ended it, or left
}

// Item is something that came on a stream.
type Item struct {
	Channel Channel
	// Message tells a message from data.
	Message bool
	Data    []byte
}

func cost(n int) int { return n + frameCost }

func newStream(c *Conn, id uint32) *Stream {
	return &Stream{conn: c, id: id, credit: Window, changed: make(chan struct{}), canceled: make(chan struct{})}
}

// Op is what the plugin asks for.
func (s *Stream) Op() Op { return s.op }

// Request reads the request into m.
func (s *Stream) Request(m Message) error { return Decode(s.request, m) }

// Canceled is closed when the plugin does not wait for the answer any more, or the
// connection has ended.
func (s *Stream) Canceled() <-chan struct{} { return s.canceled }

// Lost reports whether the connection has ended.
func (s *Stream) Lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// wake tells everybody who waits; the caller holds mu.
func (s *Stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Stream) cancelOnce() {
	select {
	case <-s.canceled:
	default:
		close(s.canceled)
	}
}

func (s *Stream) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.cancelOnce()
	s.wake()
}

// take is called by the connection's reader.
func (s *Stream) take(f frame) error {
	server := s.conn.serve != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.kind {
	case KindData, KindMessage:
		if s.queued += cost(len(f.payload)); s.queued+s.owed > Window {
			return protocolError("more on stream %d than was granted", s.id)
		}
		if s.closed { // nobody will consume it, and nothing more is granted
			return nil
		}
		s.queue = append(s.queue, Item{Channel(f.payload[0]), f.kind == KindMessage, f.payload[1:]})
	case KindCredit:
		n := binary.BigEndian.Uint32(f.payload)
		if n > Window || s.credit+int(n) > Window {
			return protocolError("credit of %d bytes on stream %d", n, s.id)
		}
		s.credit += int(n)
	case KindCancel:
		if !server {
			return protocolError("the agent cancels")
		}
		s.cancelOnce()
	case KindEnd:
		if server {
			return protocolError("the plugin answers")
		}
		s.end = f.payload
		s.cancelOnce()
	}
	s.wake()
	return nil
}

// Send sends data on a channel, in as many frames as it takes. It waits for credit.
// After the answer it fails with io.ErrClosedPipe.
func (s *Stream) Send(ctx context.Context, ch Channel, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), MaxData)
		if err := s.put(ctx, KindData, ch, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// ErrTooLong says that a message does not fit into a frame.
var ErrTooLong = errors.New("message too long")

// SendMessage sends one message on a channel.
func (s *Stream) SendMessage(ctx context.Context, ch Channel, m Message) error {
	b := Encode(m)
	if len(b) > MaxData {
		return ErrTooLong
	}
	return s.put(ctx, KindMessage, ch, b)
}

func (s *Stream) put(ctx context.Context, kind Kind, ch Channel, p []byte) error {
	need := cost(1 + len(p))
	for {
		s.mu.Lock()
		changed := s.changed
		switch {
		case s.err != nil:
			defer s.mu.Unlock()
			return s.err
		case s.end != nil || s.closed:
			s.mu.Unlock()
			return io.ErrClosedPipe
		case s.credit >= need:
			s.credit -= need
			s.mu.Unlock()
			if err := s.conn.lock(ctx); err != nil {
				s.refund(need) // nothing was written
				return err
			}
			defer s.conn.unlock()
			return s.conn.put(kind, s.id, []byte{byte(ch)}, p)
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refund gives credit back that was not used.
func (s *Stream) refund(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit += n
	s.wake()
}

// Recv returns what comes next, in order. It returns io.EOF when there is nothing left
// and the answer is there (plugin) or the request was cancelled (agent).
func (s *Stream) Recv(ctx context.Context) (Item, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		if len(s.queue) > 0 {
			it := s.queue[0]
			s.queue[0] = Item{}
			if s.queue = s.queue[1:]; len(s.queue) == 0 {
				s.queue = nil
			}
			s.mu.Unlock()
			s.consume(ctx, cost(1+len(it.Data)))
			return it, nil
		}
		err := s.err
		if err == nil && (s.end != nil || s.closed) {
			err = io.EOF
		}
		s.mu.Unlock()
		if err != nil {
			return Item{}, err
		}
		if s.conn.serve != nil {
			select {
			case <-s.canceled:
				return Item{}, io.EOF
			default:
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Item{}, context.Cause(ctx)
		}
	}
}

// consume grants again what was taken out of the queue, in portions. When that fails
// the connection has ended, which the next Recv says.
func (s *Stream) consume(ctx context.Context, n int) {
	s.mu.Lock()
	s.queued -= n
	s.owed += n
	grant := 0
	if s.owed >= Window/2 && s.end == nil && s.err == nil {
		grant, s.owed = s.owed, 0
	}
	s.mu.Unlock()
	if grant > 0 {
		_ = s.conn.send(context.WithoutCancel(ctx), KindCredit, s.id, binary.BigEndian.AppendUint32(nil, uint32(grant)))
	}
}

// Answer reads the answer into m once Recv returned io.EOF.
func (s *Stream) Answer(m Message) error {
	s.mu.Lock()
	end, err := s.end, s.err
	s.mu.Unlock()
	if end == nil {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return ReadAnswer(end, m)
}

// End answers and ends the stream; only the first answer counts. It is the agent's.
func (s *Stream) End(payload []byte) {
	s.mu.Lock()
	over := s.closed || s.err != nil
	s.closed = true
	s.queue = nil
	s.wake()
	s.mu.Unlock()
	if over {
		return
	}
	s.conn.mu.Lock()
	if s.conn.streams != nil {
		delete(s.conn.streams, s.id)
	}
	s.conn.mu.Unlock()
	_ = s.conn.send(context.Background(), KindEnd, s.id, payload)
}

// Leave cancels the request unless it was answered; nothing that still comes is kept.
// It is the plugin's, and does not wait.
func (s *Stream) Leave() {
	s.mu.Lock()
	over := s.end != nil || s.closed || s.err != nil
	s.closed = true
	s.queue = nil
	s.wake()
	s.mu.Unlock()
	if !over {
		s.conn.background(KindCancel, s.id)
	}
}

// Cancel asks for the answer at once and goes on receiving. It is the plugin's.
func (s *Stream) Cancel(ctx context.Context) error {
	return s.conn.send(ctx, KindCancel, s.id)
}
