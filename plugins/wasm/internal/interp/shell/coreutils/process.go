package coreutils

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// with returns a copy of c for another command.
func (c *Call) with(argv []string) *Call {
	d := *c
	d.Argv, d.Env = argv, maps.Clone(c.Env)
	return &d
}

func env(ctx context.Context, c *Call) int {
	opts, rest, err := c.options("+iu:0C:S:", "ignore-environment=i", "unset=u", "null=0", "chdir=C", "split-string=S")
	if err != nil {
		return c.usage(err, 125)
	}
	d := c.with(nil)
	end := "\n"
	for _, o := range opts {
		switch o.name {
		case 'i':
			d.Env = map[string]string{}
		case 'u':
			delete(d.Env, o.arg)
		case '0':
			end = "\x00"
		case 'C':
			d.Dir = c.path(o.arg)
		case 'S':
			rest = append(strings.Fields(o.arg), rest...)
		}
	}
	if len(rest) > 0 && rest[0] == "-" {
		d.Env, rest = map[string]string{}, rest[1:]
	}
	for len(rest) > 0 {
		k, v, ok := strings.Cut(rest[0], "=")
		if !ok || k == "" {
			break
		}
		d.Env[k], rest = v, rest[1:]
	}
	if len(rest) > 0 {
		d.Argv = rest
		return c.Run(ctx, d)
	}
	for _, k := range slices.Sorted(maps.Keys(d.Env)) {
		fmt.Fprint(c.Stdout, k, "=", d.Env[k], end)
	}
	return 0
}

func printenv(_ context.Context, c *Call) int {
	if len(c.Argv) == 1 {
		for _, k := range slices.Sorted(maps.Keys(c.Env)) {
			fmt.Fprintf(c.Stdout, "%s=%s\n", k, c.Env[k])
		}
		return 0
	}
	code := 0
	for _, k := range c.Argv[1:] {
		if v, ok := c.Env[k]; ok {
			fmt.Fprintln(c.Stdout, v)
		} else {
			code = 1
		}
	}
	return code
}

// prefix runs the command that follows, for commands whose own effect has no
// meaning here.
func prefix(ctx context.Context, c *Call) int {
	spec := map[string]string{"nice": "+n:", "nohup": "+", "stdbuf": "+i:o:e:", "setsid": "+cfw", "ionice": "+c:n:t"}[c.name()]
	_, rest, err := c.options(spec, "adjustment=n", "input=i", "output=o", "error=e", "wait=w")
	if err != nil {
		return c.usage(err, 125)
	}
	if len(rest) == 0 {
		if c.name() == "nice" {
			fmt.Fprintln(c.Stdout, 0)
			return 0
		}
		return c.usage(errors.New("missing operand"), 125)
	}
	return c.Run(ctx, c.with(rest))
}

// duration reads seconds with an optional unit.
func duration(s string) (time.Duration, error) {
	if s == "infinity" || s == "inf" {
		return 1<<63 - 1, nil
	}
	unit := time.Second
	if s != "" {
		switch s[len(s)-1] {
		case 's':
			s = s[:len(s)-1]
		case 'm':
			s, unit = s[:len(s)-1], time.Minute
		case 'h':
			s, unit = s[:len(s)-1], time.Hour
		case 'd':
			s, unit = s[:len(s)-1], 24*time.Hour
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 {
		return 0, fmt.Errorf("invalid time interval %s", quoted(s))
	}
	if f*float64(unit) > 1<<62 {
		return 1<<63 - 1, nil
	}
	return time.Duration(f * float64(unit)), nil
}

func sleep(ctx context.Context, c *Call) int {
	if len(c.Argv) == 1 {
		return c.usage(errors.New("missing operand"), 1)
	}
	total := time.Duration(0)
	for _, s := range c.Argv[1:] {
		d, err := duration(s)
		if err != nil {
			return c.usage(err, 1)
		}
		if total += d; total < 0 {
			total = 1<<63 - 1
		}
	}
	t := time.NewTimer(total)
	defer t.Stop()
	select {
	case <-t.C:
		return 0
	case <-ctx.Done():
		return 143
	}
}

// timeout ends a command that takes too long. What it started in the shell is
// told to stop, and stops soon.
func timeout(ctx context.Context, c *Call) int {
	opts, rest, err := c.options("+s:k:v", "signal=s", "kill-after=k", "preserve-status=p", "foreground=v", "verbose=v")
	if err != nil {
		return c.usage(err, 125)
	}
	if len(rest) < 2 {
		return c.usage(errors.New("missing operand"), 125)
	}
	limit, err := duration(rest[0])
	if err != nil {
		return c.usage(err, 125)
	}
	killed := 124
	for _, o := range opts {
		if o.name == 's' && (o.arg == "KILL" || o.arg == "9" || o.arg == "SIGKILL") {
			killed = 137
		}
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	if limit == 0 {
		return c.Run(ctx, c.with(rest[1:]))
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	done := make(chan int, 1)
	go func() { done <- c.Run(inner, c.with(rest[1:])) }()
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
		return 143
	case <-t.C:
	}
	cancel()
	// A command that reads a pipe does not see the context; its end is not
	// waited for.
	wait := time.NewTimer(100 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	}
	return killed
}

func which(_ context.Context, c *Call) int {
	_, operands, err := c.options("as")
	if err != nil {
		return c.usage(err, 2)
	}
	code := 0
	for _, name := range operands {
		if at := c.Has(name); at != "" {
			fmt.Fprintln(c.Stdout, at)
		} else {
			code = 1
		}
	}
	return code
}

func whoami(_ context.Context, c *Call) int {
	fmt.Fprintln(c.Stdout, "sandbox")
	return 0
}

func hostname(_ context.Context, c *Call) int {
	fmt.Fprintln(c.Stdout, "sandbox")
	return 0
}

func nproc(_ context.Context, c *Call) int {
	fmt.Fprintln(c.Stdout, 1)
	return 0
}

func tty(_ context.Context, c *Call) int {
	fmt.Fprintln(c.Stdout, "not a tty")
	return 1
}

func id(_ context.Context, c *Call) int {
	opts, _, err := c.options("ugGnr", "user=u", "group=g", "groups=G", "name=n", "real=r")
	if err != nil {
		return c.usage(err, 1)
	}
	name, one := false, false
	for _, o := range opts {
		name, one = name || o.name == 'n', one || o.name != 'n' && o.name != 'r'
	}
	switch {
	case one && name:
		fmt.Fprintln(c.Stdout, "sandbox")
	case one:
		fmt.Fprintln(c.Stdout, 1000)
	default:
		fmt.Fprintln(c.Stdout, "uid=1000(sandbox) gid=1000(sandbox) groups=1000(sandbox)")
	}
	return 0
}

func uname(_ context.Context, c *Call) int {
	opts, _, err := c.options("asnrvmpio", "all=a", "kernel-name=s", "nodename=n", "kernel-release=r", "kernel-version=v", "machine=m", "operating-system=o")
	if err != nil {
		return c.usage(err, 1)
	}
	want := "s"
	if len(opts) > 0 {
		want = ""
	}
	for _, o := range opts {
		if want += string(rune(o.name)); o.name == 'a' {
			want = "snrvmo"
		}
	}
	var out []string
	for _, f := range []struct {
		name byte
		text string
	}{{'s', "Linux"}, {'n', "sandbox"}, {'r', "6.0.0"}, {'v', "#1"}, {'m', "x86_64"}, {'o', "GNU/Linux"}} {
		if strings.IndexByte(want, f.name) >= 0 {
			out = append(out, f.text)
		}
	}
	fmt.Fprintln(c.Stdout, strings.Join(out, " "))
	return 0
}
