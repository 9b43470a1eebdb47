package envd

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
)

// What a script has to say travels in the program's own output, which is the only way
// out: as marks, lines that begin with NUL and a secret word, "\0NONCE VERB REST\n".
// A mark is written in one piece, so that nothing comes between, and follows what the
// program wrote before it ended.

// newNonce makes the secret word. It keeps marks apart from output, not from a program
// that looks for it in its surroundings: such a one can deceive its own run only.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// maxMark bounds a mark's line.
const maxMark = 8 << 10

// marks separates marks from output in one stream.
type marks struct {
	prefix []byte
	held   []byte // may become a mark

	output func(p []byte) error
	mark   func(verb, rest string) error
}

func newMarks(nonce string, output func([]byte) error, mark func(verb, rest string) error) *marks {
	return &marks{prefix: []byte("\x00" + nonce + " "), output: output, mark: mark}
}

// write takes the next piece of the stream, which it does not keep.
func (m *marks) write(p []byte) error {
	if len(m.held) > 0 {
		p = append(m.held, p...)
		m.held = nil
	}
	for len(p) > 0 {
		i := bytes.Index(p, m.prefix)
		if i < 0 {
			keep := suffixLen(p, m.prefix)
			m.held = bytes.Clone(p[len(p)-keep:])
			return m.pass(p[:len(p)-keep])
		}
		if err := m.pass(p[:i]); err != nil {
			return err
		}
		p = p[i:]
		end := bytes.IndexByte(p, '\n')
		switch {
		case end < 0 && len(p) < maxMark:
			m.held = bytes.Clone(p)
			return nil
		case end < 0 || end > maxMark: // no mark of ours
			if err := m.pass(p[:1]); err != nil {
				return err
			}
			p = p[1:]
			continue
		}
		verb, rest, _ := bytes.Cut(p[len(m.prefix):end], []byte(" "))
		if err := m.mark(string(verb), string(rest)); err != nil {
			return err
		}
		p = p[end+1:]
	}
	return nil
}

func (m *marks) pass(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	return m.output(p)
}

// finish passes on what was held back.
func (m *marks) finish() error {
	p := m.held
	m.held = nil
	return m.pass(p)
}

// suffixLen is the length of the longest proper prefix of word that p ends with.
func suffixLen(p, word []byte) int {
	i := bytes.LastIndexByte(p, word[0])
	if i < 0 || !bytes.HasPrefix(word, p[i:]) {
		return 0
	}
	return len(p) - i
}
