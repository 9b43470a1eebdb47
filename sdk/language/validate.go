package language

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
		return fmt.Errorf("languages: more than %d", MaxLanguages)
	}
	taken := map[string]string{}
	for i := range t.Languages {
		l := &t.Languages[i]
		if err := l.validate(); err != nil {
			return fmt.Errorf("languages[%d].%w", i, err)
		}
		for _, word := range append([]string{l.ID}, l.Aliases...) {
			if owner, ok := taken[word]; ok {
				return fmt.Errorf("languages[%d]: %q is claimed by %q and %q", i, word, owner, l.ID)
			}
			taken[word] = l.ID
		}
	}
	return nil
}

func (l *Language) validate() error {
	switch {
	case !ValidID(l.ID):
		return fmt.Errorf("id: %q is not a lower-case letter followed by at most 31 of a-z, 0-9, _ and -", clip(l.ID))
	case l.Name == "" || utf8.RuneCountInString(l.Name) > 64 || strings.ContainsFunc(l.Name, unicode.IsControl):
		return errors.New("name: want 1 to 64 printable characters")
	case len(l.Aliases) > MaxAliases:
		return fmt.Errorf("aliases: more than %d", MaxAliases)
	case len(l.Toolchains) == 0:
		return errors.New("toolchains: is empty")
	case len(l.Toolchains) > MaxToolchains:
		return fmt.Errorf("toolchains: more than %d", MaxToolchains)
	}
	for i, alias := range l.Aliases {
		if !word(alias, 32, lower+digits, lower+digits+"+#._-") {
			return fmt.Errorf("aliases[%d]: %q is not lower case without spaces, or longer than 32", i, clip(alias))
		}
	}
	for i, toolchain := range l.Toolchains {
		if !ValidToolchain(toolchain) {
			return fmt.Errorf("toolchains[%d]: %q is not a lower-case letter followed by at most 31 of a-z, 0-9, +, ., _ and -", i, clip(toolchain))
		}
		if slices.Contains(l.Toolchains[:i], toolchain) {
			return fmt.Errorf("toolchains[%d]: %q is listed twice", i, toolchain)
		}
	}
	return nil
}

// Validate checks everything that can be checked of a plan without the request it
// answers: see also [Plan.CheckArgs].
func (p *Plan) Validate() error {
	switch {
	case !validFile(p.File):
		return fmt.Errorf("file: %q is not one path segment of letters, digits, ., _, + and -", clip(p.File))
	case len(p.Steps) == 0:
		return errors.New("steps: is empty")
	case len(p.Steps) > MaxSteps:
		return fmt.Errorf("steps: more than %d", MaxSteps)
	case len(p.Env) > MaxEnv:
		return fmt.Errorf("env: more than %d variables", MaxEnv)
	}
	for i := range p.Steps {
		if err := p.Steps[i].validate(i == len(p.Steps)-1); err != nil {
			return fmt.Errorf("steps[%d].%w", i, err)
		}
	}
	for name, value := range p.Env {
		if !word(name, 64, upper+lower+"_", upper+lower+digits+"_") {
			return fmt.Errorf("env: %q is not a variable's name", clip(name))
		}
		if err := text(value); err != nil {
			return fmt.Errorf("env.%s: %w", name, err)
		}
	}
	return nil
}

func (s *Step) validate(last bool) error {
	switch {
	case !ValidID(s.Name):
		return fmt.Errorf("name: %q is not a lower-case word", clip(s.Name))
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("argv: names no command")
	case len(s.Argv) > MaxArgv:
		return fmt.Errorf("argv: more than %d elements", MaxArgv)
	case len(s.Args) > MaxArgs:
		return fmt.Errorf("args: more than %d elements", MaxArgs)
	case len(s.Args) > 0 && !last:
		return errors.New("args: only the last step, the program itself, may have the caller's arguments")
	}
	for i, a := range s.Argv {
		if err := text(a); err != nil {
			return fmt.Errorf("argv[%d]: %w", i, err)
		}
	}
	for i, a := range s.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("args[%d]: holds a NUL byte", i)
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
		return fmt.Errorf("is longer than %d bytes", maxText)
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("holds a NUL byte")
	}
	return nil
}

// clip keeps a module's text in an error message short.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
