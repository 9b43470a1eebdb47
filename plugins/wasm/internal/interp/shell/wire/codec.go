package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrMalformed says that bytes are no message.
var ErrMalformed = errors.New("malformed message")

// writer appends values.
type writer struct{ b []byte }

func (w *writer) u32(v uint32)   { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *writer) u64(v uint64)   { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) str(s string)   { w.u32(uint32(len(s))); w.b = append(w.b, s...) }
func (w *writer) bytes(p []byte) { w.u32(uint32(len(p))); w.b = append(w.b, p...) }

func (w *writer) strs(list []string) {
	w.u32(uint32(len(list)))
	for _, s := range list {
		w.str(s)
	}
}

// reader takes values off; after the first that is not there, all are zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint32) []byte {
	if r.bad || uint64(n) > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) u32() uint32 {
	p := r.take(4)
	if p == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(p)
}

func (r *reader) u64() uint64 {
	p := r.take(8)
	if p == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(p)
}

func (r *reader) bytes() []byte { return r.take(r.u32()) }
func (r *reader) str() string   { return string(r.bytes()) }

// count reads the length of a list whose elements take at least least bytes
// each, so that a lie about it allocates nothing.
func (r *reader) count(least int) int {
	n := r.u32()
	if uint64(n)*uint64(least) > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) strs() []string {
	n := r.count(4)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.str()
	}
	return list
}

// end tells whether everything was read and nothing is left.
func (r *reader) end() error {
	if r.bad || len(r.b) > 0 {
		return ErrMalformed
	}
	return nil
}

// WriteFrame writes one message with its length before it, in one Write.
func WriteFrame(w io.Writer, message []byte) error {
	if len(message) > MaxFrame {
		return fmt.Errorf("message of %d bytes: at most %d", len(message), MaxFrame)
	}
	frame := make([]byte, 4, 4+len(message))
	binary.LittleEndian.PutUint32(frame, uint32(len(message)))
	_, err := w.Write(append(frame, message...))
	return err
}

// ReadFrame reads one message of at most limit bytes. The error is io.EOF where the stream
// ends before a message.
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, n, limit)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, fmt.Errorf("message cut short: %w", io.ErrUnexpectedEOF)
	}
	return message, nil
}
