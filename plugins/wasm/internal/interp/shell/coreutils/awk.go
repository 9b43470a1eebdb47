package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/benhoyt/goawk/interp"
	"github.com/benhoyt/goawk/parser"
)

// awkInputs hands the files of the command line to the interpreter one by one, as
// its standard input: it would open files of the host by itself. Each "-" among
// its arguments reads up to the end of the current file.
type awkInputs struct {
	c     *Call
	names []string
	name  string
	r     io.ReadCloser
	code  int
}

func (in *awkInputs) Read(b []byte) (int, error) {
	if in.r == nil {
		if len(in.names) == 0 {
			return 0, io.EOF
		}
		in.name, in.names = in.names[0], in.names[1:]
		r, err := in.c.open(in.name)
		if err != nil {
			in.c.errorf("can't open file %s: %s", in.name, reason(err))
			in.code = 2
			return 0, io.EOF
		}
		in.r = r
	}
	n, err := in.r.Read(b)
	if err != nil {
		in.skip()
		if !errors.Is(err, io.EOF) {
			in.c.errorf("%s: %s", in.name, reason(err))
			in.code = 2
		}
		if n == 0 {
			return 0, io.EOF
		}
		// The end is reported by the next Read, of the same file.
		in.r = io.NopCloser(strings.NewReader(""))
		return n, nil
	}
	return n, nil
}

// skip leaves the rest of the current file out.
func (in *awkInputs) skip() {
	if in.r != nil {
		_ = in.r.Close()
		in.r = nil
	}
}

var awkVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

func awk(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("+F:v:f:", "field-separator=F", "assign=v", "file=f", "version=V")
	if err != nil {
		return c.usage(err, 2)
	}
	var vars []string
	source, given := "", false
	for _, o := range opts {
		switch o.name {
		case 'F':
			sep := o.arg
			if sep == "t" {
				sep = "\t"
			}
			vars = append(vars, "FS", sep)
		case 'v':
			k, v, ok := strings.Cut(o.arg, "=")
			if !ok {
				return c.usage(fmt.Errorf("%s argument to -v is no assignment", quoted(o.arg)), 2)
			}
			vars = append(vars, k, v)
		case 'f':
			b, err := c.all(o.arg)
			if err != nil {
				c.errorf("can't open file %s: %s", o.arg, reason(err))
				return 2
			}
			source, given = source+string(b)+"\n", true
		}
	}
	if !given {
		if len(operands) == 0 {
			return c.usage(errors.New("usage: awk [-F fs][-v var=value] 'program' [file ...]"), 2)
		}
		source, operands = operands[0], operands[1:]
	}
	in := &awkInputs{c: c}
	defer in.skip()
	var args []string
	for _, o := range operands {
		if !awkVariable.MatchString(o) {
			in.names = append(in.names, o)
			o = "-"
		}
		args = append(args, o)
	}
	if len(in.names) == 0 {
		in.names = []string{"-"}
	}
	first := in.names[0]
	functions := map[string]any{
		"__filename": func() string {
			if in.name == "-" || in.name == "" && first == "-" {
				return ""
			}
			return in.name
		},
		"__skip": func() { in.skip(); in.r = io.NopCloser(strings.NewReader("")) },
	}
	program, err := parser.ParseProgram([]byte(awkSource(source)), &parser.ParserConfig{Funcs: functions})
	if err != nil {
		c.errorf("%v", err)
		return 2
	}
	environ := []string{}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		environ = append(environ, k, c.Env[k])
	}
	run, err := interp.New(program)
	if err != nil {
		return c.usage(err, 2)
	}
	w := bufio.NewWriterSize(c.Stdout, 32<<10)
	code, err := run.ExecuteContext(ctx, &interp.Config{
		Stdin: in, Output: w, Error: c.Stderr, Argv0: "awk", Args: args, Vars: vars, Funcs: functions, Environ: environ,
		NoExec: true, NoFileWrites: true, NoFileReads: true,
	})
	if err != nil && !broken(err) && ctx.Err() == nil {
		c.errorf("%s", awkReason(err))
		code = max(code, 2)
	}
	return c.flush(w, max(code, in.code))
}

// awkReason explains what is not available.
func awkReason(err error) string {
	text := err.Error()
	for from, to := range map[string]string{
		"NoFileWrites": "output to files is not available here: print to standard output and redirect that",
		"NoFileReads":  "getline from files is not available here: pass the file as an argument",
		"NoExec":       "system() and pipes to commands are not available here: use a pipeline of the shell",
	} {
		if strings.Contains(text, from) {
			return to
		}
	}
	return text
}

var awkWords = regexp.MustCompile(`"(?:\\.|[^"\\\n])*"|#[^\n]*|\b(?:FILENAME|nextfile)\b`)

// awkSource replaces what the interpreter would get wrong because all its input is
// standard input: the name of the file, and leaving the rest of it out.
func awkSource(s string) string {
	if !strings.Contains(s, "FILENAME") && !strings.Contains(s, "nextfile") {
		return s
	}
	return awkWords.ReplaceAllStringFunc(s, func(word string) string {
		switch word {
		case "FILENAME":
			return "__filename()"
		case "nextfile":
			return "{ __skip(); nextfile }"
		}
		return word
	})
}
