package coreutils

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// querying is what jq is asked for.
type querying struct {
	*Call
	raw, compact, null, slurp, exit, join, rawInput, ascii, tab bool
	indent                                                      int
	filter                                                      string
	names                                                       []string
	values                                                      []any
	named                                                       map[string]any
	positional                                                  []any
	files                                                       []string
}

// jqOptions reads the command line; the options of jq have arguments of their
// own kind.
func jqOptions(c *Call) (q querying, err error) {
	q = querying{Call: c, indent: 2, named: map[string]any{}}
	args := c.Argv[1:]
	given, rest, fromFile := false, byte(0), ""
	take := func() (s string) {
		if len(args) == 0 {
			err = errors.New("an option lacks its argument")
			return ""
		}
		s, args = args[0], args[1:]
		return s
	}
	bind := func(name string, v any) {
		q.names, q.values = append(q.names, "$"+name), append(q.values, v)
		q.named[name] = v
	}
	for err == nil && len(args) > 0 {
		a := take()
		switch {
		case a == "--arg":
			k := take()
			bind(k, take())
		case a == "--argjson":
			k, text := take(), take()
			var v any
			if v, err = decodeOne(text); err != nil {
				err = fmt.Errorf("invalid JSON text passed to --argjson")
			}
			bind(k, v)
		case a == "--slurpfile", a == "--rawfile":
			k, file := take(), take()
			b, rerr := c.all(file)
			if rerr != nil {
				return q, fmt.Errorf("%s: %s", file, reason(rerr))
			}
			if a == "--rawfile" {
				bind(k, string(b))
				continue
			}
			list := []any{}
			dec := decoder(bytes.NewReader(b))
			for {
				var v any
				if derr := dec.Decode(&v); errors.Is(derr, io.EOF) {
					break
				} else if derr != nil {
					return q, fmt.Errorf("%s: %w", file, derr)
				}
				list = append(list, v)
			}
			bind(k, list)
		case a == "--args", a == "--jsonargs":
			rest = a[2]
		case a == "--indent":
			n, nerr := strconv.Atoi(take())
			if nerr != nil || n < 0 || n > 7 {
				return q, errors.New("--indent takes a number between 0 and 7")
			}
			if q.indent = n; n == 0 {
				q.compact = true
			}
		case a == "--tab":
			q.tab = true
		case a == "--from-file":
			fromFile = take()
		case strings.HasPrefix(a, "--") && len(a) > 2:
			letter, ok := map[string]string{
				"raw-output": "r", "compact-output": "c", "null-input": "n", "slurp": "s", "exit-status": "e", "join-output": "j", "raw-input": "R",
				"ascii-output": "a", "sort-keys": "S", "color-output": "C", "monochrome-output": "M", "unbuffered": "M",
			}[a[2:]]
			if !ok {
				return q, fmt.Errorf("unknown option: %s", a)
			}
			err = q.letter(letter[0])
		case len(a) > 1 && a[0] == '-' && a != "--":
			for i := 1; i < len(a) && err == nil; i++ {
				if a[i] == 'f' {
					fromFile = take()
					continue
				}
				err = q.letter(a[i])
			}
		case a == "--":
		case !given && fromFile == "":
			q.filter, given = a, true
		case rest == 'a':
			q.positional = append(q.positional, a)
		case rest == 'j':
			v, derr := decodeOne(a)
			if derr != nil {
				return q, errors.New("invalid JSON text passed to --jsonargs")
			}
			q.positional = append(q.positional, v)
		default:
			q.files = append(q.files, a)
		}
	}
	if err == nil && fromFile != "" {
		b, rerr := c.all(fromFile)
		if rerr != nil {
			return q, fmt.Errorf("%s: %s", fromFile, reason(rerr))
		}
		if given {
			q.files = append([]string{q.filter}, q.files...)
		}
		q.filter, given = string(b), true
	}
	if err == nil && !given {
		q.filter = "."
	}
	return q, err
}

func (q *querying) letter(c byte) error {
	switch c {
	case 'r':
		q.raw = true
	case 'c':
		q.compact = true
	case 'n':
		q.null = true
	case 's':
		q.slurp = true
	case 'e':
		q.exit = true
	case 'j':
		q.raw, q.join = true, true
	case 'R':
		q.rawInput = true
	case 'a':
		q.ascii = true
	case 'S', 'M', 'C':
	default:
		return fmt.Errorf("unknown option: -%c", c)
	}
	return nil
}

func decoder(r io.Reader) *json.Decoder {
	dec := json.NewDecoder(r)
	dec.UseNumber()
	return dec
}

func decodeOne(s string) (v any, err error) {
	dec := decoder(strings.NewReader(s))
	if err = dec.Decode(&v); err == nil && dec.More() {
		err = errors.New("more than one value")
	}
	return v, err
}
