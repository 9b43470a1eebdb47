package coreutils

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/pattern"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/posixre"
)

var knownTests = map[string]bool{
	"-name": true, "-iname": true, "-path": true, "-wholename": true, "-ipath": true, "-regex": true, "-iregex": true, "-type": true,
	"-size": true, "-mtime": true, "-mmin": true, "-atime": true, "-amin": true, "-ctime": true, "-cmin": true, "-newer": true,
	"-maxdepth": true, "-mindepth": true, "-perm": true, "-user": true, "-group": true, "-printf": true, "-links": true, "-inum": true,
	"-lname": true, "-regextype": true, "-newermt": true,
}

// test makes the tests that take an argument.
func (f *finder) test(name, a string) (predicate, error) {
	bad := fmt.Errorf("invalid argument `%s' to `%s'", a, name)
	switch name {
	case "-name", "-iname", "-path", "-wholename", "-ipath", "-lname":
		fold := name[1] == 'i'
		re, err := globRegexp(a, fold)
		if err != nil {
			return nil, bad
		}
		return func(_ context.Context, v *visit) bool {
			switch {
			case strings.HasSuffix(name, "lname"):
				target, err := f.c.FS.Readlink(f.c.path(v.name))
				return err == nil && re.MatchString(target)
			case strings.HasSuffix(name, "path"), name == "-wholename":
				return re.MatchString(v.name)
			}
			return re.MatchString(path.Base(v.name))
		}, nil
	case "-regex", "-iregex":
		text, err := posixre.Translate(a, true)
		if err != nil {
			return nil, bad
		}
		flags := "(?s)"
		if name == "-iregex" {
			flags = "(?si)"
		}
		re, err := regexp.Compile(flags + `\A(?:` + text + `)\z`)
		if err != nil {
			return nil, bad
		}
		return func(_ context.Context, v *visit) bool { return re.MatchString(v.name) }, nil
	case "-regextype":
		return func(context.Context, *visit) bool { return true }, nil
	case "-type", "-xtype":
		return func(_ context.Context, v *visit) bool {
			return strings.IndexByte(a, map[byte]byte{'-': 'f', 'd': 'd', 'l': 'l', 'c': 'c', 'p': 'p'}[modeString(v.info.Mode())[0]]) >= 0
		}, nil
	case "-maxdepth", "-mindepth":
		n, err := strconv.Atoi(a)
		if err != nil || n < 0 {
			return nil, bad
		}
		if name == "-maxdepth" {
			f.maxDepth = n
		} else {
			f.minDepth = n
		}
		return func(context.Context, *visit) bool { return true }, nil
	case "-size":
		return f.sizeTest(a, bad)
	case "-links", "-inum":
		cmp, n, err := signed(a)
		if err != nil {
			return nil, bad
		}
		return func(_ context.Context, v *visit) bool {
			if name == "-links" {
				return cmp(int64(linksOf(v.info)), n)
			}
			return cmp(int64(inodeOf(v.info)), n)
		}, nil
	case "-mtime", "-ctime", "-atime", "-mmin", "-cmin", "-amin":
		cmp, n, err := signed(a)
		if err != nil {
			return nil, bad
		}
		unit := 24 * time.Hour
		if strings.HasSuffix(name, "min") {
			unit = time.Minute
		}
		return func(_ context.Context, v *visit) bool {
			t := v.info.ModTime()
			switch d := detailsOf(v.info); name[1] {
			case 'c':
				t = d.Changed
			case 'a':
				t = d.Accessed
			}
			age := f.now.Sub(t)
			units := int64(age / unit)
			if unit == time.Minute && age%unit != 0 {
				units++ // minutes are rounded up
			}
			return cmp(units, n)
		}, nil
	case "-newer", "-newermt":
		var than time.Time
		if name == "-newermt" {
			t, err := parseDate(a, f.now, time.Local)
			if err != nil {
				return nil, bad
			}
			than = t
		} else {
			info, err := f.c.FS.Stat(f.c.path(a))
			if err != nil {
				return nil, fmt.Errorf("%s: %s", quoted(a), reason(err))
			}
			than = info.ModTime()
		}
		return func(_ context.Context, v *visit) bool { return v.info.ModTime().After(than) }, nil
	case "-perm":
		return permTest(a, bad)
	case "-user", "-group":
		return func(context.Context, *visit) bool { return a == "sandbox" || a == "1000" }, nil
	case "-printf":
		f.acts = true
		return func(_ context.Context, v *visit) bool {
			f.w.WriteString(f.format(a, v))
			return true
		}, nil
	}
	return nil, fmt.Errorf("unknown predicate `%s'", name)
}

// signed reads "+n", "-n" or "n".
func signed(s string) (func(v, n int64) bool, int64, error) {
	cmp := func(v, n int64) bool { return v == n }
	switch {
	case strings.HasPrefix(s, "+"):
		s, cmp = s[1:], func(v, n int64) bool { return v > n }
	case strings.HasPrefix(s, "-"):
		s, cmp = s[1:], func(v, n int64) bool { return v < n }
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	return cmp, n, err
}

func (f *finder) sizeTest(a string, bad error) (predicate, error) {
	unit := int64(512)
	number := a
	if a != "" {
		if u, ok := map[byte]int64{'c': 1, 'w': 2, 'b': 512, 'k': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[a[len(a)-1]]; ok {
			unit, number = u, a[:len(a)-1]
		}
	}
	cmp, n, err := signed(number)
	if err != nil {
		return nil, bad
	}
	return func(_ context.Context, v *visit) bool { return cmp((v.info.Size()+unit-1)/unit, n) }, nil
}

func permTest(a string, bad error) (predicate, error) {
	kind, spec := byte(0), a
	if a != "" && (a[0] == '-' || a[0] == '/') {
		kind, spec = a[0], a[1:]
	}
	want, err := parseMode(spec, 0, false)
	if err != nil {
		return nil, bad
	}
	return func(_ context.Context, v *visit) bool {
		m := v.info.Mode().Perm()
		switch kind {
		case '-':
			return m&want == want
		case '/':
			return want == 0 || m&want != 0
		}
		return m == want
	}, nil
}

// globRegexp turns a pattern, in which * also matches slashes, into an expression.
func globRegexp(p string, fold bool) (*regexp.Regexp, error) {
	mode := pattern.EntireString
	if fold {
		mode |= pattern.NoGlobCase
	}
	text, err := pattern.Regexp(p, mode)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(text)
}
