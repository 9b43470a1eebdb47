package coreutils

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// span is a range of positions, counted from 1.
type span struct{ low, high int }

// spans reads a list such as "1,3-5,7-".
func spans(list string) ([]span, error) {
	var out []span
	for item := range strings.SplitSeq(strings.ReplaceAll(list, " ", ","), ",") {
		low, high, ranged := strings.Cut(item, "-")
		s := span{1, math.MaxInt}
		var err1, err2 error
		if low != "" {
			s.low, err1 = strconv.Atoi(low)
		}
		if !ranged {
			s.high = s.low
		} else if high != "" {
			s.high, err2 = strconv.Atoi(high)
		}
		switch {
		case err1 != nil || err2 != nil || item == "" || item == "-":
			return nil, fmt.Errorf("invalid field value %s", quoted(item))
		case s.low < 1:
			return nil, errors.New("fields are numbered from 1")
		case s.high < s.low:
			return nil, errors.New("invalid decreasing range")
		}
		out = append(out, s)
	}
	return out, nil
}

func within(list []span, n int) bool {
	return slices.ContainsFunc(list, func(s span) bool { return s.low <= n && n <= s.high })
}

func cut(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("f:c:b:d:snCO:z", "fields=f", "characters=c", "bytes=b", "delimiter=d", "only-delimited=s", "complement=C", "output-delimiter=O", "zero-terminated=z")
	if err != nil {
		return c.usage(err, 1)
	}
	var mode byte
	var list []span
	delim, between := "\t", ""
	only, complement, end := false, false, byte('\n')
	hasBetween := false
	for _, o := range opts {
		switch o.name {
		case 'f', 'c', 'b':
			if mode != 0 {
				return c.usage(errors.New("only one list may be specified"), 1)
			}
			mode = o.name
			if list, err = spans(o.arg); err != nil {
				return c.usage(err, 1)
			}
		case 'd':
			if utf8.RuneCountInString(o.arg) != 1 {
				return c.usage(errors.New("the delimiter must be a single character"), 1)
			}
			delim = o.arg
		case 's':
			only = true
		case 'C':
			complement = true
		case 'O':
			between, hasBetween = o.arg, true
		case 'z':
			end = 0
		}
	}
	if mode == 0 {
		return c.usage(errors.New("you must specify a list of bytes, characters, or fields"), 1)
	}
	if mode == 'f' && !hasBetween {
		between = delim
	}
	chosen := func(n int) bool { return within(list, n) != complement }
	w := c.output()
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, end, func(line []byte, _ bool) error {
			switch mode {
			case 'f':
				if !bytes.Contains(line, []byte(delim)) {
					if only {
						return nil
					}
					w.Write(line)
					break
				}
				first := true
				for i, f := range bytes.Split(line, []byte(delim)) {
					if chosen(i + 1) {
						if !first {
							w.WriteString(between)
						}
						first = false
						w.Write(f)
					}
				}
			case 'b':
				cutPieces(w, len(line), chosen, between, func(i int) { w.WriteByte(line[i]) })
			default:
				r := []rune(string(line))
				cutPieces(w, len(r), chosen, between, func(i int) { w.WriteRune(r[i]) })
			}
			return w.WriteByte(end)
		})
	})
	return c.flush(w, code)
}

// cutPieces writes chosen positions, with between where some were left out.
func cutPieces(w *bufio.Writer, n int, chosen func(int) bool, between string, put func(int)) {
	last := -1
	for i := range n {
		if !chosen(i + 1) {
			continue
		}
		if last >= 0 && last != i-1 {
			w.WriteString(between)
		}
		last = i
		put(i)
	}
}

func paste(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("d:sz", "delimiters=d", "serial=s", "zero-terminated=z")
	if err != nil {
		return c.usage(err, 1)
	}
	delims, serial, end := []string{"\t"}, false, byte('\n')
	for _, o := range opts {
		switch o.name {
		case 'd':
			delims = pasteDelimiters(o.arg)
		case 's':
			serial = true
		case 'z':
			end = 0
		}
	}
	if len(operands) == 0 {
		operands = []string{"-"}
	}
	w := c.output()
	if serial {
		code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
			n := 0
			err := lines(ctx, r, end, func(line []byte, _ bool) error {
				if n > 0 {
					w.WriteString(delims[(n-1)%len(delims)])
				}
				n++
				_, err := w.Write(line)
				return err
			})
			w.WriteByte(end)
			return err
		})
		return c.flush(w, code)
	}
	// Several "-" take turns at standard input.
	stdin := bufio.NewReader(c.Stdin)
	readers := make([]*bufio.Reader, len(operands))
	for i, name := range operands {
		if name == "-" {
			readers[i] = stdin
			continue
		}
		r, err := c.open(name)
		if err != nil {
			c.errorf("%s: %s", name, reason(err))
			return 1
		}
		defer func() { _ = r.Close() }()
		readers[i] = bufio.NewReader(r)
	}
	for ctx.Err() == nil {
		row := make([]string, len(readers))
		some := false
		for i, r := range readers {
			line, err := r.ReadString(end)
			some = some || err == nil || line != ""
			row[i] = strings.TrimSuffix(line, string(rune(end)))
		}
		if !some {
			break
		}
		for i, cell := range row {
			if i > 0 {
				w.WriteString(delims[(i-1)%len(delims)])
			}
			w.WriteString(cell)
		}
		w.WriteByte(end)
	}
	return c.flush(w, 0)
}

func pasteDelimiters(s string) (list []string) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		d := string(r)
		if r == '\\' && i < len(s) {
			d = map[byte]string{'n': "\n", 't': "\t", '0': "", '\\': `\`}[s[i]]
			i++
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

// column aligns the words of lines with -t; without, it fills columns.
func column(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("ts:o:nxc:N:", "table=t", "separator=s", "output-separator=o", "table-columns=N")
	if err != nil {
		return c.usage(err, 1)
	}
	table, sep, out := false, "", "  "
	var rows [][]string
	for _, o := range opts {
		switch o.name {
		case 't':
			table = true
		case 's':
			sep = o.arg
		case 'o':
			out = o.arg
		case 'N':
			rows = append(rows, strings.Split(o.arg, ","))
		}
	}
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, '\n', func(line []byte, _ bool) error {
			if len(bytes.TrimSpace(line)) == 0 {
				return nil
			}
			if !table {
				rows = append(rows, []string{string(line)})
			} else if sep == "" {
				rows = append(rows, strings.Fields(string(line)))
			} else {
				rows = append(rows, strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune(sep, r) }))
			}
			return nil
		})
	})
	w := c.output()
	if !table {
		columnFill(w, rows)
		return c.flush(w, code)
	}
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			w.WriteString(cell)
			if i < len(row)-1 {
				w.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)) + out)
			}
		}
		w.WriteByte('\n')
	}
	return c.flush(w, code)
}

// columnFill writes entries in columns, from top to bottom, in 80 characters.
func columnFill(w *bufio.Writer, rows [][]string) {
	widest := 0
	for _, r := range rows {
		widest = max(widest, utf8.RuneCountInString(r[0]))
	}
	width := (widest/8 + 1) * 8
	columns := max(1, 80/width)
	height := (len(rows) + columns - 1) / columns
	for y := range height {
		for x := 0; y+x*height < len(rows); x++ {
			cell := rows[y+x*height][0]
			w.WriteString(cell)
			if y+(x+1)*height < len(rows) {
				for n := utf8.RuneCountInString(cell); n < width; n = (n/8 + 1) * 8 {
					w.WriteByte('\t')
				}
			}
		}
		w.WriteByte('\n')
	}
}
