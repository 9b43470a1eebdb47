package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/posixre"
)

// searching is what grep is asked for.
type searching struct {
	mode                                        byte // of the expression: G, E, F or P
	patterns                                    []string
	ignore, invert, word, line                  bool
	number, count, list, without, quiet, silent bool
	only, recursive, binary, offset, hidden     bool
	names                                       int // 1 always, -1 never, 0 with several files
	most, before, after                         int
	end                                         byte
	include, exclude, excludeDir                []string

	re *regexp.Regexp
}

var grepLong = []string{
	"extended-regexp=E", "fixed-strings=F", "basic-regexp=G", "perl-regexp=P", "regexp=e", "file=f", "ignore-case=i", "no-ignore-case=Y",
	"invert-match=v", "word-regexp=w", "line-regexp=x", "count=c", "files-with-matches=l", "files-without-match=L", "max-count=m",
	"only-matching=o", "quiet=q", "silent=q", "no-messages=s", "byte-offset=b", "with-filename=H", "no-filename=h", "line-number=n",
	"null=Z", "null-data=z", "after-context=A", "before-context=B", "context=C", "text=a", "recursive=r", "dereference-recursive=R",
	"include=I", "exclude=X", "exclude-dir=D", "color=K", "colour=K", "line-buffered=u",
}

func grepOptions(c *Call) (s searching, operands []string, err error) {
	c.Argv = grepContext(c.Argv)
	opts, operands, err := c.options("EFGPe:f:iyYvwxclLm:oqsbHhnZzA:B:C:arRI:X:D:K::uU", grepLong...)
	s = searching{mode: 'G', most: -1, end: '\n'}
	switch c.name() {
	case "egrep":
		s.mode = 'E'
	case "fgrep":
		s.mode = 'F'
	}
	given := false
	for _, o := range opts {
		n := 0
		if strings.IndexByte("mABC", o.name) >= 0 {
			if n, err = strconv.Atoi(o.arg); err != nil || n < 0 && o.name != 'm' {
				return s, nil, fmt.Errorf("%s: invalid context length argument", o.arg)
			}
		}
		switch o.name {
		case 'E', 'F', 'G', 'P':
			s.mode = o.name
		case 'e':
			s.patterns, given = append(s.patterns, strings.Split(o.arg, "\n")...), true
		case 'f':
			b, err := c.all(o.arg)
			if err != nil {
				return s, nil, fmt.Errorf("%s: %s", o.arg, reason(err))
			}
			if len(b) > 0 {
				s.patterns = append(s.patterns, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
			}
			given = true
		case 'i', 'y':
			s.ignore = true
		case 'Y':
			s.ignore = false
		case 'v':
			s.invert = true
		case 'w':
			s.word = true
		case 'x':
			s.line = true
		case 'c':
			s.count = true
		case 'l':
			s.list = true
		case 'L':
			s.without = true
		case 'm':
			s.most = n
		case 'o':
			s.only = true
		case 'q':
			s.quiet = true
		case 's':
			s.silent = true
		case 'b':
			s.offset = true
		case 'H':
			s.names = 1
		case 'h':
			s.names = -1
		case 'n':
			s.number = true
		case 'Z':
			s.hidden = true
		case 'z':
			s.end = 0
		case 'A':
			s.after = n
		case 'B':
			s.before = n
		case 'C':
			s.before, s.after = n, n
		case 'a':
			s.binary = true
		case 'r', 'R':
			s.recursive = true
		case 'I':
			s.include = append(s.include, o.arg)
		case 'X':
			s.exclude = append(s.exclude, o.arg)
		case 'D':
			s.excludeDir = append(s.excludeDir, strings.TrimSuffix(o.arg, "/"))
		}
	}
	if err == nil && !given {
		if len(operands) == 0 {
			return s, nil, errors.New("usage: grep [OPTION]... PATTERNS [FILE]")
		}
		s.patterns, operands = strings.Split(operands[0], "\n"), operands[1:]
	}
	return s, operands, err
}

// grepContext turns the old spelling "-2" into "-C 2", and -I into nothing that
// takes an argument.
func grepContext(argv []string) []string {
	out := slices.Clone(argv)
	for i, a := range out[1:] {
		if a == "--" {
			break
		}
		if len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "0123456789") == "" {
			out[i+1] = "-C" + a[1:]
		}
	}
	return slices.DeleteFunc(out, func(a string) bool { return a == "-I" })
}

// compile makes one expression of all patterns.
func (s *searching) compile() error {
	var parts []string
	for _, p := range s.patterns {
		var text string
		var err error
		switch s.mode {
		case 'F':
			text = regexp.QuoteMeta(p)
		case 'P':
			text = p
		default:
			text, err = posixre.Translate(p, s.mode == 'E')
		}
		if err != nil {
			return err
		}
		parts = append(parts, "(?:"+text+")")
	}
	text := strings.Join(parts, "|")
	if len(parts) == 0 {
		text = `[^\x00-\x{10FFFF}]` // no pattern matches nothing
	}
	switch {
	case s.line:
		text = `\A(?:` + text + `)\z`
	case s.word:
		text = `\b(?:` + text + `)\b`
	}
	flags := "(?s)"
	if s.ignore {
		flags = "(?si)"
	}
	re, err := regexp.Compile(flags + text)
	if err != nil {
		what, _, _ := strings.Cut(err.Error(), ": `")
		return fmt.Errorf("invalid expression: %s", strings.TrimPrefix(what, "error parsing regexp: "))
	}
	if s.mode != 'P' {
		re.Longest()
	}
	s.re = re
	return nil
}

func grep(ctx context.Context, c *Call) int {
	s, operands, err := grepOptions(c)
	if err == nil {
		err = s.compile()
	}
	if err != nil {
		return c.usage(err, 2)
	}
	w := c.output()
	found, failed := false, false
	one := func(name string, r io.Reader) bool {
		hit, err := s.file(ctx, w, name, r)
		found = found || hit
		if err != nil && !broken(err) && ctx.Err() == nil {
			failed = true
			if !s.silent {
				c.errorf("%s: %s", name, reason(err))
			}
		}
		return err == nil && !(s.quiet && found)
	}
	if len(operands) == 0 && s.recursive {
		operands = []string{"."}
		if s.names == 0 {
			s.names = 1
		}
	}
	if len(operands) == 0 {
		operands = []string{"-"}
	}
	several := len(operands) > 1 || s.recursive
	if s.names == 0 && several {
		s.names = 1
	}
	for _, name := range operands {
		if ctx.Err() != nil || s.quiet && found {
			break
		}
		if name == "-" {
			one("(standard input)", c.Stdin)
			continue
		}
		info, err := c.FS.Stat(c.path(name))
		if err == nil && info.IsDir() {
			if !s.recursive {
				if !s.silent {
					c.errorf("%s: Is a directory", name)
				}
				continue
			}
			s.walk(ctx, c, name, one)
			continue
		}
		r, err := c.open(name)
		if err != nil {
			failed = true
			if !s.silent {
				c.errorf("%s: %s", name, reason(err))
			}
			continue
		}
		one(name, r)
		_ = r.Close()
	}
	code := 1
	switch {
	case found && (s.quiet || !failed):
		code = 0
	case failed:
		code = 2
	}
	return c.flush(w, code)
}

// walk searches a directory, in the order of names.
func (s *searching) walk(ctx context.Context, c *Call, dir string, one func(string, io.Reader) bool) {
	list, err := c.FS.ReadDir(c.path(dir))
	if err != nil {
		c.errorf("%s: %s", dir, reason(err))
		return
	}
	for _, info := range list {
		if ctx.Err() != nil {
			return
		}
		name := strings.TrimSuffix(dir, "/") + "/" + info.Name()
		if dir == "." && !slices.Contains(c.Argv[1:], ".") {
			name = info.Name()
		}
		if info.IsDir() {
			if !globAny(s.excludeDir, info.Name()) {
				s.walk(ctx, c, name, one)
			}
			continue
		}
		if !info.Mode().IsRegular() || len(s.include) > 0 && !globAny(s.include, info.Name()) || globAny(s.exclude, info.Name()) {
			continue
		}
		r, err := c.open(name)
		if err != nil {
			c.errorf("%s: %s", name, reason(err))
			continue
		}
		more := one(name, r)
		_ = r.Close()
		if !more && s.quiet {
			return
		}
	}
}

func globAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}
