package sed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Run edits inputs and returns the exit code that the script chose, else 0. An
// input that cannot be opened is told to failed and left out.
func (s *Script) Run(ctx context.Context, inputs []Input, out io.Writer, files Files, failed func(name string, err error)) (int, error) {
	e := &editor{
		ctx: ctx, script: s, inputs: inputs, out: &output{w: out}, files: files, failed: failed,
		end: '\n', active: make([]int, len(s.commands)), created: map[string]*output{}, holdEnds: true,
	}
	for _, in := range inputs {
		var o *output
		if in.Out != nil {
			o = &output{w: in.Out}
		}
		e.own = append(e.own, o)
	}
	if s.opt.Null {
		e.end = 0
	}
	for _, c := range s.commands {
		name := ""
		switch {
		case c.name == 'w' || c.name == 'W':
			name = c.text
		case c.subst != nil && c.subst.hasFile:
			name = c.subst.file
		}
		if name == "" || e.created[name] != nil {
			continue
		}
		w, err := e.create(name)
		if err != nil {
			return 4, fmt.Errorf("couldn't open file %s: %w", name, err)
		}
		e.created[name] = &output{w: w}
	}
	err := e.run()
	if e.reader != nil {
		_ = e.reader.Close()
	}
	if errors.Is(err, errQuit) {
		err = nil
	}
	return e.code, err
}

// editor is the state of one run.
type editor struct {
	ctx     context.Context
	script  *Script
	inputs  []Input
	out     *output
	own     []*output // of inputs that have one
	files   Files
	failed  func(string, error)
	created map[string]*output
	end     byte

	reader io.ReadCloser
	lines  *bufio.Reader
	name   string

	next     *string // the line after the one at hand, if it was read
	nextEnds bool
	nextFrom int // input of next

	pattern  string
	ends     bool // the line at hand ends with a newline
	from     int  // input of the line at hand
	hold     string
	holdEnds bool
	line     int
	replaced bool
	last     *regexp.Regexp
	active   []int // of ranges: 0 idle, else the last line (-1: until the end matches)
	appends  []func() error
	code     int
	input    int // next one to open
	steps    int
}

func (e *editor) create(name string) (io.Writer, error) {
	switch name {
	case "/dev/stdout":
		return e.out.w, nil
	}
	return e.files.Create(name)
}

// output is where text goes. A last line without an end is written without one,
// which is made up for when more is written.
type output struct {
	w       io.Writer
	missing bool
}

// complete writes the end that the last line lacks.
func (e *editor) complete(o *output) error {
	if !o.missing {
		return nil
	}
	o.missing = false
	_, err := o.w.Write([]byte{e.end})
	return err
}

// write prints text, and a line end if it has one.
func (e *editor) write(o *output, text string, ends bool) error {
	if err := e.complete(o); err != nil {
		return err
	}
	if ends {
		text += string(rune(e.end))
	}
	o.missing = !ends && !strings.HasSuffix(text, string(rune(e.end)))
	_, err := io.WriteString(o.w, text)
	return err
}

// dest is where the output of the line at hand goes.
func (e *editor) dest() *output {
	if e.from < len(e.own) && e.own[e.from] != nil {
		return e.own[e.from]
	}
	return e.out
}

// fetch reads one line ahead. It returns false at the end of the last input.
func (e *editor) fetch() (bool, error) {
	if e.next != nil {
		return true, nil
	}
	for {
		if e.lines == nil {
			if e.input == len(e.inputs) {
				return false, nil
			}
			in := e.inputs[e.input]
			e.input++
			r, err := in.Open()
			if err != nil {
				e.failed(in.Name, err)
				continue
			}
			e.reader, e.lines = r, bufio.NewReaderSize(r, 64<<10)
		}
		text, err := e.lines.ReadString(e.end)
		if err != nil && !errors.Is(err, io.EOF) {
			e.failed(e.inputs[e.input-1].Name, err)
			text = ""
		}
		if err != nil && text == "" {
			_ = e.reader.Close()
			e.reader, e.lines = nil, nil
			continue
		}
		e.nextEnds = err == nil
		if e.nextEnds {
			text = text[:len(text)-1]
		}
		e.next, e.nextFrom = &text, e.input-1
		return true, nil
	}
}

// separate tells whether inputs are edited on their own.
func (e *editor) separate() bool {
	return e.script.opt.Separate || len(e.inputs) > 0 && e.inputs[0].Out != nil
}

// isLast tells whether no line follows.
func (e *editor) isLast() (bool, error) {
	more, err := e.fetch()
	return !more || e.separate() && e.nextFrom != e.from, err
}

// take makes the next line the one at hand.
func (e *editor) take() (bool, error) {
	more, err := e.fetch()
	if !more || err != nil {
		return false, err
	}
	if e.separate() && e.nextFrom != e.from {
		e.line = 0
		clear(e.active)
	}
	// A line without an end is followed by others after all.
	e.pattern, e.ends, e.from, e.next = *e.next, e.nextEnds, e.nextFrom, nil
	if !e.ends {
		if last, err := e.isLast(); err != nil || !last {
			e.ends = true
		}
	}
	e.line++
	e.name = e.inputs[e.from].Name
	return true, nil
}

func (e *editor) run() error {
	for {
		more, err := e.take()
		if !more || err != nil {
			return err
		}
		for again := true; again; {
			if again, err = e.cycle(); err != nil {
				if errors.Is(err, errQuit) {
					return errors.Join(e.flush(), err)
				}
				return err
			}
		}
	}
}

// endCycle prints the line, unless told not to, and what was to follow it.
func (e *editor) endCycle() error {
	if !e.script.opt.Quiet {
		if err := e.write(e.dest(), e.pattern, e.ends); err != nil {
			return err
		}
	}
	return e.flush()
}

// flush writes what was queued to follow the line.
func (e *editor) flush() error {
	list := e.appends
	if len(list) > 0 {
		if err := e.complete(e.dest()); err != nil {
			return err
		}
	}
	e.appends = nil
	for _, f := range list {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// cycle runs the script on the line at hand; again tells to do so once more
// without reading one.
func (e *editor) cycle() (again bool, err error) {
	e.replaced = false
	for i := 0; i < len(e.script.commands); {
		if e.steps++; e.steps&255 == 0 && e.ctx.Err() != nil {
			return false, e.ctx.Err()
		}
		c := &e.script.commands[i]
		ok, err := e.selected(i, c)
		if err != nil {
			return false, err
		}
		i++
		if ok == c.not {
			if c.name == '{' {
				i = c.jump
			}
			continue
		}
		to, next, err := e.do(c, i)
		switch {
		case err != nil:
			return false, err
		case next == stopCycle:
			return false, e.flush()
		case next == restartCycle:
			return true, e.flush()
		}
		i = to
	}
	return false, e.endCycle()
}

// What a command does to the cycle.
const (
	goOn         = iota
	stopCycle    // the next line, without printing this
	restartCycle // once more without reading
)

// selected tells whether the addresses of a command select the line at hand.
func (e *editor) selected(i int, c *command) (bool, error) {
	if c.from == nil {
		return true, nil
	}
	if c.to == nil {
		return e.matches(c.from)
	}
	if e.active[i] == 0 && c.from.kind == byZero && e.line == 1 {
		e.active[i] = -1
		return e.inRange(i, c)
	}
	if e.active[i] != 0 {
		return e.inRange(i, c)
	}
	ok, err := e.matches(c.from)
	if !ok || err != nil {
		return false, err
	}
	switch c.to.kind {
	case byLine:
		if c.to.line > e.line {
			e.active[i] = c.to.line
		}
	case byOffset:
		if c.to.offset > 0 {
			e.active[i] = e.line + c.to.offset
		}
	case byMultiple:
		if n := c.to.offset; n > 0 && e.line%n != 0 {
			e.active[i] = e.line + n - e.line%n
		}
	case byLast:
		last, err := e.isLast()
		if err != nil {
			return false, err
		}
		if !last {
			e.active[i] = -1
		}
	default:
		e.active[i] = -1
	}
	return true, nil
}

// inRange goes on with a range that has begun.
func (e *editor) inRange(i int, c *command) (bool, error) {
	if end := e.active[i]; end > 0 {
		if e.line >= end {
			e.active[i] = 0
		}
		// A range that a line number ended before is over.
		return e.line <= end, nil
	}
	ok, err := e.matches(c.to)
	if ok {
		e.active[i] = 0
	}
	return true, err
}

func (e *editor) matches(a *address) (bool, error) {
	switch a.kind {
	case byLine:
		return e.line == a.line, nil
	case byStep:
		if a.step <= 0 {
			return e.line == a.line, nil
		}
		return e.line >= a.line && (e.line-a.line)%a.step == 0, nil
	case byLast:
		return e.isLast()
	case byRegexp:
		re, err := e.regexp(a.re)
		if err != nil {
			return false, err
		}
		return re.MatchString(e.pattern), nil
	}
	return false, nil
}

// regexp resolves the empty expression.
func (e *editor) regexp(re *regexp.Regexp) (*regexp.Regexp, error) {
	if re == nil {
		re = e.last
	}
	if re == nil {
		return nil, errors.New("no previous regular expression")
	}
	e.last = re
	return re, nil
}

// unambiguous writes text the way the command l does.
func unambiguous(s string, width int) string {
	var b strings.Builder
	column := 0
	for i := 0; i < len(s); i++ {
		piece := string(rune(s[i]))
		switch c := s[i]; {
		case c == '\\':
			piece = `\\`
		case strings.IndexByte("\a\b\f\n\r\t\v", c) >= 0:
			piece = `\` + string("abfnrtv"[strings.IndexByte("\a\b\f\n\r\t\v", c)])
		case c < ' ' || c > '~':
			piece = fmt.Sprintf(`\%03o`, c)
		}
		if width > 1 && column+len(piece) > width-1 {
			b.WriteString("\\\n")
			column = 0
		}
		b.WriteString(piece)
		column += len(piece)
	}
	return b.String() + "$"
}
