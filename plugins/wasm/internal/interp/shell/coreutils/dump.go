package coreutils

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
)

// hexdump prints bytes as hexdump -C does, or in words of two bytes.
func hexdump(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("Cn:s:v")
	if err != nil {
		return c.usage(err, 1)
	}
	canonical, all, limit, skip := false, false, int64(-1), int64(0)
	for _, o := range opts {
		switch o.name {
		case 'C':
			canonical = true
		case 'v':
			all = true
		case 'n':
			limit, err = strconv.ParseInt(o.arg, 0, 64)
		case 's':
			skip, err = strconv.ParseInt(o.arg, 0, 64)
		}
		if err != nil || skip < 0 {
			return c.usage(fmt.Errorf("invalid number %s", quoted(o.arg)), 1)
		}
	}
	form := func(w *bufio.Writer, row []byte) {
		if !canonical {
			for i := 0; i < len(row); i += 2 {
				word := uint16(row[i])
				if i+1 < len(row) {
					word |= uint16(row[i+1]) << 8
				}
				fmt.Fprintf(w, " %04x", word)
			}
			for i := (len(row) + 1) / 2; i < 8; i++ {
				w.WriteString("     ")
			}
			return
		}
		w.WriteByte(' ')
		for i := range 16 {
			if i == 8 {
				w.WriteByte(' ')
			}
			if i < len(row) {
				fmt.Fprintf(w, " %02x", row[i])
			} else {
				w.WriteString("   ")
			}
		}
		w.WriteString("  |")
		printable(w, row)
		w.WriteByte('|')
	}
	address := "%07x"
	if canonical {
		address = "%08x"
	}
	w := c.output()
	code := c.dump(ctx, w, operands, dumping{skip, limit, 16, all, func(n int64) string { return fmt.Sprintf(address, n) }, form})
	return c.flush(w, code)
}

// dumping is how a dump looks.
type dumping struct {
	skip, limit int64
	width       int
	all         bool
	address     func(int64) string
	row         func(w *bufio.Writer, row []byte)
}

// dump prints all inputs as one, rows that repeat the one before as "*".
func (c *Call) dump(ctx context.Context, w *bufio.Writer, operands []string, d dumping) int {
	var data []byte
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		if d.limit >= 0 {
			r = io.LimitReader(r, d.skip+d.limit-int64(len(data)))
		}
		b, err := io.ReadAll(r)
		data = append(data, b...)
		return err
	})
	var last []byte
	starred := false
	at := min(d.skip, int64(len(data)))
	for rest := data[at:]; len(rest) > 0; {
		row := rest[:min(d.width, len(rest))]
		rest = rest[len(row):]
		if !d.all && len(row) == d.width && bytes.Equal(row, last) {
			if !starred {
				w.WriteString("*\n")
			}
			starred = true
		} else {
			w.WriteString(d.address(at))
			d.row(w, row)
			w.WriteByte('\n')
			starred = false
		}
		last = row
		at += int64(len(row))
	}
	if end := d.address(at); end != "" && at > 0 {
		w.WriteString(end + "\n")
	}
	return code
}

// od dumps in the format of -t, by default in octal words.
func od(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("A:t:N:j:w::vcxbdos", "address-radix=A", "format=t", "read-bytes=N", "skip-bytes=j", "width=w", "output-duplicates=v")
	if err != nil {
		return c.usage(err, 1)
	}
	d := dumping{limit: -1, width: 16, address: func(n int64) string { return fmt.Sprintf("%07o", n) }}
	kind, unit := byte('o'), 2
	for _, o := range opts {
		switch o.name {
		case 'A':
			form := map[string]string{"d": "%07d", "o": "%07o", "x": "%06x"}[o.arg]
			d.address = func(n int64) string {
				if form == "" {
					return ""
				}
				return fmt.Sprintf(form, n)
			}
		case 't':
			if kind, unit, err = odFormat(o.arg); err != nil {
				return c.usage(err, 1)
			}
		case 'c':
			kind, unit = 'c', 1
		case 'x':
			kind, unit = 'x', 2
		case 'b':
			kind, unit = 'o', 1
		case 'd':
			kind, unit = 'u', 2
		case 's':
			kind, unit = 'd', 2
		case 'N':
			if d.limit, err = size(o.arg); err != nil {
				return c.usage(err, 1)
			}
		case 'j':
			if d.skip, err = size(o.arg); err != nil {
				return c.usage(err, 1)
			}
		case 'w':
			d.width = 32
			if o.arg != "" {
				if d.width, err = strconv.Atoi(o.arg); err != nil || d.width < unit || d.width > 4096 {
					return c.usage(fmt.Errorf("invalid -w argument %s", quoted(o.arg)), 1)
				}
			}
		case 'v':
			d.all = true
		}
	}
	d.row = func(w *bufio.Writer, row []byte) {
		for i := 0; i < len(row); i += unit {
			word := make([]byte, 8)
			copy(word, row[i:min(i+unit, len(row))])
			odWord(w, kind, unit, binary.LittleEndian.Uint64(word))
		}
	}
	w := c.output()
	code := c.dump(ctx, w, operands, d)
	return c.flush(w, code)
}

func odFormat(s string) (kind byte, unit int, err error) {
	for len(s) > 0 && s[len(s)-1] == 'z' {
		s = s[:len(s)-1]
	}
	if s == "" {
		return 0, 0, fmt.Errorf("invalid type string %s", quoted(s))
	}
	kind, unit = s[0], 4
	if kind == 'a' || kind == 'c' {
		unit = 1
	} else if kind == 'f' {
		unit = 8
	}
	switch s[1:] {
	case "":
	case "C", "1":
		unit = 1
	case "S", "2":
		unit = 2
	case "I", "4", "F":
		unit = 4
	case "L", "8", "D":
		unit = 8
	default:
		return 0, 0, fmt.Errorf("invalid type string %s", quoted(s))
	}
	switch kind {
	case 'a', 'c', 'o', 'x', 'u', 'd', 'f':
		return kind, unit, nil
	}
	return 0, 0, fmt.Errorf("invalid type string %s", quoted(s))
}

// odNames are the control characters of "od -c".
var odNames = map[byte]string{0: `\0`, '\a': `\a`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\v': `\v`}

func odWord(w *bufio.Writer, kind byte, unit int, v uint64) {
	signed := int64(v<<(64-8*unit)) >> (64 - 8*unit)
	switch kind {
	case 'c', 'a':
		b := byte(v)
		switch name := odNames[b]; {
		case name != "":
			fmt.Fprintf(w, " %3s", name)
		case b < ' ' || b > '~':
			fmt.Fprintf(w, " %03o", b)
		default:
			fmt.Fprintf(w, " %3c", b)
		}
	case 'x':
		fmt.Fprintf(w, " %0*x", 2*unit, v)
	case 'o':
		fmt.Fprintf(w, " %0*o", (8*unit+2)/3, v)
	case 'u':
		fmt.Fprintf(w, " %*d", len(strconv.FormatUint(math.MaxUint64>>(64-8*unit), 10)), v)
	case 'd':
		fmt.Fprintf(w, " %*d", len(strconv.FormatUint(math.MaxUint64>>(65-8*unit), 10))+1, signed)
	case 'f':
		f := math.Float64frombits(v)
		if unit == 4 {
			f = float64(math.Float32frombits(uint32(v)))
		}
		fmt.Fprintf(w, " %24s", strconv.FormatFloat(f, 'g', -1, 8*unit))
	}
}
