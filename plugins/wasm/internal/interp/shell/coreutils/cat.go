package coreutils

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

func cat(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("nbsvETAeut", "number=n", "number-nonblank=b", "squeeze-blank=s", "show-ends=E", "show-tabs=T", "show-all=A", "show-nonprinting=v")
	if err != nil {
		return c.usage(err, 1)
	}
	var number, nonblank, squeeze, ends, tabs, hidden bool
	for _, o := range opts {
		switch o.name {
		case 'n':
			number = true
		case 'b':
			nonblank = true
		case 's':
			squeeze = true
		case 'E':
			ends = true
		case 'T':
			tabs = true
		case 'v':
			hidden = true
		case 'e':
			hidden, ends = true, true
		case 't':
			hidden, tabs = true, true
		case 'A':
			hidden, ends, tabs = true, true, true
		}
	}
	if len(opts) == 0 {
		return c.inputs(ctx, operands, func(_ string, r io.Reader) error {
			_, err := io.Copy(outputWriter{c.Stdout}, r)
			return err
		})
	}
	w := c.output()
	n, blanks := 0, 0
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, '\n', func(line []byte, ended bool) error {
			if len(line) == 0 && ended {
				if blanks++; squeeze && blanks > 1 {
					return nil
				}
			} else {
				blanks = 0
			}
			if nonblank && len(line) > 0 || number && !nonblank {
				n++
				fmt.Fprintf(w, "%6d\t", n)
			}
			for _, b := range line {
				visible(w, b, hidden, tabs)
			}
			if ended {
				if ends {
					w.WriteByte('$')
				}
				return w.WriteByte('\n')
			}
			return nil
		})
	})
	return c.flush(w, code)
}

// visible writes a byte, as "cat -v" does.
func visible(w *bufio.Writer, b byte, hidden, tabs bool) {
	switch {
	case b == '\t':
		if tabs {
			w.WriteString("^I")
			return
		}
	case hidden && b >= 128:
		w.WriteString("M-")
		visible(w, b-128, hidden, true)
		return
	case hidden && b < 32:
		w.WriteByte('^')
		b += 64
	case hidden && b == 127:
		w.WriteString("^?")
		return
	}
	w.WriteByte(b)
}

// numericOption turns the old spelling "-5" into "-n 5".
func numericOption(argv []string) []string {
	if len(argv) > 1 && len(argv[1]) > 1 && argv[1][0] == '-' && strings.Trim(argv[1][1:], "0123456789") == "" {
		return append([]string{argv[0], "-n", argv[1][1:]}, argv[2:]...)
	}
	return argv
}

// portion is what head and tail are asked for.
type portion struct {
	bytes, quiet, loud bool
	n                  int64
	sign               byte // as written: '+', '-' or 0
	end                byte
}

func portionOptions(c *Call) (p portion, operands []string, err error) {
	c.Argv = numericOption(c.Argv)
	opts, operands, err := c.options("n:c:qvzfFs:", "lines=n", "bytes=c", "quiet=q", "silent=q", "verbose=v", "zero-terminated=z", "follow=f")
	p = portion{n: 10, end: '\n'}
	for _, o := range opts {
		switch o.name {
		case 'n', 'c':
			p.bytes, p.sign = o.name == 'c', 0
			s := o.arg
			if s != "" && (s[0] == '+' || s[0] == '-') {
				p.sign, s = s[0], s[1:]
			}
			if s == "" {
				return p, nil, fmt.Errorf("invalid number of lines: %s", quoted(o.arg))
			}
			if p.n, err = size(s); err != nil {
				return p, nil, fmt.Errorf("invalid number of lines: %s", quoted(o.arg))
			}
		case 'q':
			p.quiet = true
		case 'v':
			p.loud = true
		case 'z':
			p.end = 0
		case 'f', 'F':
			return p, nil, fmt.Errorf("option -%c is not available: nothing else writes while a command waits", o.name)
		}
	}
	return p, operands, err
}

// each runs do for every input, with the headers of head and tail.
func (p portion) each(ctx context.Context, c *Call, operands []string, do func(w *bufio.Writer, r io.Reader) error) int {
	w := c.output()
	first := true
	code := c.inputs(ctx, operands, func(name string, r io.Reader) error {
		if (len(operands) > 1 || p.loud) && !p.quiet {
			if name == "-" {
				name = "standard input"
			}
			if !first {
				w.WriteByte('\n')
			}
			fmt.Fprintf(w, "==> %s <==\n", name)
		}
		first = false
		if err := do(w, r); err != nil {
			return err
		}
		return w.Flush()
	})
	return c.flush(w, code)
}

func head(ctx context.Context, c *Call) int {
	p, operands, err := portionOptions(c)
	if err != nil {
		return c.usage(err, 1)
	}
	return p.each(ctx, c, operands, func(w *bufio.Writer, r io.Reader) error {
		switch {
		case p.sign == '-':
			b, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			_, err = w.Write(b[:int64(len(b))-p.lastBytes(b)])
			return err
		case p.bytes:
			_, err := io.Copy(w, io.LimitReader(r, p.n))
			return err
		case p.n == 0:
			return nil
		}
		left := p.n
		err := lines(ctx, r, p.end, func(line []byte, ended bool) error {
			w.Write(line)
			if ended {
				w.WriteByte(p.end)
			}
			if left--; left == 0 {
				return errStop
			}
			return nil
		})
		if err == errStop { //nolint:errorlint // it is our own
			err = nil
		}
		return err
	})
}

// lastBytes is how much of b the last n lines or bytes are.
func (p portion) lastBytes(b []byte) int64 {
	if p.bytes {
		return min(p.n, int64(len(b)))
	}
	if p.n == 0 {
		return 0
	}
	at := len(b)
	if at > 0 && b[at-1] == p.end {
		at--
	}
	for range p.n {
		if at = bytes.LastIndexByte(b[:at], p.end); at < 0 {
			return int64(len(b))
		}
	}
	return int64(len(b) - at - 1)
}

func tail(ctx context.Context, c *Call) int {
	p, operands, err := portionOptions(c)
	if err != nil {
		return c.usage(err, 1)
	}
	return p.each(ctx, c, operands, func(w *bufio.Writer, r io.Reader) error {
		if p.sign == '+' {
			return p.from(ctx, w, r)
		}
		// Only the end is kept, however long the input is.
		var b []byte
		buf := make([]byte, 256<<10)
		for {
			n, err := r.Read(buf)
			b = append(b, buf[:n]...)
			if len(b) > 4<<20 {
				b = append(b[:0], b[int64(len(b))-min(p.lastBytes(b), int64(len(b))):]...)
			}
			if err == io.EOF { //nolint:errorlint // as io.Reader says
				break
			}
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		_, err := w.Write(b[int64(len(b))-p.lastBytes(b):])
		return err
	})
}

// from writes what begins with the nth line or byte.
func (p portion) from(ctx context.Context, w *bufio.Writer, r io.Reader) error {
	skip := max(p.n-1, 0)
	if p.bytes {
		if _, err := io.CopyN(io.Discard, r, skip); err != nil {
			return nil //nolint:nilerr // shorter than that
		}
		_, err := io.Copy(w, r)
		return err
	}
	return lines(ctx, r, p.end, func(line []byte, ended bool) error {
		if skip > 0 {
			skip--
			return nil
		}
		w.Write(line)
		if ended {
			return w.WriteByte(p.end)
		}
		return nil
	})
}

func tac(ctx context.Context, c *Call) int {
	_, operands, err := c.options("")
	if err != nil {
		return c.usage(err, 1)
	}
	w := c.output()
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		b, err := io.ReadAll(r)
		for err == nil && len(b) > 0 {
			at := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
			w.Write(b[at:])
			b = b[:at]
		}
		return err
	})
	return c.flush(w, code)
}

func rev(ctx context.Context, c *Call) int {
	return c.filter(ctx, c.Argv[1:], func(w *bufio.Writer, line []byte) {
		r := []rune(string(line))
		slices.Reverse(r)
		w.WriteString(string(r))
	})
}

// filter writes what do makes of each line.
func (c *Call) filter(ctx context.Context, operands []string, do func(w *bufio.Writer, line []byte)) int {
	w := c.output()
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, '\n', func(line []byte, ended bool) error {
			do(w, line)
			if ended {
				return w.WriteByte('\n')
			}
			return nil
		})
	})
	return c.flush(w, code)
}

func nl(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("b:w:s:v:i:n:", "body-numbering=b", "number-width=w", "number-separator=s", "starting-line-number=v", "line-increment=i", "number-format=n")
	if err != nil {
		return c.usage(err, 1)
	}
	style, width, sep, n, step, form := "t", 6, "\t", 1, 1, "rn"
	for _, o := range opts {
		var err error
		switch o.name {
		case 'b':
			style = o.arg
		case 's':
			sep = o.arg
		case 'n':
			form = o.arg
		case 'w':
			width, err = strconv.Atoi(o.arg)
		case 'v':
			n, err = strconv.Atoi(o.arg)
		case 'i':
			step, err = strconv.Atoi(o.arg)
		}
		if err != nil || width < 1 || width > 1000 {
			return c.usage(fmt.Errorf("invalid number: %s", quoted(o.arg)), 1)
		}
	}
	verb := map[string]string{"rn": "%*d", "rz": "%0*d", "ln": "%-*d"}[form]
	if verb == "" || style != "a" && style != "t" && style != "n" {
		return c.usage(fmt.Errorf("invalid numbering: %s, %s", quoted(style), quoted(form)), 1)
	}
	return c.filter(ctx, operands, func(w *bufio.Writer, line []byte) {
		if style == "n" || style == "t" && len(line) == 0 {
			if len(line) > 0 || style == "t" {
				fmt.Fprintf(w, "%*s", width+len(sep), "")
			}
			w.Write(line)
			return
		}
		fmt.Fprintf(w, verb, width, n)
		w.WriteString(sep)
		w.Write(line)
		n += step
	})
}
