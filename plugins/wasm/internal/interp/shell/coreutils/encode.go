package coreutils

import (
	"bufio"
	"context"
	"crypto/md5"  //nolint:gosec // what the command is named for
	"crypto/sha1" //nolint:gosec // what the command is named for
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

func encodeBase(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("dDiw:", "decode=d", "ignore-garbage=i", "wrap=w")
	if err != nil {
		return c.usage(err, 1)
	}
	decode, ignore, wrap := false, false, 76
	for _, o := range opts {
		switch o.name {
		case 'd', 'D':
			decode = true
		case 'i':
			ignore = true
		case 'w':
			if wrap, err = strconv.Atoi(o.arg); err != nil || wrap < 0 {
				return c.usage(fmt.Errorf("invalid wrap size: %s", quoted(o.arg)), 1)
			}
		}
	}
	if len(operands) > 1 {
		return c.usage(fmt.Errorf("extra operand %s", quoted(operands[1])), 1)
	}
	w := c.output()
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		if decode {
			return c.decodeBase(w, r, ignore)
		}
		var out io.WriteCloser
		fold := &wrapper{w: w, width: wrap}
		if c.name() == "base32" {
			out = base32.NewEncoder(base32.StdEncoding, fold)
		} else {
			out = base64.NewEncoder(base64.StdEncoding, fold)
		}
		if _, err := io.Copy(out, r); err != nil {
			return err
		}
		if err := out.Close(); err != nil {
			return err
		}
		if fold.column > 0 && wrap > 0 {
			return w.WriteByte('\n')
		}
		return nil
	})
	return c.flush(w, code)
}

// errInput says that an encoded input is none.
var errInput = errors.New("invalid input")

func (c *Call) decodeBase(w io.Writer, r io.Reader, ignore bool) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
	if c.name() == "base32" {
		alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567="
	}
	text := strings.Map(func(r rune) rune {
		if r == '\n' || ignore && !strings.ContainsRune(alphabet, r) {
			return -1
		}
		return r
	}, string(b))
	var out []byte
	if c.name() == "base32" {
		out, err = base32.StdEncoding.DecodeString(text)
	} else {
		out, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		// What could be decoded is written all the same.
		_, _ = w.Write(out)
		return errInput
	}
	_, err = w.Write(out)
	return err
}

// wrapper breaks lines.
type wrapper struct {
	w             *bufio.Writer
	width, column int
}

func (f *wrapper) Write(b []byte) (int, error) {
	if f.width == 0 {
		f.column = 1
		return f.w.Write(b)
	}
	for n := len(b); len(b) > 0; {
		if f.column == f.width {
			if err := f.w.WriteByte('\n'); err != nil {
				return n - len(b), err
			}
			f.column = 0
		}
		part := b[:min(len(b), f.width-f.column)]
		if _, err := f.w.Write(part); err != nil {
			return n - len(b), err
		}
		f.column += len(part)
		b = b[len(part):]
	}
	return len(b), nil
}

// sums are the hashes by the name of their command.
var sums = map[string]func() hash.Hash{
	"md5sum": md5.New, "sha1sum": sha1.New, "sha224sum": sha256.New224, "sha256sum": sha256.New, "sha384sum": sha512.New384, "sha512sum": sha512.New,
}

func checksum(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("cbtwsza:q", "check=c", "binary=b", "text=t", "warn=w", "status=s", "quiet=q", "zero=z", "algorithm=a", "ignore-missing=i", "tag=T")
	if err != nil {
		return c.usage(err, 1)
	}
	name, check, mark, status, quiet := c.name(), false, " ", false, false
	if name == "shasum" {
		name = "sha1sum"
	}
	for _, o := range opts {
		switch o.name {
		case 'c':
			check = true
		case 'b':
			mark = "*"
		case 's':
			status = true
		case 'q':
			quiet = true
		case 'a':
			name = "sha" + o.arg + "sum"
		}
	}
	sum := sums[name]
	if sum == nil {
		return c.usage(errors.New("unknown algorithm"), 1)
	}
	digest := func(r io.Reader) (string, error) {
		h := sum()
		_, err := io.Copy(h, r)
		return hex.EncodeToString(h.Sum(nil)), err
	}
	if !check {
		return c.inputs(ctx, operands, func(file string, r io.Reader) error {
			d, err := digest(r)
			if err == nil {
				_, err = fmt.Fprintf(c.Stdout, "%s %s%s\n", d, mark, file)
			}
			return err
		})
	}
	failed, missing := 0, 0
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, '\n', func(line []byte, _ bool) error {
			want, file, ok := strings.Cut(string(line), " ")
			if !ok || file == "" {
				return nil
			}
			file = file[1:]
			f, err := c.open(file)
			if err != nil {
				c.errorf("%s: %s", file, reason(err))
				missing++
				if !status {
					fmt.Fprintf(c.Stdout, "%s: FAILED open or read\n", file)
				}
				return nil
			}
			got, err := digest(f)
			_ = f.Close()
			if err != nil || !strings.EqualFold(got, want) {
				failed++
				if !status {
					fmt.Fprintf(c.Stdout, "%s: FAILED\n", file)
				}
			} else if !status && !quiet {
				fmt.Fprintf(c.Stdout, "%s: OK\n", file)
			}
			return nil
		})
	})
	for _, w := range []struct {
		n         int
		one, many string
	}{
		{missing, "listed file could not be read", "listed files could not be read"},
		{failed, "computed checksum did NOT match", "computed checksums did NOT match"},
	} {
		if w.n == 0 {
			continue
		}
		code = 1
		if text := w.many; !status {
			if w.n == 1 {
				text = w.one
			}
			c.errorf("WARNING: %d %s", w.n, text)
		}
	}
	return code
}

// cksum prints the CRC of POSIX.
func cksum(ctx context.Context, c *Call) int {
	return c.inputs(ctx, c.Argv[1:], func(name string, r io.Reader) error {
		var crc uint32
		n := uint64(0)
		step := func(b byte) {
			crc ^= uint32(b) << 24
			for range 8 {
				if crc&(1<<31) != 0 {
					crc = crc<<1 ^ 0x04c11db7
				} else {
					crc <<= 1
				}
			}
		}
		in := bufio.NewReader(r)
		for {
			b, err := in.ReadByte()
			if err == io.EOF { //nolint:errorlint // as io.Reader says
				break
			}
			if err != nil {
				return err
			}
			step(b)
			n++
		}
		for k := n; k > 0; k >>= 8 {
			step(byte(k))
		}
		if name != "-" {
			name = " " + name
		} else {
			name = ""
		}
		_, err := fmt.Fprintf(c.Stdout, "%d %d%s\n", ^crc, n, name)
		return err
	})
}

// xxd dumps in hexadecimal and reads such dumps.
func xxd(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("prul:s:c:g:ib", "plain=p", "revert=r")
	if err != nil {
		return c.usage(err, 1)
	}
	plain, revert, columns, group, limit, skip, digits := false, false, 0, 2, int64(-1), int64(0), "0123456789abcdef"
	for _, o := range opts {
		var n int64
		if o.arg != "" {
			if n, err = strconv.ParseInt(o.arg, 0, 32); err != nil || n < 0 {
				return c.usage(fmt.Errorf("invalid number %s", quoted(o.arg)), 1)
			}
		}
		switch o.name {
		case 'p':
			plain = true
		case 'r':
			revert = true
		case 'u':
			digits = "0123456789ABCDEF"
		case 'l':
			limit = n
		case 's':
			skip = n
		case 'c':
			columns = int(n)
		case 'g':
			group = int(n)
		default:
			return c.usage(fmt.Errorf("option -%c is not available", o.name), 1)
		}
	}
	if columns == 0 {
		columns = map[bool]int{true: 30, false: 16}[plain]
	}
	w := c.output()
	code := c.inputs(ctx, operands[:min(1, len(operands))], func(_ string, r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if revert {
			w.Write(unhex(string(b), plain))
			return nil
		}
		b = b[min(skip, int64(len(b))):]
		if limit >= 0 {
			b = b[:min(limit, int64(len(b)))]
		}
		for at := 0; at < len(b); at += columns {
			row := b[at:min(at+columns, len(b))]
			if plain {
				for _, x := range row {
					w.WriteByte(digits[x>>4])
					w.WriteByte(digits[x&15])
				}
				w.WriteByte('\n')
				continue
			}
			fmt.Fprintf(w, "%08x:", int64(at)+skip)
			for i := range columns {
				if group > 0 && i%group == 0 || i == 0 {
					w.WriteByte(' ')
				}
				if i < len(row) {
					w.WriteByte(digits[row[i]>>4])
					w.WriteByte(digits[row[i]&15])
				} else {
					w.WriteString("  ")
				}
			}
			w.WriteString("  ")
			printable(w, row)
			w.WriteByte('\n')
		}
		return nil
	})
	return c.flush(w, code)
}

func printable(w *bufio.Writer, row []byte) {
	for _, x := range row {
		if x < ' ' || x > '~' {
			x = '.'
		}
		w.WriteByte(x)
	}
}

// unhex reads digits, or the lines of a dump.
func unhex(s string, plain bool) []byte {
	var out []byte
	for line := range strings.SplitSeq(s, "\n") {
		if !plain {
			_, rest, ok := strings.Cut(line, ":")
			if !ok {
				continue
			}
			line, _, _ = strings.Cut(strings.TrimPrefix(rest, " "), "  ")
		}
		line = strings.Map(func(r rune) rune {
			if strings.ContainsRune("0123456789abcdefABCDEF", r) {
				return r
			}
			return -1
		}, line)
		b, _ := hex.DecodeString(line[:len(line)&^1])
		out = append(out, b...)
	}
	return out
}
