package coreutils

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// counts are what wc counts, in the order in which it prints.
type counts struct{ lines, words, chars, bytes, longest int64 }

func wc(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("lwcmL", "lines=l", "words=w", "bytes=c", "chars=m", "max-line-length=L")
	if err != nil {
		return c.usage(err, 1)
	}
	want := map[byte]bool{}
	for _, o := range opts {
		want[o.name] = true
	}
	if len(opts) == 0 {
		want = map[byte]bool{'l': true, 'w': true, 'c': true}
	}
	pick := func(n counts) (out []int64) {
		for _, f := range []struct {
			name byte
			n    int64
		}{{'l', n.lines}, {'w', n.words}, {'m', n.chars}, {'c', n.bytes}, {'L', n.longest}} {
			if want[f.name] {
				out = append(out, f.n)
			}
		}
		return out
	}
	type row struct {
		n    counts
		name string
	}
	var rows []row
	var total counts
	code := c.inputs(ctx, operands, func(name string, r io.Reader) error {
		n, err := count(ctx, r)
		if len(operands) == 0 {
			name = ""
		}
		rows = append(rows, row{n, name})
		total.lines, total.words, total.chars, total.bytes = total.lines+n.lines, total.words+n.words, total.chars+n.chars, total.bytes+n.bytes
		total.longest = max(total.longest, n.longest)
		return err
	})
	if len(operands) > 1 {
		rows = append(rows, row{total, "total"})
	}
	// Columns are as wide as the largest number; for standard input wider.
	width := len(strconv.FormatInt(max(total.bytes, total.lines), 10))
	if len(rows) == 1 && len(pick(total)) == 1 {
		width = 1
	} else if len(operands) == 0 {
		width = 7
	}
	w := c.output()
	for _, r := range rows {
		for i, n := range pick(r.n) {
			if i > 0 {
				w.WriteByte(' ')
			}
			fmt.Fprintf(w, "%*d", width, n)
		}
		if r.name != "" {
			w.WriteString(" " + r.name)
		}
		w.WriteByte('\n')
	}
	return c.flush(w, code)
}

func count(ctx context.Context, r io.Reader) (n counts, err error) {
	in := false
	var column int64
	b := bufio.NewReaderSize(r, 64<<10)
	for i := 0; ; i++ {
		if i&0xffff == 0 && ctx.Err() != nil {
			return n, ctx.Err()
		}
		c, size, err := b.ReadRune()
		if err != nil {
			n.longest = max(n.longest, column)
			if err == io.EOF { //nolint:errorlint // as io.Reader says
				err = nil
			}
			return n, err
		}
		n.bytes += int64(size)
		n.chars++
		column++
		space := c == ' ' || c >= '\t' && c <= '\r'
		if c == '\n' {
			n.lines++
			n.longest, column = max(n.longest, column-1), 0
		}
		if !space && !in {
			n.words++
		}
		in = !space
	}
}

func uniq(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("cduif:s:w:z", "count=c", "repeated=d", "unique=u", "ignore-case=i", "skip-fields=f", "skip-chars=s", "check-chars=w", "zero-terminated=z")
	if err != nil {
		return c.usage(err, 1)
	}
	set := map[byte]bool{}
	number := map[byte]int{'w': -1}
	for _, o := range opts {
		set[o.name] = true
		if o.arg != "" {
			if number[o.name], err = strconv.Atoi(o.arg); err != nil || number[o.name] < 0 {
				return c.usage(fmt.Errorf("%s: invalid number", o.arg), 1)
			}
		}
	}
	end := byte('\n')
	if set['z'] {
		end = 0
	}
	if len(operands) > 2 {
		return c.usage(fmt.Errorf("extra operand %s", quoted(operands[2])), 1)
	}
	key := func(line []byte) string {
		rest := line
		for range number['f'] {
			rest = bytes.TrimLeft(rest, " \t")
			i := bytes.IndexAny(rest, " \t")
			if i < 0 {
				i = len(rest)
			}
			rest = rest[i:]
		}
		rest = rest[min(number['s'], len(rest)):]
		if n := number['w']; n >= 0 {
			rest = rest[:min(n, len(rest))]
		}
		if set['i'] {
			return strings.ToLower(string(rest))
		}
		return string(rest)
	}
	out := c.Stdout
	if len(operands) == 2 {
		f, err := c.create(operands[1])
		if err != nil {
			c.errorf("%s: %s", operands[1], reason(err))
			return 1
		}
		defer func() { _ = f.Close() }()
		out, operands = f, operands[:1]
	}
	w := bufio.NewWriter(out)
	var line []byte
	var last string
	n := 0
	put := func() {
		if n == 0 || set['d'] && n < 2 || set['u'] && n > 1 {
			return
		}
		if set['c'] {
			fmt.Fprintf(w, "%7d ", n)
		}
		w.Write(line)
		w.WriteByte(end)
	}
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, end, func(l []byte, _ bool) error {
			k := key(l)
			if n > 0 && k == last {
				n++
				return nil
			}
			put()
			line, last, n = append(line[:0], l...), k, 1
			return nil
		})
	})
	put()
	return c.flush(w, code)
}

func fold(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("w:sb", "width=w", "spaces=s", "bytes=b")
	if err != nil {
		return c.usage(err, 1)
	}
	width, spaces := 80, false
	for _, o := range opts {
		switch o.name {
		case 'w':
			if width, err = strconv.Atoi(o.arg); err != nil || width < 1 {
				return c.usage(fmt.Errorf("invalid number of columns: %s", quoted(o.arg)), 1)
			}
		case 's':
			spaces = true
		}
	}
	return c.filter(ctx, operands, func(w *bufio.Writer, line []byte) {
		r := []rune(string(line))
		for len(r) > width {
			n := width
			if spaces {
				for i := width - 1; i >= 0; i-- {
					if r[i] == ' ' || r[i] == '\t' {
						n = i + 1
						break
					}
				}
			}
			w.WriteString(string(r[:n]))
			w.WriteByte('\n')
			r = r[n:]
		}
		w.WriteString(string(r))
	})
}

// format is fmt: it fills paragraphs.
func format(ctx context.Context, c *Call) int {
	c.Argv = numericOption(c.Argv)
	opts, operands, err := c.options("w:n:su", "width=w", "split-only=s", "uniform-spacing=u")
	if err != nil {
		return c.usage(err, 1)
	}
	width := 75
	for _, o := range opts {
		if o.arg != "" {
			if width, err = strconv.Atoi(o.arg); err != nil || width < 1 {
				return c.usage(fmt.Errorf("invalid width: %s", quoted(o.arg)), 1)
			}
		}
	}
	w := c.output()
	column := 0
	end := func() {
		if column > 0 {
			w.WriteByte('\n')
		}
		column = 0
	}
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		err := lines(ctx, r, '\n', func(line []byte, _ bool) error {
			words := bytes.Fields(line)
			if len(words) == 0 {
				end()
				w.WriteByte('\n')
			}
			for _, word := range words {
				n := utf8.RuneCount(word)
				switch {
				case column == 0:
				case column+1+n > width:
					w.WriteByte('\n')
					column = 0
				default:
					w.WriteByte(' ')
					column++
				}
				w.Write(word)
				column += n
			}
			return nil
		})
		end()
		return err
	})
	return c.flush(w, code)
}

// expand turns tabs into spaces; unexpand does the reverse at the beginning of
// lines, with -a everywhere.
func expand(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("t:ia", "tabs=t", "initial=i", "all=a", "first-only=i")
	if err != nil {
		return c.usage(err, 1)
	}
	stop, initial, all := 8, false, false
	for _, o := range opts {
		switch o.name {
		case 't':
			if stop, err = strconv.Atoi(o.arg); err != nil || stop < 1 || stop > 1<<16 {
				return c.usage(fmt.Errorf("tab size contains invalid character(s): %s", quoted(o.arg)), 1)
			}
			all = true
		case 'i':
			initial = true
		case 'a':
			all = true
		}
	}
	if c.name() == "unexpand" {
		return c.filter(ctx, operands, func(w *bufio.Writer, line []byte) { unexpandLine(w, line, stop, all && !initial) })
	}
	return c.filter(ctx, operands, func(w *bufio.Writer, line []byte) {
		column, text := 0, false
		for _, r := range string(line) {
			if r == '\t' && !(initial && text) {
				n := stop - column%stop
				w.WriteString(strings.Repeat(" ", n))
				column += n
				continue
			}
			text = text || r != ' '
			w.WriteRune(r)
			column++
		}
	})
}

func unexpandLine(w *bufio.Writer, line []byte, stop int, all bool) {
	column, blanks := 0, 0
	for i := 0; i < len(line); i++ {
		b := line[i]
		if b != ' ' && b != '\t' {
			w.WriteString(strings.Repeat(" ", blanks))
			if !all {
				w.Write(line[i:])
				return
			}
			blanks = 0
			w.WriteByte(b)
			column++
			continue
		}
		next := column + 1
		if b == '\t' {
			next = column + stop - column%stop
		}
		blanks += next - column
		if column = next; column%stop == 0 && (blanks > 1 || b == '\t') {
			w.WriteByte('\t')
			blanks = 0
		}
	}
	w.WriteString(strings.Repeat(" ", blanks))
}
