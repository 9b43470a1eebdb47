package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// parseMode reads an octal or symbolic mode; old is the mode to change.
func parseMode(s string, old fs.FileMode, isDir bool) (fs.FileMode, error) {
	if n, err := strconv.ParseUint(s, 8, 12); err == nil {
		return fs.FileMode(n).Perm(), nil
	}
	mode := old.Perm()
	for clause := range strings.SplitSeq(s, ",") {
		i := strings.IndexAny(clause, "+-=")
		if i < 0 {
			return 0, fmt.Errorf("invalid mode: %s", quoted(s))
		}
		var who fs.FileMode
		for _, r := range clause[:i] {
			switch r {
			case 'u':
				who |= 0o700
			case 'g':
				who |= 0o070
			case 'o':
				who |= 0o007
			case 'a':
				who |= 0o777
			default:
				return 0, fmt.Errorf("invalid mode: %s", quoted(s))
			}
		}
		if i == 0 {
			who = 0o777
		}
		for rest := clause[i:]; rest != ""; {
			op := rest[0]
			rest = rest[1:]
			n := strings.IndexAny(rest, "+-=")
			if n < 0 {
				n = len(rest)
			}
			var bits fs.FileMode
			for _, r := range rest[:n] {
				switch r {
				case 'r':
					bits |= 0o444
				case 'w':
					bits |= 0o222
				case 'x':
					bits |= 0o111
				case 'X':
					if isDir || mode&0o111 != 0 {
						bits |= 0o111
					}
				case 's', 't':
				case 'u':
					bits |= mode >> 6 & 7 * 0o111
				case 'g':
					bits |= mode >> 3 & 7 * 0o111
				case 'o':
					bits |= mode & 7 * 0o111
				default:
					return 0, fmt.Errorf("invalid mode: %s", quoted(s))
				}
			}
			if i == 0 && op != '-' {
				bits &^= 0o022 // as the usual umask says
			}
			bits &= who
			switch op {
			case '+':
				mode |= bits
			case '-':
				mode &^= bits
			case '=':
				mode = mode&^who | bits
			}
			rest = rest[n:]
		}
	}
	return mode, nil
}

func chmod(ctx context.Context, c *Call) int {
	// A mode such as "-x" is no option.
	args := c.Argv[1:]
	recursive, verbose, quiet := false, false, false
	reference := ""
options:
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch a := args[0]; {
		case a == "-R", a == "--recursive":
			recursive = true
		case a == "-v", a == "-c", a == "--verbose", a == "--changes":
			verbose = true
		case a == "-f", a == "--silent", a == "--quiet":
			quiet = true
		case strings.HasPrefix(a, "--reference="):
			reference = a[len("--reference="):]
		case a == "--":
			args = args[1:]
			break options
		default:
			break options
		}
		args = args[1:]
	}
	spec := ""
	if reference != "" {
		info, err := c.FS.Stat(c.path(reference))
		if err != nil {
			c.errorf("failed to get attributes of %s: %s", quoted(reference), reason(err))
			return 1
		}
		spec = strconv.FormatUint(uint64(info.Mode().Perm()), 8)
	} else if len(args) > 0 {
		spec, args = args[0], args[1:]
	}
	if len(args) == 0 {
		return c.usage(errors.New("missing operand"), 1)
	}
	if _, err := parseMode(spec, 0, false); err != nil {
		return c.usage(err, 1)
	}
	code := 0
	var change func(name string)
	change = func(name string) {
		info, err := c.FS.Stat(c.path(name))
		if err == nil {
			mode, _ := parseMode(spec, info.Mode(), info.IsDir())
			if err = c.FS.Chmod(c.path(name), mode); err == nil && verbose {
				fmt.Fprintf(c.Stdout, "mode of %s changed from %04o (%s) to %04o (%s)\n", quoted(name),
					info.Mode().Perm(), modeString(info.Mode())[1:], mode, modeString(mode)[1:])
			}
		}
		if err != nil {
			if !quiet {
				c.errorf("cannot access %s: %s", quoted(name), reason(err))
			}
			code = 1
			return
		}
		if recursive && info.IsDir() && ctx.Err() == nil {
			list, _ := c.FS.ReadDir(c.path(name))
			for _, entry := range list {
				if entry.Mode()&fs.ModeSymlink == 0 {
					change(name + "/" + entry.Name())
				}
			}
		}
	}
	for _, name := range args {
		change(name)
	}
	return code
}
