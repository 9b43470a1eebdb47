package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/coreutils"
)

// likeBuiltins are built into the shell and yet commands, for those that run
// commands: xargs, find, env.
var likeBuiltins = []string{"test", "[", "pwd", "kill"}

func isLikeBuiltin(name string) bool { return slices.Contains(likeBuiltins, name) }

// ownBuiltin is the name under which call sends what the interpreter cannot do
// to exec. No script can write it.
const ownBuiltin = "\x00"

// call sees every simple command before it runs and may replace it. It fills gaps
// of the interpreter: options that it refuses and builtins that would ask the
// host.
func (h *handlers) call(ctx context.Context, args []string) ([]string, error) {
	if len(args) > 1 && args[0] == "builtin" && args[1] == "builtin" {
		return args, nil // from here
	}
	hc := interp.HandlerCtx(ctx)
	via := 0 // words of "builtin" and "command" before the name
	for via < len(args)-1 && (args[via] == "builtin" || args[via] == "command") && !strings.HasPrefix(args[via+1], "-") {
		via++
	}
	name, rest := args[via], args[via+1:]
	switch name {
	case "echo":
		return slices.Concat([]string{ownBuiltin, "echo"}, rest), nil
	case "printf":
		if len(rest) >= 3 && rest[0] == "-v" {
			return printfVar(hc, rest), nil
		}
		return slices.Concat([]string{ownBuiltin, "printf"}, rest), nil
	case "return":
		if len(rest) == 0 {
			return []string{"return", strconv.Itoa(hc.LastExitStatus)}, nil
		}
	case "eval":
		return slices.Concat(args[:via+1], []string{rewrite(strings.Join(rest, " "))}), nil
	case "source", ".":
		if len(rest) > 0 {
			h.source(absolute(hc.Dir, rest[0]))
		}
	case "read":
		return readCall(ctx, hc, args, rest)
	case "mapfile", "readarray":
		return mapfileCall(hc, rest)
	case "command":
		if len(rest) >= 2 && (rest[0] == "-v" || rest[0] == "-V") {
			return h.find(rest[1:], rest[0] == "-V", "-v"), nil
		}
		if len(rest) >= 2 && rest[0] == "-p" {
			return slices.Concat([]string{"command"}, rest[1:]), nil
		}
	case "type":
		return h.typeCall(args, rest), nil
	case "trap":
		return trapCall(rest), nil
	case "set":
		return slices.Concat(args[:via+1], setOptions(rest)), nil
	case "shopt":
		if len(rest) > 1 && rest[0] == "-q" {
			return []string{"eval", "builtin builtin shopt " + quote(rest[1:]...) + " | command grep -q '\ton'"}, nil
		}
	case "pwd":
		if slices.Contains(rest, "-P") {
			return []string{ownBuiltin, "realpath", "."}, nil
		}
	case "wait":
		if len(rest) > 0 && rest[0] == "-n" {
			return []string{"wait"}, nil
		}
	case "ulimit", "umask", "kill", "jobs", "disown", "enable", "history", "bind", "complete", "compgen", "compopt", "caller", "fc", "bg", "fg", "suspend", "logout", "newgrp":
		return slices.Concat([]string{ownBuiltin, name}, rest), nil
	}
	return args, nil
}

// own runs a builtin that the interpreter does not have.
func (h *handlers) own(ctx context.Context, hc interp.HandlerContext, args []string) error {
	code := 0
	switch args[0] {
	case "echo", "printf":
		// Without a copy of the environment: scripts do little else.
		cmd, _ := coreutils.Lookup(args[0])
		c := &coreutils.Call{Argv: args, Stdout: hc.Stdout, Stderr: hc.Stderr}
		if args[0] == "printf" && strings.Contains(args[min(1, len(args)-1)], ")T") {
			c.Env = map[string]string{"TZ": hc.Env.Get("TZ").String()}
		}
		if code = cmd(ctx, c); code == 128+int(syscall.SIGPIPE) {
			// A builtin has no process that the signal could end but the
			// shell's own.
			return hc.Builtin(ctx, []string{"exit", strconv.Itoa(code)})
		}
	case "realpath":
		c := h.shell.newCall(hc, args)
		cmd, _ := coreutils.Lookup(args[0])
		code = cmd(ctx, c)
	case "umask":
		if len(args) == 1 {
			fmt.Fprintln(hc.Stdout, "0022")
		}
	case "ulimit":
		if len(args) == 1 || strings.HasPrefix(args[len(args)-1], "-") {
			fmt.Fprintln(hc.Stdout, "unlimited")
		}
	case "kill":
		code = kill(hc, args[1:])
	case "jobs", "disown", "enable", "bind", "complete", "compopt", "history", "caller":
		// Nothing of it is here, and nothing is what they say in a script.
	default:
		fmt.Fprintf(hc.Stderr, "bash: %s: not available here\n", args[0])
		code = 1
	}
	if code != 0 {
		return interp.ExitStatus(code)
	}
	return nil
}

// kill says that jobs cannot be signalled: they are no processes.
func kill(hc interp.HandlerContext, args []string) int {
	if len(args) > 0 && args[0] == "-l" {
		fmt.Fprintln(hc.Stdout, "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM")
		return 0
	}
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			fmt.Fprintf(hc.Stderr, "bash: kill: (%s) - Operation not permitted\n", a)
		}
	}
	return 1
}

// quote writes words so that the shell reads them as they are. What it cannot
// hold, a NUL, is dropped.
func quote(words ...string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		q, err := syntax.Quote(strings.ReplaceAll(w, "\x00", ""), syntax.LangBash)
		if err != nil {
			q = "''"
		}
		b.WriteString(q)
	}
	return b.String()
}

// printfVar is "printf -v name format arguments".
func printfVar(hc interp.HandlerContext, rest []string) []string {
	name := rest[1]
	if base, _, _ := strings.Cut(name, "["); !syntax.ValidName(base) {
		return say("printf: `"+name+"': not a valid identifier", 2)
	}
	text, complaints, err := coreutils.Printf(rest[2], rest[3:], func(k string) string { return hc.Env.Get(k).String() })
	if err != nil {
		return say("printf: "+err.Error(), 1)
	}
	assign := name + "=" + quote(text)
	for _, c := range complaints {
		assign += "; builtin builtin echo " + quote("bash: printf: "+c) + " >&2; (exit 1)"
	}
	return []string{"eval", assign}
}

// find is "command -v" and its kin: functions and builtins are known to the
// interpreter, commands are known here.
func (h *handlers) find(names []string, verbose bool, option string) []string {
	var parts []string
	for _, name := range names {
		at := h.shell.has(name)
		if strings.Contains(name, "/") {
			at = ""
			if base, ok := h.shell.world.commandAt(name); ok {
				at = binDirs[0] + "/" + base
			}
		}
		look := "builtin builtin command " + option + " " + quote(name) + " 2>/dev/null"
		if verbose {
			look = "builtin builtin type " + quote(name) + " 2>/dev/null"
		}
		switch {
		case at != "" && verbose:
			parts = append(parts, look+" || builtin builtin echo "+quote(name+" is "+at))
		case at != "":
			parts = append(parts, look+" || builtin builtin echo "+quote(at))
		case verbose:
			parts = append(parts, look+" || { builtin builtin echo "+quote("bash: "+name+": not found")+" >&2; (exit 1); }")
		default:
			parts = append(parts, look)
		}
	}
	return []string{"eval", strings.Join(parts, "; ")}
}

// typeCall is type, whose options -a and -f the interpreter lacks.
func (h *handlers) typeCall(args, rest []string) []string {
	mode := ""
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") && len(rest[0]) > 1 {
		for _, letter := range rest[0][1:] {
			if letter == 't' || letter == 'p' || letter == 'P' {
				mode = string(letter)
			}
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return args
	}
	switch mode {
	case "":
		return h.find(rest, true, "")
	case "t":
		var parts []string
		for _, name := range rest {
			look := "builtin builtin type -t " + quote(name)
			if h.shell.has(name) != "" {
				look += " || builtin echo file"
			}
			parts = append(parts, look)
		}
		return []string{"eval", strings.Join(parts, "; ")}
	default:
		var parts []string
		for _, name := range rest {
			switch at := h.shell.has(name); {
			case at != "" && !interp.IsBuiltin(name):
				parts = append(parts, "builtin builtin builtin echo "+quote(at))
			case !interp.IsBuiltin(name):
				parts = append(parts, "builtin false")
			}
		}
		return []string{"eval", strings.Join(append(parts, ""), "; ")}
	}
}

// trapCall keeps what can happen: the end of the shell and failures. Signals do
// not reach scripts.
func trapCall(rest []string) []string {
	if len(rest) == 0 || rest[0] == "-p" {
		return []string{"trap"}
	}
	if rest[0] == "-l" {
		return []string{ownBuiltin, "kill", "-l"}
	}
	if rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return []string{"trap"}
	}
	action, signals := rest[:1], rest[1:]
	if len(signals) == 0 {
		action, signals = nil, rest
	}
	out := append([]string{"trap", "--"}, action...)
	n := 0
	for _, sig := range signals {
		switch strings.TrimPrefix(strings.ToUpper(sig), "SIG") {
		case "EXIT", "0":
			out, n = append(out, "EXIT"), n+1
		case "ERR":
			out, n = append(out, "ERR"), n+1
		case "HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "PIPE", "CHLD", "CONT", "STOP", "TSTP", "WINCH", "DEBUG", "RETURN":
		default:
			if v, err := strconv.Atoi(sig); err != nil || v < 0 || v > 64 {
				return []string{"eval", "builtin builtin echo " + quote("bash: trap: "+sig+": invalid signal specification") + " >&2; (exit 1)"}
			}
		}
	}
	if n == 0 {
		return []string{":"}
	}
	return out
}

// setOptions leaves out options without a meaning here: inheritance of traps, job
// control, and defaults.
func setOptions(rest []string) []string {
	const idle = "ETmbhBHPkv"
	var out []string
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		if len(a) < 2 || a == "--" || a[0] != '-' && a[0] != '+' {
			return append(out, rest[i:]...)
		}
		if (a == "-o" || a == "+o") && i+1 < len(rest) {
			switch rest[i+1] {
			case "errtrace", "functrace", "monitor", "notify", "hashall", "braceexpand", "histexpand", "history", "physical", "keyword", "verbose", "emacs", "vi", "posix", "interactive-comments":
			default:
				out = append(out, a, rest[i+1])
			}
			i++
			continue
		}
		letters := strings.Map(func(r rune) rune {
			if strings.ContainsRune(idle, r) {
				return -1
			}
			return r
		}, a[1:])
		if takes := strings.HasSuffix(letters, "o"); takes && len(letters) > 1 {
			out = append(out, a[:1]+letters[:len(letters)-1])
			rest = slices.Insert(slices.Clone(rest), i+1, a[:1]+"o")
			continue
		}
		if letters != "" {
			out = append(out, a[:1]+letters)
		}
	}
	if len(out) == 0 && len(rest) > 0 {
		return []string{"+n"} // says nothing, as the options left out would not
	}
	return out
}
