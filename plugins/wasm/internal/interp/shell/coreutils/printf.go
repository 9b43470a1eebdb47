package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// formatter carries out printf.
type formatter struct {
	out  strings.Builder
	args []string
	used bool // an argument was taken in this round
	errs []string
	stop bool
	env  func(string) string
}

// Printf returns what bash's printf writes, and what it complains about.
func Printf(format string, args []string, env func(string) string) (out string, complaints []string, err error) {
	f := &formatter{args: args, env: env}
	for {
		f.used = false
		if err := f.round(format); err != nil {
			return f.out.String(), f.errs, err
		}
		if f.stop || !f.used || len(f.args) == 0 {
			return f.out.String(), f.errs, nil
		}
		if f.out.Len() > maxPrintf {
			return "", nil, errors.New("the text is too long")
		}
	}
}

// Limits on what one printf makes and on one of its fields, in bytes.
const (
	maxPrintf = 64 << 20
	maxField  = 1 << 20
)

func (f *formatter) arg() (string, bool) {
	f.used = true
	if len(f.args) == 0 {
		return "", false
	}
	a := f.args[0]
	f.args = f.args[1:]
	return a, true
}

// round writes the format once.
func (f *formatter) round(format string) error {
	for i := 0; i < len(format) && !f.stop; {
		next := strings.IndexByte(format[i:], '%')
		text := format[i:]
		if next >= 0 {
			text = format[i : i+next]
		}
		plain, stop := unescapeText(text, false)
		f.out.WriteString(plain)
		f.stop = stop
		if next < 0 || stop {
			return nil
		}
		i += next + 1
		n, err := f.directive(format[i:])
		if err != nil {
			return err
		}
		i += n
	}
	return nil
}

// directive writes what follows a percent sign and returns how long it was.
func (f *formatter) directive(s string) (n int, err error) {
	number := func() (v int, given bool) {
		if n < len(s) && s[n] == '*' {
			n++
			a, _ := f.arg()
			v, _ = strconv.Atoi(a)
			return v, true
		}
		start := n
		for n < len(s) && isDigit(s[n]) {
			n++
		}
		v, _ = strconv.Atoi(s[start:n])
		return v, n > start
	}
	for n < len(s) && strings.IndexByte("-+ #0'", s[n]) >= 0 {
		n++
	}
	flags := strings.ReplaceAll(s[:n], "'", "")
	width, hasWidth := number()
	if width < 0 {
		flags, width = flags+"-", -width
	}
	precision, hasPrecision := 0, false
	if n < len(s) && s[n] == '.' {
		n++
		precision, _ = number()
		hasPrecision = precision >= 0
	}
	for n < len(s) && strings.IndexByte("hlLjzt", s[n]) >= 0 {
		n++
	}
	if width > maxField || precision > maxField {
		return n, errors.New("the field is too wide")
	}
	if n == len(s) {
		return n, errors.New("`%': missing format character")
	}
	verb := "%" + flags
	if hasWidth && width > 0 {
		verb += strconv.Itoa(width)
	}
	if hasPrecision {
		verb += "." + strconv.Itoa(precision)
	}
	c := s[n]
	n++
	switch c {
	case '%':
		f.out.WriteByte('%')
	case 's', 'b', 'q':
		a, _ := f.arg()
		if c == 'b' {
			a, f.stop = unescapeText(a, true)
		} else if c == 'q' {
			a = shellQuoted(a)
		}
		if hasPrecision {
			a = cutBytes(a, precision)
		}
		pad(&f.out, a, flags, width)
	case 'c':
		a, _ := f.arg()
		pad(&f.out, a[:min(1, len(a))], flags, width)
	case 'd', 'i', 'o', 'u', 'x', 'X':
		v := f.integer()
		if c == 'i' || c == 'u' {
			c = 'd'
		}
		if c != 'd' && v < 0 || s[n-1] == 'u' && v < 0 {
			fmt.Fprintf(&f.out, verb+string(rune(c)), uint64(v))
			break
		}
		if hasPrecision {
			verb = strings.ReplaceAll(verb, "0.", ".")
		}
		fmt.Fprintf(&f.out, verb+string(rune(c)), v)
	case 'e', 'E', 'f', 'F', 'g', 'G', 'a', 'A':
		v := f.float()
		switch {
		case c == 'g' || c == 'G':
			if !hasPrecision {
				verb += ".6"
			}
		case c == 'a' || c == 'A':
			c = map[byte]byte{'a': 'x', 'A': 'X'}[c]
		case !hasPrecision:
			verb += ".6"
		}
		fmt.Fprintf(&f.out, verb+string(rune(c)), v)
	case '(':
		end := strings.Index(s[n:], ")T")
		if end < 0 {
			return n, errors.New("`(': invalid format character")
		}
		layout := s[n : n+end]
		n += end + 2
		t := time.Now()
		if a, ok := f.arg(); ok && a != "-1" && a != "-2" {
			v, _ := strconv.ParseInt(a, 10, 64)
			t = time.Unix(v, 0)
		}
		zone := time.UTC
		if tz := f.env("TZ"); tz != "" {
			if z, err := time.LoadLocation(tz); err == nil {
				zone = z
			}
		}
		if layout == "" {
			layout = "%H:%M:%S"
		}
		pad(&f.out, dateFormat(layout, t.In(zone)), flags, width)
	default:
		return n, fmt.Errorf("`%c': invalid format character", c)
	}
	return n, nil
}

// integer takes an argument that is a number in the shell's notation, or a quote
// and a character.
func (f *formatter) integer() int64 {
	a, ok := f.arg()
	if !ok || a == "" {
		return 0
	}
	if a[0] == '\'' || a[0] == '"' {
		r, _ := utf8.DecodeRuneInString(a[1:])
		if len(a) == 1 {
			r = 0
		}
		return int64(r)
	}
	text := strings.TrimSpace(a)
	v, err := strconv.ParseInt(text, 0, 64)
	if strings.ContainsAny(text, "_bB") && !strings.HasPrefix(strings.ToLower(strings.TrimLeft(text, "+-")), "0x") {
		err = strconv.ErrSyntax
	}
	if err == nil {
		return v
	}
	if u, uerr := strconv.ParseUint(text, 0, 64); uerr == nil {
		return int64(u)
	}
	f.errs = append(f.errs, a+": invalid number")
	// As much as is a number counts.
	end := 0
	for end < len(text) && (isDigit(text[end]) || end == 0 && (text[0] == '-' || text[0] == '+')) {
		end++
	}
	v, _ = strconv.ParseInt(text[:end], 10, 64)
	return v
}

func (f *formatter) float() float64 {
	a, ok := f.arg()
	if !ok || a == "" {
		return 0
	}
	if a[0] == '\'' || a[0] == '"' {
		r, _ := utf8.DecodeRuneInString(a[1:])
		return float64(r)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(a), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		if n, ierr := strconv.ParseInt(a, 0, 64); ierr == nil {
			return float64(n)
		}
		f.errs = append(f.errs, a+": invalid number")
	}
	return v
}

func cutBytes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func pad(b *strings.Builder, s, flags string, width int) {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if strings.Contains(flags, "-") {
		b.WriteString(s + fill)
	} else {
		b.WriteString(fill + s)
	}
}

// shellQuoted quotes as printf %q does: with backslashes where that is enough.
func shellQuoted(s string) string {
	if s == "" {
		return "''"
	}
	for _, r := range s {
		if r < ' ' || r == 127 || r == utf8.RuneError {
			if q, err := syntax.Quote(s, syntax.LangBash); err == nil {
				return q
			}
		}
	}
	var b strings.Builder
	for i, r := range s {
		if strings.ContainsRune(" \t\"'\\$`&|;<>()[]{}*?!^,", r) || i == 0 && (r == '~' || r == '#') {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// printf is the command; in scripts the shell's builtin does the same.
func printf(_ context.Context, c *Call) int {
	args := c.Argv[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(c.Stderr, "printf: usage: printf [-v var] format [arguments]")
		return 2
	}
	out, complaints, err := Printf(args[0], args[1:], func(k string) string { return c.Env[k] })
	_, werr := io.WriteString(c.Stdout, out)
	for _, text := range complaints {
		c.errorf("%s", text)
	}
	switch {
	case err != nil:
		return c.usage(err, 1)
	case werr != nil && broken(werr):
		return codePipe
	case werr != nil:
		c.errorf("write error: %s", reason(werr))
		return 1
	}
	return min(len(complaints), 1)
}
