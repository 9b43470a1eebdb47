package clang

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// job is what a compiler's command line asks for.
type job struct {
	cpp    bool // by the name of the command: decides the libraries
	inputs []input
	output string // guest path
	flags  []string
	plain  bool // flags are those that precompiled headers were made with
	libs   []string
}

// input is a source file and its language, "c" or "c++".
type input struct{ path, language string }

// What precompiled headers are made with, and what plans ask for.
const (
	defaultLevel  = "-O2"
	defaultCPPStd = "-std=gnu++2a"
)

// maxInputs bounds the files of one command.
const maxInputs = 64

// usageError is a command line that the driver refuses.
type usageError string

func (e usageError) Error() string { return string(e) }

var (
	// newStandards are names that became official after this version of clang.
	newStandards = strings.NewReplacer("++20", "++2a", "++23", "++2a", "++2b", "++2a", "c2x", "c17", "c23", "c17", "gnu2x", "gnu17", "gnu23", "gnu17")

	standard   = regexp.MustCompile(`^-std=(c|gnu|c\+\+|gnu\+\+|iso9899:)[0-9a-z]+$`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\([A-Za-z0-9_, .]*\))?(=.*)?$`)
	library    = regexp.MustCompile(`^[A-Za-z0-9_+.-]+$`)
	warning    = regexp.MustCompile(`^-W[a-z0-9+=#-]*$`)

	// passed are options that the compiler itself understands.
	passed = []string{
		"-w", "-pedantic", "-pedantic-errors", "-fno-rtti", "-fwrapv", "-ftrapv", "-fno-builtin", "-ffreestanding",
		"-fno-exceptions", "-fno-strict-aliasing", "-ffast-math", "-funsigned-char", "-fno-signed-char",
		"-fno-common", "-fshort-enums", "-ffp-contract=off", "-ffp-contract=on", "-ffp-contract=fast",
	}
	// ignored are options that mean nothing here: debug information has no reader,
	// there are no threads, and nothing is position independent.
	ignored = regexp.MustCompile(`^(-g[a-z0-9-]*|-pthread|-pipe|-static|-s|-fPIC|-fPIE|-fpic|-fpie|-fstrict-aliasing|` +
		`-fno-omit-frame-pointer|-fomit-frame-pointer|-fstack-protector.*|-fno-plt|-march=native|-mtune=.*|-rdynamic|-fdiagnostics-color.*)$`)
)

// languages are those of the endings of sources.
var languages = map[string]string{
	".c": "c", ".i": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".c++": "c++", ".C": "c++", ".cp": "c++",
}

// parse reads a command line of clang or clang++. It knows what programs of one or a
// few files need and refuses the rest by name.
func parse(argv []string, dir string) (*job, error) {
	j := &job{cpp: strings.HasSuffix(path.Base(argv[0]), "++"), output: "a.out", plain: true}
	level, std, language := "-O0", "", ""
	args := argv[1:]
	operand := func(a, option string) (string, bool, error) {
		v, ok := strings.CutPrefix(a, option)
		if !ok || v != "" {
			return v, ok, nil
		}
		if len(args) == 0 {
			return "", true, usageError("argument to '" + option + "' is missing")
		}
		v, args = args[0], args[1:]
		return v, true, nil
	}
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if !strings.HasPrefix(a, "-") {
			if err := j.input(a, language); err != nil {
				return nil, err
			}
			continue
		}
		handled := false
		for _, option := range []string{"-o", "-I", "-D", "-U", "-l", "-L", "-x", "-isystem", "-include"} {
			v, ok, err := operand(a, option)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			handled = true
			switch option {
			case "-o":
				j.output = v
			case "-I", "-isystem":
				j.flags = append(j.flags, option, absolute(dir, v))
			case "-include":
				j.flags = append(j.flags, option, absolute(dir, v))
				j.plain = false
			case "-D", "-U":
				if !identifier.MatchString(v) {
					return nil, usageError("macro name must be an identifier: '" + v + "'")
				}
				j.flags = append(j.flags, option, v)
				j.plain = false
			case "-l":
				if !library.MatchString(v) {
					return nil, usageError("no library '" + v + "'")
				}
				j.libs = append(j.libs, v)
			case "-L":
				// Nothing but the toolchain's own libraries is there.
			case "-x":
				if language = v; v != "c" && v != "c++" && v != "none" {
					return nil, usageError("language not recognized: '" + v + "'")
				}
			}
			break
		}
		switch {
		case handled:
		case slices.Contains([]string{"-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Og", "-Ofast", "-O"}, a):
			level = a
		case strings.HasPrefix(a, "-std="):
			if std = newStandards.Replace(a); !standard.MatchString(std) {
				return nil, usageError("invalid value in '" + a + "'")
			}
		case slices.Contains(passed, a):
			j.flags = append(j.flags, a)
			j.plain = j.plain && !strings.HasPrefix(a, "-f")
		case warning.MatchString(a):
			j.flags = append(j.flags, a)
		case !ignored.MatchString(a):
			return nil, usageError("unsupported option '" + a + "'")
		}
	}
	if len(j.inputs) == 0 {
		return nil, usageError("no input files")
	}
	j.optimize(level)
	j.standard(std)
	j.output = absolute(dir, j.output)
	for i := range j.inputs {
		j.inputs[i].path = absolute(dir, j.inputs[i].path)
	}
	return j, nil
}

// input adds a file.
func (j *job) input(file, language string) error {
	if language == "" || language == "none" {
		language = languages[path.Ext(file)]
	}
	if language == "" {
		return usageError("'" + file + "' is no source file of C or C++")
	}
	if j.cpp {
		language = "c++"
	}
	if len(j.inputs) == maxInputs {
		return usageError(fmt.Sprintf("more than %d input files", maxInputs))
	}
	j.inputs = append(j.inputs, input{file, language})
	return nil
}

func (j *job) optimize(level string) {
	switch level {
	case "-O":
		level = "-O1"
	case "-Og":
		level = "-O1"
	case "-Ofast":
		level = "-O3"
		j.flags = append(j.flags, "-ffast-math")
		j.plain = false
	}
	j.flags = append(j.flags, level)
	j.plain = j.plain && level == defaultLevel
}

// standard gives each language its own: -std of one means nothing for the other.
func (j *job) standard(std string) {
	j.plain = j.plain && std == defaultCPPStd
	if std != "" {
		j.flags = append(j.flags, std)
	} else if j.cpp {
		j.flags = append(j.flags, "-std=gnu++14") // what this version of clang++ takes
	}
}

// absolute resolves a path as the tools see it; they have no working directory.
func absolute(dir, p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(dir, p)
}
