package coreutils

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// differing is what diff is asked for.
type differing struct {
	*Call
	w                                                       *bufio.Writer
	unified, brief, same, recursive, ignoreCase, newIsEmpty bool
	space, allSpace, blank                                  bool
	context                                                 int
	labels                                                  []string
}

func diff(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("uU:qsriNwbBy:aL:c", "unified=u", "brief=q", "report-identical-files=s", "recursive=r", "ignore-case=i", "new-file=N", "ignore-all-space=w", "ignore-space-change=b", "ignore-blank-lines=B", "text=a", "label=L", "color=y", "strip-trailing-cr=a")
	if err != nil {
		return c.usage(err, 2)
	}
	d := differing{Call: c, w: c.output(), context: udiff.DefaultContextLines}
	for _, o := range opts {
		switch o.name {
		case 'u':
			d.unified = true
		case 'U':
			d.unified = true
			if d.context, err = strconv.Atoi(o.arg); err != nil || d.context < 0 {
				return c.usage(fmt.Errorf("invalid context length %s", quoted(o.arg)), 2)
			}
		case 'q':
			d.brief = true
		case 's':
			d.same = true
		case 'r':
			d.recursive = true
		case 'i':
			d.ignoreCase = true
		case 'N':
			d.newIsEmpty = true
		case 'w':
			d.allSpace = true
		case 'b':
			d.space = true
		case 'B':
			d.blank = true
		case 'L':
			d.labels = append(d.labels, o.arg)
		case 'c':
			return c.usage(errors.New("option -c is not available: use -u"), 2)
		}
	}
	if len(operands) != 2 {
		return c.usage(errors.New("two files are needed"), 2)
	}
	code := d.compare(ctx, operands[0], operands[1])
	return c.flush(d.w, code)
}

// compare compares two operands, files or directories.
func (d *differing) compare(ctx context.Context, a, b string) int {
	ai, aerr := d.stat(a)
	bi, berr := d.stat(b)
	for name, err := range map[string]error{a: aerr, b: berr} {
		if err != nil && !(d.newIsEmpty && notFound(err)) {
			d.errorf("%s: %s", name, reason(err))
			return 2
		}
	}
	aDir, bDir := ai != nil && ai.IsDir(), bi != nil && bi.IsDir()
	switch {
	case aDir && bDir:
		return d.directories(ctx, a, b)
	case aDir && bi != nil:
		a = path.Join(a, path.Base(b))
	case bDir && ai != nil:
		b = path.Join(b, path.Base(a))
	}
	return d.files(a, b)
}

func (d *differing) stat(name string) (fs.FileInfo, error) {
	if name == "-" {
		return nil, nil
	}
	return d.FS.Stat(d.path(name))
}

func (d *differing) directories(ctx context.Context, a, b string) int {
	as, err1 := d.FS.ReadDir(d.path(a))
	bs, err2 := d.FS.ReadDir(d.path(b))
	if err := errors.Join(err1, err2); err != nil {
		return d.fail(err)
	}
	in := map[string][2]fs.FileInfo{}
	for i, list := range [][]fs.FileInfo{as, bs} {
		for _, e := range list {
			pair := in[e.Name()]
			pair[i] = e
			in[e.Name()] = pair
		}
	}
	var names []string
	for name := range in {
		names = append(names, name)
	}
	slices.Sort(names)
	code := 0
	for _, name := range names {
		if ctx.Err() != nil {
			return 2
		}
		p, q := path.Join(a, name), path.Join(b, name)
		pair := in[name]
		switch {
		case pair[0] == nil && !d.newIsEmpty:
			fmt.Fprintf(d.w, "Only in %s: %s\n", b, name)
			code = max(code, 1)
		case pair[1] == nil && !d.newIsEmpty:
			fmt.Fprintf(d.w, "Only in %s: %s\n", a, name)
			code = max(code, 1)
		case pair[0] != nil && pair[1] != nil && pair[0].IsDir() && pair[1].IsDir():
			if d.recursive {
				code = max(code, d.directories(ctx, p, q))
			} else {
				fmt.Fprintf(d.w, "Common subdirectories: %s and %s\n", p, q)
			}
		default:
			if d.recursive && !d.brief && !d.equal(p, q) {
				fmt.Fprintf(d.w, "diff -r%s %s %s\n", map[bool]string{true: "u", false: ""}[d.unified], p, q)
			}
			code = max(code, d.files(p, q))
		}
	}
	return code
}

func (d *differing) read(name string) ([]byte, error) {
	b, err := d.all(name)
	if err != nil && d.newIsEmpty && notFound(err) {
		return nil, nil
	}
	return b, err
}

func (d *differing) equal(a, b string) bool {
	x, err1 := d.read(a)
	y, err2 := d.read(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// normal is a text as the options see it.
func (d *differing) normal(s string) string {
	if !d.ignoreCase && !d.space && !d.allSpace && !d.blank {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		text, ended := strings.CutSuffix(line, "\n")
		switch {
		case d.allSpace:
			text = strings.Join(strings.Fields(text), "")
		case d.space:
			lead := ""
			if strings.TrimLeft(text, " \t") != text {
				lead = " "
			}
			text = lead + strings.Join(strings.Fields(text), " ")
		}
		if d.ignoreCase {
			text = strings.ToLower(text)
		}
		if d.blank && text == "" {
			continue
		}
		b.WriteString(text)
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// maxDiff bounds what is compared line by line, in bytes.
const maxDiff = 32 << 20

func (d *differing) files(a, b string) int {
	x, err := d.read(a)
	if err != nil {
		d.errorf("%s: %s", a, reason(err))
		return 2
	}
	y, err := d.read(b)
	if err != nil {
		d.errorf("%s: %s", b, reason(err))
		return 2
	}
	before, after := string(x), string(y)
	if before == after || d.normal(before) == d.normal(after) {
		if d.same {
			fmt.Fprintf(d.w, "Files %s and %s are identical\n", a, b)
		}
		return 0
	}
	if d.brief {
		fmt.Fprintf(d.w, "Files %s and %s differ\n", a, b)
		return 1
	}
	if bytes.IndexByte(x, 0) >= 0 || bytes.IndexByte(y, 0) >= 0 {
		fmt.Fprintf(d.w, "Binary files %s and %s differ\n", a, b)
		return 1
	}
	if len(before)+len(after) > maxDiff {
		d.errorf("the files have more than %d bytes", maxDiff)
		return 2
	}
	// Lines that the options make equal are shown as the first file has them.
	edits := udiff.Lines(d.normal(before), d.normal(after))
	if d.normal(before) != before || d.normal(after) != after {
		before = d.normal(before)
	}
	if d.unified {
		names := [2]string{d.label(0, a), d.label(1, b)}
		text, err := udiff.ToUnified(names[0], names[1], before, edits, d.context)
		if err != nil {
			return d.fail(err)
		}
		d.w.WriteString(text)
		return 1
	}
	normalDiff(d.w, before, edits)
	return 1
}

// label is what stands for a file in a unified diff: its name and time.
func (d *differing) label(i int, name string) string {
	if i < len(d.labels) {
		return d.labels[i]
	}
	stamp := "1970-01-01 00:00:00.000000000 +0000"
	if info, err := d.stat(name); err == nil && info != nil {
		stamp = info.ModTime().Format("2006-01-02 15:04:05.000000000 -0700")
	}
	return name + "\t" + stamp
}

// normalDiff writes edits of whole lines in the format without options.
func normalDiff(w *bufio.Writer, before string, edits []udiff.Edit) {
	line, at, shift := 1, 0, 0 // line of before at offset at; lines that after is ahead
	for i := 0; i < len(edits); {
		start, end, text := edits[i].Start, edits[i].End, edits[i].New
		for i++; i < len(edits) && edits[i].Start == end; i++ {
			end = edits[i].End
			text += edits[i].New
		}
		line += strings.Count(before[at:start], "\n")
		old := before[start:end]
		removed, added := countLines(old), countLines(text)
		span := func(first, n int) string {
			if n <= 1 {
				return strconv.Itoa(first)
			}
			return fmt.Sprintf("%d,%d", first, first+n-1)
		}
		switch {
		case removed == 0:
			fmt.Fprintf(w, "%da%s\n", line-1, span(line+shift, added))
		case added == 0:
			fmt.Fprintf(w, "%sd%d\n", span(line, removed), line+shift-1)
		default:
			fmt.Fprintf(w, "%sc%s\n", span(line, removed), span(line+shift, added))
		}
		marked(w, "< ", old)
		if removed > 0 && added > 0 {
			w.WriteString("---\n")
		}
		marked(w, "> ", text)
		line, at, shift = line+strings.Count(old, "\n"), end, shift+added-removed
	}
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

func marked(w *bufio.Writer, mark, text string) {
	for line := range strings.Lines(text) {
		w.WriteString(mark + line)
		if !strings.HasSuffix(line, "\n") {
			w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

func compareBytes(_ context.Context, c *Call) int {
	opts, operands, err := c.options("slbn:i:", "silent=s", "quiet=s", "verbose=l", "print-bytes=b", "bytes=n")
	if err != nil {
		return c.usage(err, 2)
	}
	silent, verbose, limit := false, false, int64(-1)
	for _, o := range opts {
		switch o.name {
		case 's':
			silent = true
		case 'l':
			verbose = true
		case 'n':
			if limit, err = size(o.arg); err != nil {
				return c.usage(err, 2)
			}
		}
	}
	if len(operands) == 1 {
		operands = append(operands, "-")
	}
	if len(operands) != 2 {
		return c.usage(errors.New("two files are needed"), 2)
	}
	var data [2][]byte
	for i, name := range operands {
		if data[i], err = c.all(name); err != nil {
			c.errorf("%s: %s", name, reason(err))
			return 2
		}
		if limit >= 0 {
			data[i] = data[i][:min(limit, int64(len(data[i])))]
		}
	}
	code, line := 0, 1
	a, b := data[0], data[1]
	w := c.output()
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			code = 1
			if silent {
				return 1
			}
			if !verbose {
				fmt.Fprintf(c.Stdout, "%s %s differ: byte %d, line %d\n", operands[0], operands[1], i+1, line)
				return 1
			}
			fmt.Fprintf(w, "%d %3o %3o\n", i+1, a[i], b[i])
		}
		if a[i] == '\n' {
			line++
		}
	}
	if len(a) != len(b) {
		short, n := operands[0], len(a)
		if len(b) < len(a) {
			short, n = operands[1], len(b)
		}
		if !silent {
			c.errorf("EOF on %s after byte %d, line %d", short, n, line)
		}
		code = 1
	}
	return c.flush(w, code)
}
