package language

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/canon"
)

// Bounds of what a table may answer. A reply beyond one is refused whole.
const (
	// MaxTableBytes bounds an encoded table.
	MaxTableBytes = 256 << 10
	// MaxPlanBytes bounds an encoded plan, which carries the caller's arguments.
	MaxPlanBytes = 4 << 20
	// MaxLanguages, MaxAliases and MaxToolchains bound a table's lists.
	MaxLanguages  = 256
	MaxAliases    = 16
	MaxToolchains = 16
	// MaxSteps, MaxArgv and MaxArgs bound a plan's lists.
	MaxSteps = 8
	MaxArgv  = 64
	MaxArgs  = 4096
	// MaxEnv bounds the variables of a plan.
	MaxEnv = 64
	// maxText bounds one element of Argv and one value of Env.
	maxText = 4096
)

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

// Validate checks the spelling of ids, aliases and toolchains, and that no id or
// alias is claimed twice.
func (t *Table) Validate() error {
	if len(t.Languages) == 0 {
		return errors.New("languages: is empty")
	}
	if len(t.Languages) > MaxLanguages {
		return more("languages", MaxLanguages)
	}
	taken := map[string]string{}
	for i := range t.Languages {
		l := &t.Languages[i]
		if err := l.validate(); err != nil {
			return canon.At(index("languages", i), err)
		}
		for _, word := range append([]string{l.ID}, l.Aliases...) {
			if owner, ok := taken[word]; ok {
				return canon.At(index("languages", i), quoted(word, "is claimed by "+strconv.Quote(owner)+" and "+strconv.Quote(l.ID)))
			}
			taken[word] = l.ID
		}
	}
	return nil
}

func (l *Language) validate() error {
	switch {
	case !ValidID(l.ID):
		return canon.At("id", quoted(l.ID, "is not a lower-case letter followed by at most 31 of a-z, 0-9, _ and -"))
	case l.Name == "" || utf8.RuneCountInString(l.Name) > 64 || strings.ContainsFunc(l.Name, unicode.IsControl):
		return errors.New("name: want 1 to 64 printable characters")
	case len(l.Aliases) > MaxAliases:
		return more("aliases", MaxAliases)
	case len(l.Toolchains) == 0:
		return errors.New("toolchains: is empty")
	case len(l.Toolchains) > MaxToolchains:
		return more("toolchains", MaxToolchains)
	}
	for i, alias := range l.Aliases {
		if !word(alias, 32, lower+digits, lower+digits+"+#._-") {
			return canon.At(index("aliases", i), quoted(alias, "is not lower case without spaces, or longer than 32"))
		}
	}
	for i, toolchain := range l.Toolchains {
		if !ValidToolchain(toolchain) {
			return canon.At(index("toolchains", i), quoted(toolchain, "is not a lower-case letter followed by at most 31 of a-z, 0-9, +, ., _ and -"))
		}
		if slices.Contains(l.Toolchains[:i], toolchain) {
			return canon.At(index("toolchains", i), quoted(toolchain, "is listed twice"))
		}
	}
	return nil
}

// Validate checks everything that can be checked of a plan without the request it
// answers: see also [Plan.CheckArgs].
func (p *Plan) Validate() error {
	switch {
	case !validFile(p.File):
		return canon.At("file", quoted(p.File, "is not one path segment of letters, digits, ., _, + and -"))
	case len(p.Steps) == 0:
		return errors.New("steps: is empty")
	case len(p.Steps) > MaxSteps:
		return more("steps", MaxSteps)
	case len(p.Env) > MaxEnv:
		return more("env", MaxEnv)
	}
	for i := range p.Steps {
		if err := p.Steps[i].validate(i == len(p.Steps)-1); err != nil {
			return canon.At(index("steps", i), err)
		}
	}
	for name, value := range p.Env {
		if !word(name, 64, upper+lower+"_", upper+lower+digits+"_") {
			return canon.At("env", quoted(name, "is not a variable's name"))
		}
		if err := text(value); err != nil {
			return canon.At("env."+name, err)
		}
	}
	return nil
}

func (s *Step) validate(last bool) error {
	switch {
	case !ValidID(s.Name):
		return canon.At("name", quoted(s.Name, "is not a lower-case word"))
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("argv: names no command")
	case len(s.Argv) > MaxArgv:
		return more("argv", MaxArgv)
	case len(s.Args) > MaxArgs:
		return more("args", MaxArgs)
	case len(s.Args) > 0 && !last:
		return errors.New("args: only the last step, the program itself, may have the caller's arguments")
	}
	for i, a := range s.Argv {
		if err := text(a); err != nil {
			return canon.At(index("argv", i), err)
		}
	}
	for i, a := range s.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return canon.At(index("args", i), errNUL)
		}
	}
	return nil
}

// CheckArgs checks that the program gets exactly args, the arguments of the
// request the plan answers: a table may place them, never change them.
func (p *Plan) CheckArgs(args []string) error {
	if len(p.Steps) == 0 || !slices.Equal(p.Steps[len(p.Steps)-1].Args, args) {
		return errors.New("plan: args: are not the caller's arguments")
	}
	return nil
}

// ValidID reports whether id may be a language's id.
func ValidID(id string) bool { return word(id, 32, lower, lower+digits+"_-") }

// ValidToolchain reports whether name may be a toolchain's name.
func ValidToolchain(name string) bool { return word(name, 32, lower, lower+digits+"+._-") }

// validFile allows neither a separator nor a leading dot or dash, and no brace, so
// that a file's name is never taken for a directory, an option or Dir.
func validFile(name string) bool {
	return word(name, 128, upper+lower+digits+"_", upper+lower+digits+"._+-")
}

// word reports whether s starts with one of first and goes on with any of rest.
func word(s string, limit int, first, rest string) bool {
	return s != "" && len(s) <= limit && strings.IndexByte(first, s[0]) >= 0 && strings.Trim(s[1:], rest) == ""
}

func text(s string) error {
	switch {
	case len(s) > maxText:
		return errors.New("is longer than " + strconv.Itoa(maxText) + " bytes")
	case strings.IndexByte(s, 0) >= 0:
		return errNUL
	}
	return nil
}

var errNUL = errors.New("holds a NUL byte")

func more(what string, than int) error {
	return canon.At(what, errors.New("more than "+strconv.Itoa(than)))
}

func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// quoted says something about a module's text, and keeps that short.
func quoted(text, problem string) error {
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return errors.New(strconv.Quote(text) + " " + problem)
}
