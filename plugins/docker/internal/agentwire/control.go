package agentwire

import (
	"context"
)

// Call is one call of a program (sdk/backend/control), from the agent on ChanCall. Its
// input follows on ChanContent: Size bytes, and nothing else in between.
type Call struct {
	ID, Name string
	Size     int
	// Withdrawn says that the program wants no answer any more; nothing follows. The
	// plugin still answers, with whatever, once nobody works on the call any more:
	// until then it counts as open.
	Withdrawn bool
}

func (m *Call) code(c *coder) { c.str(&m.ID); c.str(&m.Name); c.num(&m.Size); c.bool(&m.Withdrawn) }

// Reply answers a Call, from the plugin on ChanReply. What it says follows on
// ChanContent as with a Call.
type Reply struct {
	ID   string
	Size int
	// Error says that what follows is the text of an error.
	Error bool
}

func (m *Reply) code(c *coder) { c.str(&m.ID); c.num(&m.Size); c.bool(&m.Error) }

// SendWith sends a message and the content that it announces. Messages with content
// are sent one at a time.
func (s *Stream) SendWith(ctx context.Context, ch Channel, m Message, content []byte) error {
	if err := s.SendMessage(ctx, ch, m); err != nil {
		return err
	}
	return s.Send(ctx, ChanContent, content)
}

// RecvContent receives the content of a message, of size bytes. It allocates what has
// come, not what was announced.
func (s *Stream) RecvContent(ctx context.Context, size int) ([]byte, error) {
	if size < 0 {
		return nil, protocolError("content of %d bytes", size)
	}
	var b []byte
	for len(b) < size {
		it, err := s.Recv(ctx)
		if err != nil {
			return nil, err
		}
		if it.Channel != ChanContent || it.Message || len(b)+len(it.Data) > size {
			return nil, protocolError("something else in content of %d bytes", size)
		}
		b = append(b, it.Data...)
	}
	return b, nil
}

// RecvMessage receives a message on a channel into m; anything else is an error.
func (s *Stream) RecvMessage(ctx context.Context, ch Channel, m Message) error {
	it, err := s.Recv(ctx)
	if err != nil {
		return err
	}
	if it.Channel != ch || !it.Message {
		return protocolError("channel %d instead of %d", it.Channel, ch)
	}
	return Decode(it.Data, m)
}
