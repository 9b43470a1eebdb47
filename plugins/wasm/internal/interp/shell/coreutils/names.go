package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

func basename(_ context.Context, c *Call) int {
	opts, operands, err := c.options("+as:z", "multiple=a", "suffix=s", "zero=z")
	if err != nil {
		return c.usage(err, 1)
	}
	several, suffix := false, ""
	for _, o := range opts {
		several = true
		if o.name == 's' {
			suffix = o.arg
		}
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	if !several {
		if len(operands) > 2 {
			return c.usage(fmt.Errorf("extra operand %s", quoted(operands[2])), 1)
		}
		if len(operands) == 2 {
			suffix = operands[1]
		}
		operands = operands[:1]
	}
	for _, name := range operands {
		base := path.Base(name)
		if name == "" {
			base = ""
		}
		if base != suffix {
			base = strings.TrimSuffix(base, suffix)
		}
		fmt.Fprintln(c.Stdout, base)
	}
	return 0
}

func dirname(_ context.Context, c *Call) int {
	_, operands, err := c.options("z", "zero=z")
	if err != nil {
		return c.usage(err, 1)
	}
	if len(operands) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	for _, name := range operands {
		dir := strings.TrimRight(name, "/")
		switch i := strings.LastIndexByte(dir, '/'); {
		case dir == "" && name != "":
			dir = "/"
		case i < 0:
			dir = "."
		default:
			if dir = strings.TrimRight(dir[:i], "/"); dir == "" {
				dir = "/"
			}
		}
		fmt.Fprintln(c.Stdout, dir)
	}
	return 0
}

// fileType guesses what a file holds by its first bytes.
func fileType(_ context.Context, c *Call) int {
	opts, operands, err := c.options("bi", "brief=b", "mime=i", "mime-type=i")
	if err != nil {
		return c.usage(err, 1)
	}
	brief, mime := false, false
	for _, o := range opts {
		brief, mime = brief || o.name == 'b', mime || o.name == 'i'
	}
	for _, name := range operands {
		what := c.guess(name, mime)
		if !brief {
			what = name + ": " + what
		}
		fmt.Fprintln(c.Stdout, what)
	}
	return 0
}

func (c *Call) guess(name string, mime bool) string {
	info, err := c.FS.Lstat(c.path(name))
	switch {
	case err != nil:
		return fmt.Sprintf("cannot open `%s' (%s)", name, reason(err))
	case info.IsDir():
		return map[bool]string{true: "inode/directory", false: "directory"}[mime]
	case info.Mode()&fs.ModeSymlink != 0:
		target, _ := c.FS.Readlink(c.path(name))
		return "symbolic link to " + target
	case info.Size() == 0:
		return map[bool]string{true: "inode/x-empty", false: "empty"}[mime]
	}
	r, err := c.open(name)
	if err != nil {
		return reason(err)
	}
	defer func() { _ = r.Close() }()
	b := make([]byte, 512)
	n, _ := io.ReadFull(r, b)
	kind := http.DetectContentType(b[:n])
	if mime {
		return kind
	}
	switch {
	case strings.HasPrefix(string(b), "#!"):
		return "script, text executable"
	case strings.HasPrefix(kind, "text/plain") && utf8.Valid(b[:max(0, n-3)]):
		for _, x := range b[:n] {
			if x >= utf8.RuneSelf {
				return "UTF-8 Unicode text"
			}
		}
		return "ASCII text"
	}
	kind, _, _ = strings.Cut(kind, ";")
	return kind
}
