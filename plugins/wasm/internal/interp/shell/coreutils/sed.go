package coreutils

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/sed"
)

// sedFiles are the files that a sed script names.
type sedFiles struct {
	c    *Call
	open []File
}

func (f *sedFiles) Read(name string) ([]byte, error) {
	if name == "/dev/stdin" {
		name = "-"
	}
	return f.c.all(name)
}

func (f *sedFiles) Create(name string) (io.Writer, error) {
	h, err := f.c.create(name)
	if err != nil {
		return nil, err
	}
	f.open = append(f.open, h)
	return h, nil
}

// sedCommand is sed; package sed does the work.
func sedCommand(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("ne:f:Eri::szul:", "quiet=n", "silent=n", "expression=e", "file=f", "regexp-extended=E", "in-place=i", "separate=s", "null-data=z", "unbuffered=u", "line-length=l", "posix=u", "sandbox=u")
	if err != nil {
		return c.usage(err, 1)
	}
	var o sed.Options
	var script []string
	inPlace, suffix := false, ""
	for _, opt := range opts {
		switch opt.name {
		case 'n':
			o.Quiet = true
		case 'e':
			script = append(script, opt.arg)
		case 'f':
			b, err := c.all(opt.arg)
			if err != nil {
				c.errorf("couldn't open file %s: %s", opt.arg, reason(err))
				return 1
			}
			text := strings.TrimSuffix(string(b), "\n")
			if first, rest, _ := strings.Cut(text, "\n"); first == "#n" {
				o.Quiet, text = true, rest
			}
			script = append(script, text)
		case 'E', 'r':
			o.Extended = true
		case 'i':
			inPlace, suffix = true, opt.arg
		case 's':
			o.Separate = true
		case 'z':
			o.Null = true
		}
	}
	if script == nil {
		if len(operands) == 0 {
			return c.usage(errors.New("usage: sed [OPTION]... SCRIPT [FILE]"), 1)
		}
		script, operands = operands[:1], operands[1:]
	}
	s, err := sed.Parse(strings.Join(script, "\n"), o)
	if err != nil {
		return c.usage(err, 1)
	}
	code := 0
	failed := func(name string, err error) {
		c.errorf("can't read %s: %s", name, reason(err))
		code = 2
	}
	files := &sedFiles{c: c}
	defer func() {
		for _, f := range files.open {
			_ = f.Close()
		}
	}()
	w := c.output()
	if len(operands) == 0 {
		operands = []string{"-"}
	}
	var inputs []sed.Input
	var edited []*bytes.Buffer
	for _, name := range operands {
		in := sed.Input{Name: name, Open: func() (io.ReadCloser, error) { return c.open(name) }}
		if inPlace {
			b := &bytes.Buffer{}
			in.Out, edited = b, append(edited, b)
			// Read at once, so that a file which cannot be read stays as it is.
			content, err := c.all(name)
			in.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), err }
			if err != nil {
				edited[len(edited)-1] = nil
			}
		}
		inputs = append(inputs, in)
	}
	chosen, err := s.Run(ctx, inputs, w, files, failed)
	if err != nil && !broken(err) {
		c.errorf("%s", reason(err))
		_ = c.flush(w, 1)
		return max(chosen, 1)
	}
	for i, b := range edited {
		if b == nil {
			continue
		}
		if err := c.replaceFile(operands[i], suffix, b.Bytes()); err != nil {
			c.errorf("couldn't edit %s: %s", operands[i], reason(err))
			code = 4
		}
	}
	return c.flush(w, max(code, chosen))
}

// replaceFile writes the new content of a file and keeps the old one under
// another name if there is a suffix.
func (c *Call) replaceFile(name, suffix string, content []byte) error {
	info, err := c.FS.Stat(c.path(name))
	if err != nil {
		return err
	}
	if suffix != "" {
		if err := c.FS.Rename(c.path(name), c.path(name+suffix)); err != nil {
			return err
		}
	}
	f, err := c.FS.Open(c.path(name), openWrite, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
