package coreutils

import (
	"context"
	"io"
	"math"
	"strconv"
	"strings"
)

// Echo writes its arguments as bash's echo does, options included.
func Echo(w io.Writer, args []string) error {
	newline, escapes := true, false
	for len(args) > 0 {
		a := args[0]
		if len(a) < 2 || a[0] != '-' || strings.Trim(a[1:], "neE") != "" {
			break
		}
		for _, letter := range a[1:] {
			switch letter {
			case 'n':
				newline = false
			case 'e':
				escapes = true
			case 'E':
				escapes = false
			}
		}
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		var stop bool
		if text, stop = unescapeText(text, true); stop {
			newline = false
		}
	}
	if newline {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// unescapeText resolves backslash escapes. zero tells that octal numbers begin
// with a zero, as echo and %b have it. stop tells that \c ended the text.
func unescapeText(s string, zero bool) (out string, stop bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case 'e', 'E':
			b.WriteByte(0x1b)
		case '\\':
			b.WriteByte('\\')
		case 'c':
			return b.String(), true
		case '"', '\'':
			if zero {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		case 'x', 'u', 'U':
			n, width := 0, map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			for n < width && i+1+n < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i+1+n]) >= 0 {
				n++
			}
			if n == 0 {
				b.WriteByte('\\')
				b.WriteByte(c)
				continue
			}
			v, _ := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if i += n; c == 'x' {
				b.WriteByte(byte(v))
			} else {
				b.WriteRune(rune(min(v, math.MaxInt32)))
			}
		default:
			if c < '0' || c > '7' {
				b.WriteByte('\\')
				b.WriteByte(c)
				continue
			}
			from := i
			if zero && c == '0' {
				from++
			}
			n := 0
			for n < 3 && from+n < len(s) && s[from+n] >= '0' && s[from+n] <= '7' {
				n++
			}
			v, _ := strconv.ParseUint("0"+s[from:from+n], 8, 16)
			b.WriteByte(byte(v))
			i = from + n - 1
		}
	}
	return b.String(), false
}

func echo(_ context.Context, c *Call) int {
	if err := Echo(c.Stdout, c.Argv[1:]); err != nil {
		if broken(err) {
			return codePipe
		}
		c.errorf("write error: %s", reason(err))
		return 1
	}
	return 0
}
