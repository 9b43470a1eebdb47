package coreutils

import (
	"context"
	"io"
	"math"
	"slices"
	"strings"
)

func yes(ctx context.Context, c *Call) int {
	text := "y"
	if len(c.Argv) > 1 {
		text = strings.Join(c.Argv[1:], " ")
	}
	b := []byte(strings.Repeat(text+"\n", max(1, min(8192/(len(text)+1), math.MaxInt16))))
	for ctx.Err() == nil {
		if _, err := c.Stdout.Write(b); err != nil && !broken(err) {
			c.errorf("standard output: %s", reason(err))
			return 1
		} else if err != nil {
			break
		}
	}
	return codePipe
}

func tee(_ context.Context, c *Call) int {
	opts, operands, err := c.options("aip", "append=a", "ignore-interrupts=i")
	if err != nil {
		return c.usage(err, 1)
	}
	code := 0
	writers := []io.Writer{c.Stdout}
	for _, name := range operands {
		flag := openWrite
		if len(opts) > 0 && slices.ContainsFunc(opts, func(o option) bool { return o.name == 'a' }) {
			flag = openAppend
		}
		f, err := c.FS.Open(c.path(name), flag, 0o644)
		if err != nil {
			c.errorf("%s: %s", name, reason(err))
			code = 1
			continue
		}
		defer func() { _ = f.Close() }()
		writers = append(writers, f)
	}
	b := make([]byte, 64<<10)
	for len(writers) > 0 {
		n, err := c.Stdin.Read(b)
		writers = slices.DeleteFunc(writers, func(w io.Writer) bool {
			_, err := w.Write(b[:n])
			if err != nil && !broken(err) {
				c.errorf("%s", reason(err))
			}
			if err != nil {
				code = 1
			}
			return err != nil
		})
		if err != nil {
			break
		}
	}
	return code
}
