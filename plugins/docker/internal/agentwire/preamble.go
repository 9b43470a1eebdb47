package agentwire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
)

// Protocol is the version of everything in this package. Sides of different versions do
// not speak with each other.
const Protocol = 2

var magic = [8]byte{0xCA, 'i', 's', 's', 'o', 'n', '/', 'A'}

// PreambleSize is the number of bytes of a preamble.
const PreambleSize = len(magic) + 2 + 1 + 32

// Preamble is what each side says first.
type Preamble struct {
	Protocol int
	// Busy says that the agent has something under way.
	Busy bool
	// Build is the hex SHA-256 of the program that speaks; all zero for the plugin.
	Build string
}

// Append appends the preamble as it is on the wire.
func (p Preamble) Append(b []byte) []byte {
	b = append(b, magic[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(p.Protocol))
	busy := byte(0)
	if p.Busy {
		busy = 1
	}
	var sum [32]byte
	if raw, err := hex.DecodeString(p.Build); err == nil {
		copy(sum[:], raw)
	}
	return append(append(b, busy), sum[:]...)
}

// ReadPreamble reads one. What does not begin like one is ErrProtocol.
func ReadPreamble(r io.Reader) (Preamble, error) {
	var b [PreambleSize]byte
	// The first bytes tell: a banner or an error text is shorter than a preamble.
	if _, err := io.ReadFull(r, b[:len(magic)]); err != nil {
		return Preamble{}, err
	}
	if !bytes.Equal(b[:len(magic)], magic[:]) {
		return Preamble{}, protocolError("this is no agent: %q", b[:len(magic)])
	}
	if _, err := io.ReadFull(r, b[len(magic):]); err != nil {
		return Preamble{}, err
	}
	rest := b[len(magic):]
	if rest[2] > 1 {
		return Preamble{}, protocolError("preamble with flags %#x", rest[2])
	}
	return Preamble{
		Protocol: int(binary.BigEndian.Uint16(rest)), Busy: rest[2] == 1, Build: hex.EncodeToString(rest[3:]),
	}, nil
}

// MinPids is how many processes and threads a container should be allowed at the least:
// with an agent, its relay and what the engine starts to reach it there are up to forty.
const MinPids = 64
