package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// argumenting is what xargs is asked for.
type argumenting struct {
	null, noEmpty, trace bool
	delim                string
	replace              string
	perCommand, perLine  int
	parallel             int
	command              []string
}

// maxArguments bounds one command line, in bytes.
const maxArguments = 96 << 10

func xargs(ctx context.Context, c *Call) int {
	opts, rest, err := c.options("+0a:d:E:I:i::L:l::n:P:prs:tx", "null=0", "delimiter=d", "replace=i", "max-lines=l", "max-args=n", "max-procs=P", "no-run-if-empty=r", "verbose=t", "arg-file=a")
	if err != nil {
		return c.usage(err, 1)
	}
	x := argumenting{command: rest, parallel: 1}
	in := c.Stdin
	for _, o := range opts {
		number := func() (n int) {
			if n, err = strconv.Atoi(o.arg); err != nil || n < 0 {
				err = fmt.Errorf("invalid number %s for -%c", quoted(o.arg), o.name)
			}
			return n
		}
		switch o.name {
		case '0':
			x.null = true
		case 'd':
			x.delim = unescapeOne(o.arg)
		case 'I':
			x.replace = o.arg
		case 'i':
			if x.replace = o.arg; o.arg == "" {
				x.replace = "{}"
			}
		case 'L', 'l':
			if x.perLine = 1; o.arg != "" {
				x.perLine = number()
			}
		case 'n':
			x.perCommand = number()
		case 'P':
			x.parallel = number()
		case 'r':
			x.noEmpty = true
		case 't':
			x.trace = true
		case 'a':
			r, oerr := c.open(o.arg)
			if oerr != nil {
				c.errorf("Cannot open input file %s: %s", quoted(o.arg), reason(oerr))
				return 1
			}
			defer func() { _ = r.Close() }()
			in = r
		}
		if err != nil {
			return c.usage(err, 1)
		}
	}
	if len(x.command) == 0 {
		x.command = []string{"echo"}
	}
	return x.run(ctx, c, in)
}

func unescapeOne(s string) string {
	switch s {
	case `\n`:
		return "\n"
	case `\t`:
		return "\t"
	case `\0`:
		return "\x00"
	}
	return s
}

// run reads arguments and runs commands, one after the other: commands run in one
// process here, so that more at once would only mix their output.
func (x *argumenting) run(ctx context.Context, c *Call, in io.Reader) int {
	r := bufio.NewReader(in)
	code, ran := 0, false
	var args []string
	bytes, lines := 0, 0
	do := func() bool {
		argv := slices.Clone(x.command)
		if x.replace != "" {
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], x.replace, args[0])
			}
		} else {
			argv = append(argv, args...)
		}
		args, bytes, lines, ran = nil, 0, 0, true
		if x.trace {
			fmt.Fprintln(c.Stderr, strings.Join(argv, " "))
		}
		d := c.with(argv)
		d.Stdin = strings.NewReader("")
		switch n := c.Run(ctx, d); {
		case n == 255:
			c.errorf("%s: exited with status 255; aborting", argv[0])
			code = 124
			return false
		case n == 126, n == 127:
			code = n
			return false
		case n != 0:
			code = 123
		}
		return ctx.Err() == nil
	}
	for {
		arg, eol, err := x.next(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			c.errorf("%v", err)
			return 1
		}
		if arg != nil {
			full := x.perCommand > 0 && len(args) == x.perCommand || bytes+len(*arg) > maxArguments
			if full && len(args) > 0 && !do() {
				return code
			}
			args = append(args, *arg)
			bytes += len(*arg) + 1
		}
		if eol && len(args) > 0 {
			lines++
		}
		if len(args) > 0 && (x.replace != "" || x.perLine > 0 && lines >= x.perLine || x.perCommand > 0 && len(args) == x.perCommand) && !do() {
			return code
		}
	}
	if len(args) > 0 || !ran && !x.noEmpty && x.replace == "" {
		do()
	}
	return code
}

// next reads one argument; eol tells that a line ended behind it.
func (x *argumenting) next(r *bufio.Reader) (arg *string, eol bool, err error) {
	end := byte('\n')
	switch {
	case x.null:
		end = 0
	case x.delim != "":
		end = x.delim[0]
	case x.replace == "":
		return nextWord(r)
	}
	s, err := r.ReadString(end)
	if errors.Is(err, io.EOF) && s == "" {
		return nil, false, io.EOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	s = strings.TrimSuffix(s, string(rune(end)))
	if !x.null && x.delim == "" {
		if s = strings.TrimLeft(s, " \t"); s == "" {
			return nil, false, nil
		}
		s = strings.NewReplacer(`\`, "", `"`, "", `'`, "").Replace(s)
	}
	return &s, true, nil
}

// nextWord reads a word as xargs does: blanks separate, quotes and backslashes
// protect.
func nextWord(r *bufio.Reader) (arg *string, eol bool, err error) {
	var b strings.Builder
	quote, some := byte(0), false
	for {
		c, err := r.ReadByte()
		if err != nil {
			if quote != 0 {
				return nil, false, errors.New("unmatched quote; by default quotes are special to xargs unless you use the -0 option")
			}
			if some {
				s := b.String()
				return &s, true, nil
			}
			return nil, false, err
		}
		switch {
		case quote != 0:
			if c == '\n' {
				return nil, false, errors.New("unmatched quote; by default quotes are special to xargs unless you use the -0 option")
			}
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, some = c, true
		case c == '\\':
			if c, err = r.ReadByte(); err == nil {
				b.WriteByte(c)
				some = true
			}
		case c == ' ' || c == '\t' || c == '\n':
			if some || c == '\n' {
				if !some {
					return nil, true, nil
				}
				s := b.String()
				return &s, c == '\n', nil
			}
		default:
			b.WriteByte(c)
			some = true
		}
	}
}
