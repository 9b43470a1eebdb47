package coreutils

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

func comm(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("123O:", "output-delimiter=O")
	if err != nil {
		return c.usage(err, 1)
	}
	if len(operands) != 2 {
		return c.usage(errors.New("two files are needed"), 1)
	}
	hide, between := map[byte]bool{}, "\t"
	for _, o := range opts {
		hide[o.name] = true
		if o.name == 'O' {
			between = o.arg
		}
	}
	var files [2][]string
	for i, name := range operands {
		if files[i], err = c.lineList(ctx, name); err != nil {
			c.errorf("%s: %s", name, reason(err))
			return 1
		}
	}
	prefix := func(column byte) string {
		p := ""
		for other := byte('1'); other < column; other++ {
			if !hide[other] {
				p += between
			}
		}
		return p
	}
	w := c.output()
	put := func(column byte, line string) {
		if !hide[column] {
			w.WriteString(prefix(column) + line + "\n")
		}
	}
	a, b := files[0], files[1]
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			put('1', a[0])
			a = a[1:]
		case len(a) == 0 || b[0] < a[0]:
			put('2', b[0])
			b = b[1:]
		default:
			put('3', a[0])
			a, b = a[1:], b[1:]
		}
	}
	return c.flush(w, 0)
}

// lineList reads all lines of an input.
func (c *Call) lineList(ctx context.Context, name string) (list []string, err error) {
	r, err := c.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	err = lines(ctx, r, '\n', func(line []byte, _ bool) error {
		list = append(list, string(line))
		return nil
	})
	return list, err
}

func join(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("t:1:2:j:a:v:e:o:i", "ignore-case=i")
	if err != nil {
		return c.usage(err, 1)
	}
	if len(operands) != 2 {
		return c.usage(errors.New("two files are needed"), 1)
	}
	sep, field, also, only, empty, form, fold := "", [2]int{1, 1}, [2]bool{}, false, "", "", false
	for _, o := range opts {
		n, err := strconv.Atoi(o.arg)
		if strings.IndexByte("12jav", o.name) >= 0 && (err != nil || n < 1 || n > 2 && (o.name == 'a' || o.name == 'v')) {
			return c.usage(fmt.Errorf("invalid field number: %s", quoted(o.arg)), 1)
		}
		switch o.name {
		case 't':
			sep = o.arg
		case '1', '2':
			field[o.name-'1'] = n
		case 'j':
			field = [2]int{n, n}
		case 'a', 'v':
			also[n-1] = true
			only = only || o.name == 'v'
		case 'e':
			empty = o.arg
		case 'o':
			form = strings.ReplaceAll(o.arg, " ", ",")
		case 'i':
			fold = true
		}
	}
	var rows [2][][]string
	for i, name := range operands {
		list, err := c.lineList(ctx, name)
		if err != nil {
			c.errorf("%s: %s", name, reason(err))
			return 1
		}
		for _, line := range list {
			f := strings.Fields(line)
			if sep != "" {
				f = strings.Split(line, sep)
			}
			rows[i] = append(rows[i], f)
		}
	}
	out := sep
	if out == "" {
		out = " "
	}
	key := func(i int, row []string) string {
		if field[i] > len(row) {
			return ""
		}
		if fold {
			return strings.ToLower(row[field[i]-1])
		}
		return row[field[i]-1]
	}
	w := c.output()
	put := func(a, b []string) {
		w.WriteString(strings.Join(joinRow(a, b, field, form, empty), out) + "\n")
	}
	a, b := rows[0], rows[1]
	for len(a) > 0 && len(b) > 0 && ctx.Err() == nil {
		ka, kb := key(0, a[0]), key(1, b[0])
		switch {
		case ka < kb:
			if also[0] {
				put(a[0], nil)
			}
			a = a[1:]
		case kb < ka:
			if also[1] {
				put(nil, b[0])
			}
			b = b[1:]
		default:
			n, m := 1, 1
			for n < len(a) && key(0, a[n]) == ka {
				n++
			}
			for m < len(b) && key(1, b[m]) == ka {
				m++
			}
			for _, x := range a[:n] {
				for _, y := range b[:m] {
					if !only {
						put(x, y)
					}
				}
			}
			a, b = a[n:], b[m:]
		}
	}
	for _, x := range a {
		if also[0] {
			put(x, nil)
		}
	}
	for _, y := range b {
		if also[1] {
			put(nil, y)
		}
	}
	return c.flush(w, 0)
}

// joinRow makes a line of join: the key and the other fields, or what form says.
func joinRow(a, b []string, field [2]int, form, empty string) (out []string) {
	cell := func(row []string, n int) string {
		if n < 1 || n > len(row) || row[n-1] == "" {
			return empty
		}
		return row[n-1]
	}
	k := cell(a, field[0])
	if a == nil {
		k = cell(b, field[1])
	}
	if form != "" && form != "auto" {
		for item := range strings.SplitSeq(form, ",") {
			file, n, _ := strings.Cut(item, ".")
			i, _ := strconv.Atoi(n)
			switch file {
			case "0":
				out = append(out, k)
			case "1":
				out = append(out, cell(a, i))
			default:
				out = append(out, cell(b, i))
			}
		}
		return out
	}
	out = append(out, k)
	for i, row := range [][]string{a, b} {
		for n, f := range row {
			if n+1 != field[i] {
				out = append(out, f)
			}
		}
	}
	return out
}
