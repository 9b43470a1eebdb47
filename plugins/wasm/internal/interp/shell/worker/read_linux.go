package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// reading are the options of read.
type reading struct {
	raw, exact bool
	array      string
	prompt     string
	delim      byte
	count      int // -1: no bound
	timeout    time.Duration
	names      []string
}

// readCall is read with the options that the interpreter does not have. It reads,
// and what is left to do is an assignment, which only the interpreter can do.
func readCall(ctx context.Context, hc interp.HandlerContext, args, rest []string) ([]string, error) {
	o, own, err := readOptions(rest)
	if err != nil {
		return say(err.Error(), 2), nil
	}
	if !own {
		return args, nil
	}
	if o.prompt != "" {
		fmt.Fprint(hc.Stderr, o.prompt)
	}
	line, status := o.read(ctx, hc)
	cfg := &expand.Config{Env: hc.Env}
	var text strings.Builder
	switch {
	case o.array != "":
		fields := expand.ReadFields(cfg, line, -1, o.raw)
		fmt.Fprintf(&text, "%s=(%s)", o.array, quote(fields...))
	case len(o.names) == 0:
		fmt.Fprintf(&text, "REPLY=%s", quote(line))
	case o.exact:
		for i, name := range o.names {
			if i > 0 {
				line = ""
			}
			fmt.Fprintf(&text, "%s=%s ", name, quote(line))
		}
	default:
		fields := expand.ReadFields(cfg, line, len(o.names), o.raw)
		for i, name := range o.names {
			value := ""
			if i < len(fields) {
				value = fields[i]
			}
			fmt.Fprintf(&text, "%s=%s ", name, quote(value))
		}
	}
	fmt.Fprintf(&text, "; (exit %d)", status)
	return []string{"eval", text.String()}, nil
}

// say is a call that prints a message and fails.
func say(message string, code int) []string {
	return []string{"eval", "builtin builtin echo " + quote("bash: "+message) + " >&2; (exit " + strconv.Itoa(code) + ")"}
}

// readOptions reads the command line; own tells that the interpreter would not
// understand it.
func readOptions(args []string) (o reading, own bool, err error) {
	o = reading{delim: '\n', count: -1}
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		for i := 1; i < len(arg); i++ {
			value := arg[i+1:]
			switch arg[i] {
			case 'r':
				o.raw = true
				continue
			case 's', 'e':
				own = own || arg[i] == 'e'
				continue
			case 'a', 'd', 'i', 'n', 'N', 'p', 't', 'u':
			default:
				return o, true, fmt.Errorf("read: -%c: invalid option", arg[i])
			}
			if value == "" {
				if len(args) == 0 {
					return o, true, fmt.Errorf("read: -%c: option requires an argument", arg[i])
				}
				value, args = args[0], args[1:]
			}
			own = true
			switch arg[i] {
			case 'a':
				o.array = value
				if !syntax.ValidName(value) {
					return o, true, fmt.Errorf("read: `%s': not a valid identifier", value)
				}
			case 'd':
				o.delim = 0
				if value != "" {
					o.delim = value[0]
				}
			case 'p':
				o.prompt = value
			case 'n', 'N':
				o.exact = arg[i] == 'N'
				if o.count, err = strconv.Atoi(value); err != nil || o.count < 0 {
					return o, true, fmt.Errorf("read: %s: invalid number", value)
				}
			case 't':
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil || seconds < 0 {
					return o, true, fmt.Errorf("read: %s: invalid timeout specification", value)
				}
				o.timeout = max(time.Duration(seconds*float64(time.Second)), 1)
			case 'u':
				if value != "0" {
					return o, true, fmt.Errorf("read: %s: only descriptor 0 can be read from", value)
				}
			}
			break
		}
	}
	for _, name := range args {
		if base, _, _ := strings.Cut(name, "["); !syntax.ValidName(base) {
			return o, true, fmt.Errorf("read: `%s': not a valid identifier", name)
		}
		own = own || strings.Contains(name, "[")
	}
	o.names = args
	return o, own, nil
}

// read reads up to the delimiter and returns what came and the status: 0, 1 at
// the end of the input, 142 when time is up.
func (o *reading) read(ctx context.Context, hc interp.HandlerContext) (string, int) {
	f, ok := hc.Stdin.(*os.File)
	if !ok || f == nil {
		return "", 1
	}
	if o.timeout > 0 {
		_ = f.SetReadDeadline(time.Now().Add(o.timeout))
		defer func() { _ = f.SetReadDeadline(time.Time{}) }()
	}
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })()
	var line []byte
	var b [1]byte
	escaped := false
	for o.count < 0 || len(line) < o.count {
		// One byte at a time: the rest is for whoever reads next.
		if _, err := f.Read(b[:]); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return string(line), 142
			}
			return string(line), 1
		}
		switch {
		case b[0] == o.delim && !o.exact && !escaped:
			return string(line), 0
		case !o.raw && escaped && b[0] == '\n':
			line = line[:len(line)-1]
			escaped = false
		case b[0] == 0 && o.delim != 0:
		default:
			escaped = !o.raw && b[0] == '\\' && !escaped
			line = append(line, b[0])
		}
	}
	return string(line), 0
}

// mapfileCall is mapfile with all of its options but callbacks.
func mapfileCall(hc interp.HandlerContext, args []string) ([]string, error) {
	trim, delim, count, skip, origin := false, byte('\n'), 0, 0, 0
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		for i := 1; i < len(arg); i++ {
			if arg[i] == 't' {
				trim = true
				continue
			}
			value := arg[i+1:]
			if !strings.ContainsRune("dnsOu", rune(arg[i])) {
				return say(fmt.Sprintf("mapfile: -%c: invalid option", arg[i]), 2), nil
			}
			if value == "" && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			n, err := strconv.Atoi(value)
			if arg[i] != 'd' && (err != nil || n < 0 || arg[i] == 'u' && n != 0) {
				return say(fmt.Sprintf("mapfile: -%c: %s: invalid number", arg[i], value), 2), nil
			}
			switch arg[i] {
			case 'd':
				delim = 0
				if value != "" {
					delim = value[0]
				}
			case 'n':
				count = n
			case 's':
				skip = n
			case 'O':
				origin = n
			}
			break
		}
	}
	name := "MAPFILE"
	if len(args) > 0 {
		name = args[0]
	}
	if !syntax.ValidName(name) {
		return say(fmt.Sprintf("mapfile: `%s': not a valid identifier", name), 1), nil
	}
	items, err := mapfileRead(hc.Stdin, delim, trim, count, skip)
	if err != nil {
		return say("mapfile: "+err.Error(), 1), nil
	}
	if origin == 0 {
		return []string{"eval", name + "=(" + quote(items...) + ")"}, nil
	}
	var b strings.Builder
	for i, item := range items {
		fmt.Fprintf(&b, "%s[%d]=%s; ", name, origin+i, quote(item))
	}
	return []string{"eval", b.String() + ":"}, nil
}

// mapfileRead reads the lines that are asked for, and not further than it must
// where there is a count.
func mapfileRead(r io.Reader, delim byte, trim bool, count, skip int) ([]string, error) {
	if r == nil {
		return nil, nil
	}
	var data []byte
	if count == 0 {
		var err error
		if data, err = io.ReadAll(r); err != nil {
			return nil, err
		}
	} else {
		var b [1]byte
		for n := 0; n < count+skip; {
			if _, err := io.ReadFull(r, b[:]); err != nil {
				break
			}
			data = append(data, b[0])
			if b[0] == delim {
				n++
			}
		}
	}
	var items []string
	for len(data) > 0 {
		i := slices.Index(data, delim)
		end, next := i+1, i+1
		if i < 0 {
			end, next = len(data), len(data)
		} else if trim || delim == 0 {
			end = i
		}
		if skip > 0 {
			skip--
		} else {
			items = append(items, string(data[:end]))
		}
		data = data[next:]
	}
	return items, nil
}
