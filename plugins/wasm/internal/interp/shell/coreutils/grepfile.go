package coreutils

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// file searches one input.
func (s *searching) file(ctx context.Context, w *bufio.Writer, name string, r io.Reader) (bool, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	start, _ := in.Peek(32 << 10)
	binary := !s.binary && s.end != 0 && bytes.IndexByte(start, 0) >= 0
	p := printer{s: s, w: w, name: name}
	number, offset, matches := 0, int64(0), 0
	var last int // line printed last
	var earlier [][]byte
	remaining := 0
	err := lines(ctx, in, s.end, func(line []byte, ended bool) error {
		number++
		at := offset
		offset += int64(len(line)) + 1
		if s.match(line) == s.invert {
			switch {
			case remaining > 0:
				remaining--
				p.line(line, '-', number, at)
				last = number
			case s.before > 0:
				earlier = append(earlier, bytes.Clone(line))
				if len(earlier) > s.before {
					earlier = earlier[1:]
				}
			}
			if s.most >= 0 && matches >= s.most && remaining == 0 {
				return errStop
			}
			return nil
		}
		if s.most >= 0 && matches >= s.most {
			return errStop
		}
		matches++
		if s.quiet || s.list || s.without {
			return errStop
		}
		if binary && !s.count {
			fmt.Fprintf(w, "grep: %s: binary file matches\n", name)
			return errStop
		}
		if !s.count {
			if (s.before > 0 || s.after > 0) && last > 0 && number-len(earlier) > last+1 {
				w.WriteString("--\n")
			}
			for i, l := range earlier {
				p.line(l, '-', number-len(earlier)+i, 0)
			}
			p.matched(line, number, at)
			last, earlier, remaining = number, nil, s.after
		}
		if s.most >= 0 && matches >= s.most && s.after == 0 {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	found := matches > 0
	switch {
	case s.quiet:
	case s.list && found, s.without && !found:
		w.WriteString(name)
		if s.hidden {
			w.WriteByte(0)
		} else {
			w.WriteByte('\n')
		}
	case s.count && !s.list && !s.without:
		p.prefix(':', 0, 0, false)
		fmt.Fprintf(w, "%d\n", matches)
	}
	if s.without {
		found = !found
	}
	return found, err
}

func (s *searching) match(line []byte) bool { return s.re.Match(line) }

// printer writes lines with what goes before them.
type printer struct {
	s    *searching
	w    *bufio.Writer
	name string
}

func (p printer) prefix(sep byte, number int, offset int64, withNumber bool) {
	if p.s.names > 0 {
		p.w.WriteString(p.name)
		if p.s.hidden {
			p.w.WriteByte(0)
		} else {
			p.w.WriteByte(sep)
		}
	}
	if withNumber && p.s.number {
		p.w.WriteString(strconv.Itoa(number))
		p.w.WriteByte(sep)
	}
	if withNumber && p.s.offset {
		p.w.WriteString(strconv.FormatInt(offset, 10))
		p.w.WriteByte(sep)
	}
}

func (p printer) line(line []byte, sep byte, number int, offset int64) {
	if p.s.only && sep == '-' {
		return
	}
	p.prefix(sep, number, offset, true)
	p.w.Write(line)
	p.w.WriteByte(p.s.end)
}

func (p printer) matched(line []byte, number int, offset int64) {
	if !p.s.only {
		p.line(line, ':', number, offset)
		return
	}
	if p.s.invert {
		return
	}
	for _, m := range p.s.re.FindAllIndex(line, -1) {
		if m[0] == m[1] {
			continue
		}
		p.prefix(':', number, offset+int64(m[0]), true)
		p.w.Write(line[m[0]:m[1]])
		p.w.WriteByte(p.s.end)
	}
}
