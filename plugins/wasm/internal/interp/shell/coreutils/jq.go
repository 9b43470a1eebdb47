package coreutils

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// querying is what jq is asked for.
type querying struct {
	*Call
	raw, compact, null, slurp, exit, join, rawInput, seq, ascii, tab, noNewline bool
	indent                                                                      int
	filter                                                                      string
	names                                                                       []string
	values                                                                      []any
	named                                                                       map[string]any
	positional                                                                  []any
	files                                                                       []string
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

// jqInputs yields the values of all inputs; it is a gojq.Iter.
type jqInputs struct {
	q    *querying
	ctx  context.Context
	r    io.Reader
	dec  *json.Decoder
	done bool
}

// Next returns the next value, or an error once, and then no more.
func (in *jqInputs) Next() (any, bool) {
	if in.done || in.ctx.Err() != nil {
		return nil, false
	}
	var v any
	if in.q.rawInput {
		if in.q.slurp {
			in.done = true
			b, err := io.ReadAll(in.r)
			if err != nil {
				return err, true
			}
			return string(b), true
		}
		line, ok, err := readLine(in.r)
		if err != nil || !ok {
			in.done = true
			if err != nil {
				return err, true
			}
			return nil, false
		}
		return line, true
	}
	if in.q.slurp {
		in.done = true
		list := []any{}
		for {
			var v any
			err := in.dec.Decode(&v)
			if errors.Is(err, io.EOF) {
				return list, true
			}
			if err != nil {
				return fmt.Errorf("parse error: %w", err), true
			}
			list = append(list, v)
		}
	}
	err := in.dec.Decode(&v)
	if errors.Is(err, io.EOF) {
		in.done = true
		return nil, false
	}
	if err != nil {
		in.done = true
		return fmt.Errorf("parse error: %w", err), true
	}
	return v, true
}

// readLine reads one line without reading further.
func readLine(r io.Reader) (string, bool, error) {
	var b []byte
	one := make([]byte, 1)
	for {
		n, err := r.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				return string(b), true, nil
			}
			b = append(b, one[0])
		}
		if errors.Is(err, io.EOF) {
			return string(b), len(b) > 0, nil
		}
		if err != nil {
			return "", false, err
		}
	}
}

func jq(ctx context.Context, c *Call) int {
	q, err := jqOptions(c)
	if err != nil {
		return c.usage(err, 2)
	}
	query, err := gojq.Parse(q.filter)
	if err != nil {
		c.errorf("error: %v\njq: 1 compile error", err)
		return 3
	}
	var readers []io.Reader
	for _, name := range q.files {
		r, err := c.open(name)
		if err != nil {
			c.errorf("error: Could not open %s: %s", name, reason(err))
			return 2
		}
		defer func() { _ = r.Close() }()
		readers = append(readers, r)
	}
	in := &jqInputs{q: &q, ctx: ctx, r: c.Stdin}
	if len(readers) > 0 {
		in.r = io.MultiReader(readers...)
	}
	in.dec = decoder(in.r)
	q.named = map[string]any{"named": maps.Clone(q.named), "positional": slices.Clone(q.positional)}
	if q.positional == nil {
		q.named["positional"] = []any{}
	}
	code, err := gojq.Compile(query,
		gojq.WithVariables(append([]string{"$ARGS"}, q.names...)),
		gojq.WithInputIter(in),
		gojq.WithEnvironLoader(func() []string {
			var list []string
			for k, v := range c.Env {
				list = append(list, k+"="+v)
			}
			return list
		}))
	if err != nil {
		c.errorf("error: %v\njq: 1 compile error", err)
		return 3
	}
	return q.run(ctx, code, in)
}

// run evaluates the filter for every input.
func (q *querying) run(ctx context.Context, code *gojq.Code, in *jqInputs) int {
	w := q.output()
	values := append([]any{q.named}, q.values...)
	exit := 0
	var last any
	some := false
	for first := true; ; first = false {
		var v any
		if q.null {
			if !first {
				break
			}
		} else {
			next, ok := in.Next()
			if !ok {
				break
			}
			if err, bad := next.(error); bad {
				q.errorf("error (at <stdin>): %v", err)
				exit = 2
				break
			}
			v = next
		}
		iter := code.RunWithContext(ctx, v, values...)
		for {
			out, ok := iter.Next()
			if !ok {
				break
			}
			if err, bad := out.(error); bad {
				if halt, ok := errors.AsType[*gojq.HaltError](err); ok {
					if s, ok := halt.Value().(string); ok {
						fmt.Fprint(q.Stderr, s)
					} else if halt.Value() != nil {
						b, _ := gojq.Marshal(halt.Value())
						fmt.Fprintf(q.Stderr, "%s\n", b)
					}
					return q.flush(w, halt.ExitCode())
				}
				if ctx.Err() != nil {
					return 1
				}
				q.errorf("error (at <stdin>): %v", err)
				exit = 5
				break
			}
			last, some = out, true
			text, err := q.text(out)
			if err != nil {
				q.errorf("error: %v", err)
				exit = 5
				break
			}
			w.Write(text)
			if !q.join {
				w.WriteByte('\n')
			}
		}
	}
	if exit == 0 && q.exit {
		switch {
		case !some:
			exit = 4
		case last == nil || last == false:
			exit = 1
		}
	}
	return q.flush(w, exit)
}

// text writes one result.
func (q *querying) text(v any) ([]byte, error) {
	if s, ok := v.(string); ok && q.raw {
		return []byte(s), nil
	}
	b, err := gojq.Marshal(v)
	if err != nil {
		return nil, err
	}
	if q.ascii {
		var out []byte
		for _, r := range string(b) {
			switch {
			case r < 128:
				out = append(out, byte(r))
			case r >= 0x10000:
				r -= 0x10000
				out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			default:
				out = fmt.Appendf(out, `\u%04x`, r)
			}
		}
		b = out
	}
	if q.compact {
		return b, nil
	}
	indent := strings.Repeat(" ", q.indent)
	if q.tab {
		indent = "\t"
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", indent); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
