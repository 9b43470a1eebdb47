package agentwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Kind is what a frame is.
type Kind byte

const (
	// KindOpen begins a stream (plugin to agent): an Op and its request.
	KindOpen Kind = 1 + iota
	// KindData carries bytes of a channel.
	KindData
	// KindMessage carries one message of a channel.
	KindMessage
	// KindCredit lets the other side send so many more bytes on the stream.
	KindCredit
	// KindCancel says that nobody waits for the answer any more (plugin to agent).
	KindCancel
	// KindEnd is the answer and the end of the stream (agent to plugin).
	KindEnd
)

const (
	headerSize = 9
	// MaxData bounds what one KindData or KindMessage carries, beside its channel.
	MaxData = 64 << 10
	// MaxOpen bounds a request and MaxEnd an answer.
	MaxOpen = 4 << 20
	MaxEnd  = 1 << 20
	// Window is the credit of a new stream in each direction.
	Window = 256 << 10
	// frameCost is what a frame costs beside its bytes, so that empty ones are not free.
	frameCost = 64
)

// limit is the longest payload of a kind, -1 for what is no kind.
func (k Kind) limit() int {
	switch k {
	case KindOpen:
		return MaxOpen
	case KindData, KindMessage:
		return 1 + MaxData
	case KindCredit:
		return 4
	case KindCancel:
		return 0
	case KindEnd:
		return MaxEnd
	}
	return -1
}

// ErrProtocol is in the chain of errors about a peer that breaks the protocol.
var ErrProtocol = errors.New("protocol error")

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// frame is one frame as it was read.
type frame struct {
	kind   Kind
	stream uint32
	// payload belongs to whoever gets the frame.
	payload []byte
}

// appendFrame appends a frame whose payload is the concatenation of parts.
func appendFrame(b []byte, kind Kind, stream uint32, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b = append(b, byte(kind))
	b = binary.BigEndian.AppendUint32(b, stream)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// readFrame reads one frame. It returns io.EOF only between frames.
func readFrame(r io.Reader) (frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: Kind(h[0]), stream: binary.BigEndian.Uint32(h[1:5])}
	n := binary.BigEndian.Uint32(h[5:])
	limit := f.kind.limit()
	switch {
	case limit < 0:
		return frame{}, protocolError("frame of kind %d", h[0])
	case int64(n) > int64(limit):
		return frame{}, protocolError("frame of kind %d with %d bytes, more than %d", h[0], n, limit)
	case f.stream == 0:
		return frame{}, protocolError("frame of no stream")
	case n == 0 && f.kind != KindCancel, f.kind == KindCredit && n != 4:
		return frame{}, protocolError("frame of kind %d with %d bytes", h[0], n)
	}
	f.payload = make([]byte, n)
	if _, err := io.ReadFull(r, f.payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return f, nil
}
