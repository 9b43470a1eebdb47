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
	"strings"

	"github.com/itchyny/gojq"
)

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
