package coreutils

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"unicode"
)

func shuf(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("n:i:ezr", "head-count=n", "input-range=i", "echo=e", "zero-terminated=z", "repeat=r")
	if err != nil {
		return c.usage(err, 1)
	}
	limit, end, repeat := -1, byte('\n'), false
	var items []string
	echo, ranged := false, false
	for _, o := range opts {
		switch o.name {
		case 'n':
			if limit, err = strconv.Atoi(o.arg); err != nil || limit < 0 {
				return c.usage(fmt.Errorf("invalid line count: %s", quoted(o.arg)), 1)
			}
		case 'i':
			var low, high int
			if _, err := fmt.Sscanf(o.arg, "%d-%d", &low, &high); err != nil || high < low || high-low > 10_000_000 {
				return c.usage(fmt.Errorf("invalid input range: %s", quoted(o.arg)), 1)
			}
			for ; low <= high; low++ {
				items = append(items, strconv.Itoa(low))
			}
			ranged = true
		case 'e':
			echo = true
		case 'z':
			end = 0
		case 'r':
			repeat = true
		}
	}
	code := 0
	switch {
	case echo:
		items = operands
	case !ranged:
		code = c.inputs(ctx, operands, func(_ string, r io.Reader) error {
			return lines(ctx, r, end, func(line []byte, _ bool) error {
				items = append(items, string(line))
				return nil
			})
		})
	}
	w := c.output()
	if repeat && len(items) > 0 {
		for n := 0; (limit < 0 || n < limit) && ctx.Err() == nil; n++ {
			if _, err := w.WriteString(items[rand.IntN(len(items))] + string(rune(end))); err != nil {
				break
			}
		}
		return c.flush(w, code)
	}
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	if limit >= 0 {
		items = items[:min(limit, len(items))]
	}
	for _, s := range items {
		w.WriteString(s)
		w.WriteByte(end)
	}
	return c.flush(w, code)
}

// stringsCommand prints the runs of printable characters in files.
func stringsCommand(ctx context.Context, c *Call) int {
	c.Argv = numericOption(c.Argv)
	opts, operands, err := c.options("n:a", "bytes=n", "all=a")
	if err != nil {
		return c.usage(err, 1)
	}
	least := 4
	for _, o := range opts {
		if o.name == 'n' {
			if least, err = strconv.Atoi(o.arg); err != nil || least < 1 {
				return c.usage(fmt.Errorf("invalid minimum string length %s", o.arg), 1)
			}
		}
	}
	w := c.output()
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		in := bufio.NewReader(r)
		var run []byte
		for {
			b, err := in.ReadByte()
			if err == nil && (b == '\t' || b < unicode.MaxASCII && unicode.IsPrint(rune(b))) {
				run = append(run, b)
				continue
			}
			if len(run) >= least {
				w.Write(run)
				w.WriteByte('\n')
			}
			run = run[:0]
			if err == io.EOF { //nolint:errorlint // as io.Reader says
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	return c.flush(w, code)
}
