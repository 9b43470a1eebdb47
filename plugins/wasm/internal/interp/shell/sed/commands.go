package sed

import (
	"errors"
	"strconv"
	"strings"
)

// do carries out a command; to is the index of the one that follows.
func (e *editor) do(c *command, next int) (to, cycle int, err error) {
	switch c.name {
	case '{':
	case '=':
		err = e.write(e.dest(), strconv.Itoa(e.line)+"\n", false)
	case 'a':
		text, w := c.text, e.dest()
		e.appends = append(e.appends, func() error { return e.write(w, text, false) })
	case 'i':
		err = e.write(e.dest(), c.text, false)
	case 'c':
		return e.change(c, next)
	case 'b':
		return c.jump, goOn, nil
	case 't', 'T':
		if e.replaced == (c.name == 't') {
			e.replaced = false
			return c.jump, goOn, nil
		}
		e.replaced = false
	case 'd':
		return next, stopCycle, nil
	case 'D':
		if _, rest, ok := strings.Cut(e.pattern, "\n"); ok {
			e.pattern = rest
			return next, restartCycle, nil
		}
		return next, stopCycle, nil
	case 'g':
		e.pattern, e.ends = e.hold, e.holdEnds
	case 'G':
		e.pattern, e.ends = e.pattern+"\n"+e.hold, e.holdEnds
	case 'h':
		e.hold, e.holdEnds = e.pattern, e.ends
	case 'H':
		e.hold, e.holdEnds = e.hold+"\n"+e.pattern, e.ends
	case 'x':
		e.pattern, e.hold, e.ends, e.holdEnds = e.hold, e.pattern, e.holdEnds, e.ends
	case 'z':
		e.pattern = ""
	case 'F':
		err = e.write(e.dest(), e.name+"\n", false)
	case 'l', 'L':
		width := c.number
		if width == 0 {
			width = 70
		}
		err = e.write(e.dest(), unambiguous(e.pattern, width)+"\n", false)
	case 'n', 'N':
		return e.nextLine(c, next)
	case 'p':
		err = e.write(e.dest(), e.pattern, e.ends)
	case 'P':
		first, _, more := strings.Cut(e.pattern, "\n")
		err = e.write(e.dest(), first, more || e.ends)
	case 'q', 'Q':
		e.code = c.number
		if c.name == 'q' {
			if err = e.endCycle(); err == nil {
				err = e.complete(e.dest())
			}
		}
		if err == nil {
			err = errQuit
		}
	case 'r', 'R':
		e.read(c)
	case 'w':
		err = e.write(e.created[c.text], e.pattern, e.ends)
	case 'W':
		first, _, more := strings.Cut(e.pattern, "\n")
		err = e.write(e.created[c.text], first, more || e.ends)
	case 's':
		err = e.substitute(c.subst)
	case 'y':
		e.pattern = strings.Map(func(r rune) rune {
			if to, ok := c.from2[r]; ok {
				return to
			}
			return r
		}, e.pattern)
	}
	return next, goOn, err
}

// change replaces the line, or the range, by text.
func (e *editor) change(c *command, next int) (int, int, error) {
	if c.to == nil || c.not || e.active[next-1] == 0 {
		if err := e.write(e.dest(), c.text, false); err != nil {
			return next, goOn, err
		}
	}
	return next, stopCycle, nil
}

// nextLine is n, which prints the line and takes another, and N, which adds
// another. Without another the script ends.
func (e *editor) nextLine(c *command, next int) (int, int, error) {
	last, err := e.isLast()
	if err != nil {
		return next, goOn, err
	}
	more, err := e.fetch()
	if err != nil {
		return next, goOn, err
	}
	if last && (!more || !e.separate()) || !more {
		// What is at hand is printed, also by N: GNU does so.
		return next, goOn, errors.Join(e.endCycle(), errQuit)
	}
	if c.name == 'n' {
		if !e.script.opt.Quiet {
			if err := e.write(e.dest(), e.pattern, e.ends); err != nil {
				return next, goOn, err
			}
		}
		if err := e.flush(); err != nil {
			return next, goOn, err
		}
		_, err = e.take()
		return next, goOn, err
	}
	before := e.pattern
	if _, err = e.take(); err == nil {
		e.pattern = before + "\n" + e.pattern
	}
	return next, goOn, err
}

// read queues the content of a file. A file that cannot be read is empty.
func (e *editor) read(c *command) {
	name, w := c.text, e.dest()
	e.appends = append(e.appends, func() error {
		b, err := e.files.Read(name)
		if err != nil || len(b) == 0 {
			return nil //nolint:nilerr // as sed does
		}
		_, err = w.w.Write(b)
		return err
	})
}

// MaxLine bounds the line at hand, in bytes: doubling it needs few commands.
const MaxLine = 256 << 20

func (e *editor) substitute(s *substitution) error {
	re, err := e.regexp(s.re)
	if err != nil {
		return err
	}
	text, done := s.apply(re, e.pattern)
	if !done {
		return nil
	}
	if len(text) > MaxLine {
		return errors.New("line too long")
	}
	e.pattern, e.replaced = text, true
	if s.print {
		if err := e.write(e.dest(), e.pattern, e.ends); err != nil {
			return err
		}
	}
	if s.hasFile {
		return e.write(e.created[s.file], e.pattern, e.ends)
	}
	return nil
}
