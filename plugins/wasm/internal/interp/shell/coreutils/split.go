package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func split(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("l:b:n:a:d", "lines=l", "bytes=b", "number=n", "suffix-length=a", "numeric-suffixes=d")
	if err != nil {
		return c.usage(err, 1)
	}
	perFile, inBytes, chunks, length, numeric := int64(1000), false, int64(0), 2, false
	for _, o := range opts {
		switch o.name {
		case 'l', 'b':
			inBytes = o.name == 'b'
			if perFile, err = size(o.arg); err != nil || perFile < 1 {
				return c.usage(fmt.Errorf("invalid number: %s", quoted(o.arg)), 1)
			}
		case 'n':
			if chunks, err = strconv.ParseInt(strings.TrimPrefix(o.arg, "l/"), 10, 32); err != nil || chunks < 1 {
				return c.usage(fmt.Errorf("invalid number of chunks: %s", quoted(o.arg)), 1)
			}
			if strings.HasPrefix(o.arg, "l/") {
				return c.usage(errors.New("chunks of lines are not available"), 1)
			}
			inBytes = true
		case 'a':
			if length, err = strconv.Atoi(o.arg); err != nil || length < 1 || length > 10 {
				return c.usage(fmt.Errorf("invalid suffix length: %s", quoted(o.arg)), 1)
			}
		case 'd':
			numeric = true
		}
	}
	prefix := "x"
	if len(operands) > 1 {
		prefix = operands[1]
	}
	n := 0
	next := func() (File, error) {
		alphabet := "abcdefghijklmnopqrstuvwxyz"
		if numeric {
			alphabet = "0123456789"
		}
		name := make([]byte, length)
		v := n
		for i := length - 1; i >= 0; i-- {
			name[i] = alphabet[v%len(alphabet)]
			v /= len(alphabet)
		}
		if v > 0 {
			return nil, errors.New("output file suffixes exhausted")
		}
		n++
		return c.create(prefix + string(name))
	}
	return c.inputs(ctx, operands[:min(1, len(operands))], func(_ string, r io.Reader) error {
		b, err := io.ReadAll(r)
		if chunks > 0 {
			perFile = max(1, int64(len(b))/chunks)
		}
		for err == nil && len(b) > 0 && ctx.Err() == nil {
			end := int(min(perFile, int64(len(b))))
			if chunks > 0 && int64(n) == chunks-1 {
				end = len(b)
			}
			if !inBytes {
				end = 0
				for k := int64(0); k < perFile && end < len(b); k++ {
					i := slices.Index(b[end:], '\n')
					if i < 0 {
						end = len(b)
						break
					}
					end += i + 1
				}
			}
			var f File
			if f, err = next(); err != nil {
				break
			}
			_, err = f.Write(b[:end])
			err = errors.Join(err, f.Close())
			b = b[end:]
		}
		return err
	})
}

// dd copies blocks.
func dd(ctx context.Context, c *Call) int {
	v := map[string]string{"bs": "512", "count": "-1", "skip": "0", "seek": "0", "if": "-", "of": "-", "conv": "", "status": "", "ibs": "", "obs": "", "iflag": "", "oflag": ""}
	for _, a := range c.Argv[1:] {
		k, value, ok := strings.Cut(a, "=")
		if _, known := v[k]; !ok || !known {
			return c.usage(fmt.Errorf("unrecognized operand %s", quoted(a)), 1)
		}
		v[k] = value
	}
	if v["ibs"] != "" {
		v["bs"] = v["ibs"]
	}
	n := map[string]int64{}
	for _, k := range []string{"bs", "count", "skip", "seek"} {
		var err error
		if v[k] == "-1" {
			n[k] = -1
			continue
		}
		if v[k] == "" {
			err = errors.New("empty")
		} else {
			n[k], err = size(v[k])
		}
		if err != nil || n[k] < 0 || k == "bs" && (n[k] == 0 || n[k] > 64<<20) {
			return c.usage(fmt.Errorf("invalid number: %s", quoted(v[k])), 1)
		}
	}
	in, err := c.open(v["if"])
	if err != nil {
		c.errorf("failed to open %s: %s", quoted(v["if"]), reason(err))
		return 1
	}
	defer func() { _ = in.Close() }()
	out := c.Stdout
	if v["of"] != "-" {
		flag := openWrite
		if strings.Contains(v["conv"], "notrunc") || n["seek"] > 0 {
			flag &^= syscall.O_TRUNC
		}
		f, err := c.FS.Open(c.path(v["of"]), flag, 0o644)
		if err == nil && n["seek"] > 0 {
			_, err = f.Seek(n["seek"]*n["bs"], io.SeekStart)
		}
		if err != nil {
			c.errorf("failed to open %s: %s", quoted(v["of"]), reason(err))
			return 1
		}
		defer func() { _ = f.Close() }()
		out = f
	}
	_, _ = io.CopyN(io.Discard, in, n["skip"]*n["bs"])
	buf := make([]byte, n["bs"])
	full, part, total := 0, 0, int64(0)
	code := 0
	for k := int64(0); (n["count"] < 0 || k < n["count"]) && ctx.Err() == nil; k++ {
		m, err := io.ReadFull(in, buf)
		if m > 0 {
			if _, werr := out.Write(buf[:m]); werr != nil {
				if broken(werr) {
					return codePipe
				}
				c.errorf("error writing %s: %s", quoted(v["of"]), reason(werr))
				code = 1
				break
			}
			total += int64(m)
		}
		if m == len(buf) {
			full++
		} else if m > 0 {
			part++
		}
		if err != nil {
			break
		}
	}
	if v["status"] != "none" {
		fmt.Fprintf(c.Stderr, "%d+%d records in\n%d+%d records out\n", full, part, full, part)
		if v["status"] != "noxfer" {
			fmt.Fprintf(c.Stderr, "%d bytes copied\n", total)
		}
	}
	return code
}
