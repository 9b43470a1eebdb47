package envd

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Scripts are for any POSIX shell with find, setsid and sha256sum, as GNU and BusyBox
// have them. What comes from callers reaches them as arguments or quoted, never as
// text of the script, and environment variables that shells and loaders obey reach
// programs only.

// stateDir is where programs and uploads are until they are in their places. It is on
// the file system of DataDir, so that moving is one step, and not in it.
const stateDir = "/mnt/.caisson"

// quote makes one literal word of the shell of s.
func quote(s string) (string, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return "", errors.New("a word of the shell cannot contain NUL")
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}

// killScript signals a process and process groups.
const killScript = `p=$1; shift
[ "$p" = 0 ] || kill -TERM "$p"
for g do kill -KILL "-$g"; done 2>/dev/null; :`

// basics are what every script begins with. $n is the nonce. Descriptors 3 and 4 are
// the program's stdout and stderr; what the shell itself says is nobody's business.
const basics = `n=$1; shift
exec 3>&1 4>&2 2>/dev/null
mark() { printf '\000%s %s\n' "$n" "$*" >&3; }
fail() { mark F "$@"; exit 0; }
`

// functions are what scripts about files use.
const functions = basics + `umask 022
set -f
# parents makes the directories above a path, and refuses links among them.
parents() {
	r=${1#/} a=
	while case $r in */*) :;; *) false;; esac; do
		a=$a/${r%%/*} r=${r#*/}
		[ ! -L "$a" ] || return 1
		[ -d "$a" ] || mkdir "$a" || [ -d "$a" ] || return 1
	done
}
# put moves a file, with its mode, to its place.
put() {
	parents "$2" || return 1
	if [ -L "$2" ]; then rm -f "$2"; elif [ -d "$2" ]; then return 1; fi
	chmod "$3" "$1" && mv -f "$1" "$2"
}
# linkless refuses a path that a link is part of.
linkless() {
	p=$1
	while [ -n "$p" ]; do
		[ ! -L "$p" ] || return 1
		p=${p%/*}
	done
}
g=$(find /dev/null -printf x -exec sha256sum -z {} +)
# scan prints what is at and below $1, at most $2 deep, on stdout: type, size, times,
# mode, inode, path. It prints the digests of regular files smaller than $3 bytes on
# stderr. Both lie between marks, which end with the status of find.
scan() {
	mark B; mark B 3>&4
	if [ -n "$g" ]; then
		LC_ALL=C find "$1" -maxdepth "$2" PRUNE -printf '%y\t%s\t%T@\t%C@\t%m\t%i\t%p\000' -type f -size "-$3c" -exec sh -c 'exec sha256sum -z -- "$@" >&4' sh {} + >&3
		s=$?
	else
		find "$1" -maxdepth "$2" PRUNE -exec sh -c 'for f do printf "%s\t%s\000" "$(stat -c "%f	%s	%Y	%Z	%a	%i" "$f")" "$f"; done' sh {} + >&3
		s=$?
		find "$1" -maxdepth "$2" PRUNE -type f -size "-$3c" -exec sh -c 'for f do h=$(sha256sum <"$f") && printf "%s  %s\000" "${h%% *}" "$f"; done' sh {} + >&4
	fi
	mark b "$s"; mark b "$s" 3>&4
}
`

// maxPrune bounds the part of a script that names what to leave out; beyond it, files
// are looked at in vain, and left out later.
const maxPrune = 32 << 10

// withPrune fills in what find leaves out.
func withPrune(script string, exclude []string) string {
	var b strings.Builder
	for _, pattern := range exclude {
		name, err := quote(globLiteral(pattern))
		if err != nil || strings.Contains(pattern, "/") {
			continue // no name is like that
		}
		if b.Len() > 0 {
			b.WriteString(" -o ")
		}
		b.WriteString("-name " + name)
	}
	prune := ""
	if b.Len() > 0 && b.Len() <= maxPrune {
		// The root itself is what was asked for, whatever its name.
		prune = `-mindepth 1 \( ` + b.String() + ` \) -prune -o`
	}
	return strings.ReplaceAll(script, "PRUNE", prune)
}

// globLiteral makes a pattern of find of one in the form of CollectSpec.Exclude.
func globLiteral(pattern string) string {
	suffix, any := strings.CutPrefix(pattern, "*")
	escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(suffix)
	if any {
		return "*" + escaped
	}
	return escaped
}

// obeyed are variables that a shell or a loader does what they say, drops, or that a
// script uses itself, under names of up to five small letters.
var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	obeyed     = regexp.MustCompile(`^(LD_.*|BASH.*|PS[0-9]|PATH|IFS|ENV|SHELLOPTS|FUNCNEST|GLOBIGNORE|CDPATH|POSIX.*|GLIBC_.*|GCONV_PATH|MALLOC_.*|LC_.*|LANG.*|TMPDIR|OPT(ARG|IND|ERR)|PWD|OLDPWD|PPID|UID|EUID|GROUPS|RANDOM|SECONDS|LINENO|_|[a-z]{1,5})$`)
)

// environment divides variables into those that the script may have too, and
// arguments of env that give the rest to the program alone.
func environment(env map[string]string) (plain map[string]string, prefix []string) {
	plain = make(map[string]string, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if identifier.MatchString(k) && !obeyed.MatchString(k) {
			plain[k] = env[k]
			continue
		}
		if prefix == nil {
			prefix = []string{"/usr/bin/env", "--"}
		}
		prefix = append(prefix, k+"="+env[k])
	}
	return plain, prefix
}

// viaEnv puts the prefix before a command line.
func viaEnv(prefix, argv []string) []string {
	switch {
	case prefix == nil:
		return argv
	case strings.Contains(argv[0], "=") || strings.HasPrefix(argv[0], "-"): // env would take it for something else
		argv = append([]string{"/bin/sh", "-c", `exec "$0" "$@"`}, argv...)
	}
	return append(append([]string{}, prefix...), argv...)
}

// failure makes the error of a script that said why it could not begin.
func (c *Client) failure(op, reason string) error {
	word, rest, _ := strings.Cut(reason, " ")
	kind, text := backend.KindInternal, "the sandbox could not be prepared"
	switch word {
	case "link":
		kind, text = backend.KindConflict, "the path leads through a symbolic link"
	case "exists":
		kind, text = backend.KindConflict, "the path exists"
	case "isdir":
		kind, text = backend.KindConflict, "the path is a directory"
	case "place":
		kind, text = backend.KindConflict, "the path cannot be a file: something else is there, or above it"
	case "absent":
		kind, text = backend.KindNotFound, "there is no such directory"
	case "notdir":
		kind, text = backend.KindConflict, "the path is no directory"
	case "dir":
		kind, text = backend.KindInvalidRequest, "dir: there is no such directory"
	case "disk":
		kind, text = backend.KindCapacity, "the sandbox's disk is full or read-only"
	}
	if rest != "" {
		text += fmt.Sprintf(" (%s)", rest)
	}
	e := c.fail(op, kind, "%s", text)
	if word != "dir" && kind != backend.KindInternal {
		e.Subject = backend.SubjectFile
	}
	return e
}
