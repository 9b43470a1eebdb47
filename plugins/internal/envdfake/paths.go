package envdfake

import (
	"os"
	"path"
	"strings"
	"syscall"
)

// home is the home directory of an account.
func home(user string) string {
	if user == "root" {
		return "/root"
	}
	return "/home/" + user
}

// absolute makes a path of the machine of what a client sent.
func absolute(p, user string) string {
	switch {
	case p == "" || p == "~":
		return home(user)
	case strings.HasPrefix(p, "~/"):
		return path.Join(home(user), p[2:])
	case !strings.HasPrefix(p, "/"):
		return path.Join(home(user), p)
	}
	return path.Clean(p)
}

// real is where a path leads on this machine, following links as programs see them,
// the last one only when follow is set. Missing components end the following.
func (m *Machine) real(p string, follow bool) (string, error) {
	logical, err := m.resolve(p, follow)
	if err != nil {
		return "", err
	}
	return m.Path(logical), nil
}

// resolve is real, as a path of the machine.
func (m *Machine) resolve(p string, follow bool) (string, error) {
	rest := strings.Split(strings.Trim(path.Clean(p), "/"), "/")
	done := "/"
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		if len(rest) == 0 && !follow {
			return next, nil
		}
		target, err := os.Readlink(m.Path(next))
		if err != nil {
			done = next
			continue
		}
		if links++; links > 40 {
			return "", &os.PathError{Op: "resolve", Path: p, Err: syscall.ELOOP}
		}
		if !path.IsAbs(target) {
			target = path.Join(done, target)
		}
		rest = append(strings.Split(strings.Trim(path.Clean(target), "/"), "/"), rest...)
		done = "/"
	}
	return done, nil
}

// writable reports whether a path is one of the machine's own; others are this
// machine's, and nothing may be written there.
func (m *Machine) writable(p string) bool {
	logical, err := m.resolve(p, false)
	if err != nil {
		return true // it fails by itself
	}
	if m.Path(logical) == logical {
		m.violation("write to %s, which is outside of every sandbox", p)
		return false
	}
	return true
}
