package coreutils

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// option is one option of a command line.
type option struct {
	name byte
	arg  string
}

// options splits a command line as getopt_long does: options may follow operands
// and be bundled, and "--" ends them. spec has a letter for each option, a colon
// behind those that take an argument, two behind those that may; a "+" before all
// of it stops at the first operand. long has names for letters, as "name=x".
func (c *Call) options(spec string, long ...string) (opts []option, operands []string, err error) {
	inOrder := strings.HasPrefix(spec, "+")
	spec = strings.TrimPrefix(spec, "+")
	args := c.Argv[1:]
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return opts, append(operands, args...), nil
		case strings.HasPrefix(arg, "--"):
			name, value, has := strings.Cut(arg[2:], "=")
			o, colons, err := longOption(name, spec, long)
			if err != nil {
				return nil, nil, err
			}
			switch {
			case has && colons == 0:
				return nil, nil, fmt.Errorf("option '--%s' doesn't allow an argument", name)
			case !has && colons == 1 && len(args) == 0:
				return nil, nil, fmt.Errorf("option '--%s' requires an argument", name)
			case !has && colons == 1:
				value, args = args[0], args[1:]
			}
			opts = append(opts, option{o, value})
		case len(arg) > 1 && arg[0] == '-':
			for i := 1; i < len(arg); i++ {
				at := strings.IndexByte(spec, arg[i])
				if at < 0 || arg[i] == ':' {
					return nil, nil, fmt.Errorf("invalid option -- '%c'", arg[i])
				}
				o := option{name: arg[i]}
				colons := colonsAt(spec, at)
				rest := arg[i+1:]
				switch {
				case colons > 0 && rest != "" || colons == 2:
					o.arg = rest
				case colons == 1 && len(args) == 0:
					return nil, nil, fmt.Errorf("option requires an argument -- '%c'", arg[i])
				case colons == 1:
					o.arg, args = args[0], args[1:]
				}
				opts = append(opts, o)
				if colons > 0 {
					break
				}
			}
		case inOrder:
			return opts, append(append(operands, arg), args...), nil
		default:
			operands = append(operands, arg)
		}
	}
	return opts, operands, nil
}

func colonsAt(spec string, at int) int {
	n := 0
	for at+1+n < len(spec) && spec[at+1+n] == ':' && n < 2 {
		n++
	}
	return n
}

// longOption finds a long option by its name or the beginning of it.
func longOption(name, spec string, long []string) (letter byte, colons int, err error) {
	var found string
	for _, l := range long {
		n, letter, _ := strings.Cut(l, "=")
		if n == name {
			found = letter
			break
		}
		if strings.HasPrefix(n, name) {
			if found != "" && found != letter {
				return 0, 0, fmt.Errorf("option '--%s' is ambiguous", name)
			}
			found = letter
		}
	}
	if found == "" {
		return 0, 0, fmt.Errorf("unrecognized option '--%s'", name)
	}
	if at := strings.IndexByte(spec, found[0]); at >= 0 {
		colons = colonsAt(spec, at)
	}
	return found[0], colons, nil
}

// units are the suffixes of sizes.
var units = map[string]float64{
	"": 1, "b": 512, "c": 1, "w": 2, "k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// size reads a number with a unit, such as "10", "4k" or "1MB".
func size(s string) (int64, error) {
	digits := strings.TrimRight(s, "bcwkKMGTPiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := units[s[len(digits):]]
	if err != nil || !ok || float64(n)*unit > math.MaxInt64/2 {
		return 0, fmt.Errorf("invalid number: %s", quoted(s))
	}
	return n * int64(unit), nil
}

// human writes a size the way "ls -h" does: rounded up, at most three digits.
func human(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	f := float64(n)
	unit := 0
	for ; f >= 1024 && unit < 6; unit++ {
		f /= 1024
	}
	if r := math.Ceil(f*10) / 10; r < 10 {
		return fmt.Sprintf("%.1f%c", r, "KMGTPE"[unit-1])
	}
	r := math.Ceil(f)
	if r >= 1024 && unit < 6 {
		return fmt.Sprintf("1.0%c", "KMGTPE"[unit])
	}
	return fmt.Sprintf("%.0f%c", r, "KMGTPE"[unit-1])
}
