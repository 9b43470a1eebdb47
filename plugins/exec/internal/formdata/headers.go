package formdata

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// stand is what stands for a control character in the header of a part: no text in UTF-8
// has it.
const stand = 0xff

// headers hands a form on with the control characters in its parts' headers replaced. The
// framing refuses them, and the whole form with them, where only one file has a name that
// cannot be.
type headers struct {
	r        io.Reader
	boundary []byte // with the dashes in front

	// line is the beginning of the line that is being read, in which a boundary fits.
	line   []byte
	last   byte
	within bool // a part's header
	// bare says that lines end without a carriage return, as that of the first boundary
	// did, and broken that the line before ended like that.
	begun, bare, broken bool
	found               [][]byte // the characters replaced, by part

	size int   // of the header that is being read, in bytes
	err  error // that it is too long
}

// maxHeader bounds the header of a part, in bytes: the framing takes ten megabytes. Names
// that are good, with each byte of them encoded, fit in half of it.
const maxHeader = 32 << 10

// slack is how much white space may follow a boundary.
const slack = 64

func (h *headers) Read(p []byte) (int, error) {
	if h.err != nil {
		return 0, h.err
	}
	n, err := h.r.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		part := rest
		end := bytes.IndexByte(rest, '\n')
		if end >= 0 {
			part = rest[:end]
		}
		if h.within {
			if h.size += min(len(part)+1, len(rest)); h.size > maxHeader {
				h.err = &FormatError{Reason: fmt.Sprintf("the header of a part is longer than %d bytes", maxHeader)}
				return 0, h.err
			}
			h.replace(part)
		}
		if room := len(h.boundary) + slack - len(h.line); room > 0 {
			h.line = append(h.line, part[:min(room, len(part))]...)
		}
		if len(part) > 0 {
			h.last = part[len(part)-1]
		}
		if end < 0 {
			break
		}
		h.ended(h.last == '\r')
		h.last, rest = '\n', rest[end+1:]
	}
	return n, err
}

func (h *headers) replace(b []byte) {
	last := len(h.found) - 1
	for i, c := range b {
		if c < ' ' && c != '\t' && c != '\r' || c == 0x7f {
			h.found[last] = append(h.found[last], c)
			b[i] = stand
		}
	}
}

// ended is the end of a line.
func (h *headers) ended(carriage bool) {
	line := bytes.TrimRight(h.line, " \t\r")
	switch {
	case h.within:
		h.within = len(line) > 0
	case bytes.Equal(line, h.boundary) && len(h.line) < len(h.boundary)+slack && (!h.begun || h.bare || !h.broken):
		if !h.begun {
			h.begun, h.bare = true, !carriage
		}
		h.within, h.size = true, 0
		h.found = append(h.found, nil)
	}
	h.line, h.broken = h.line[:0], !carriage
}

// restore puts the characters that were replaced in the next part's header back into its
// names.
func (h *headers) restore(names ...*string) {
	if len(h.found) == 0 {
		return
	}
	were := h.found[0]
	h.found = h.found[1:]
	for _, name := range names {
		if n := strings.Count(*name, string([]byte{stand})); n == 0 || n > len(were) {
			continue
		}
		b := []byte(*name)
		for i := range b {
			if b[i] == stand {
				b[i], were = were[0], were[1:]
			}
		}
		*name = string(b)
	}
}
