package coreutils

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/posixre"
)

// expr evaluates the words of its command line.
func expr(_ context.Context, c *Call) int {
	e := &expression{args: c.Argv[1:]}
	if len(e.args) > 0 && e.args[0] == "--" {
		e.args = e.args[1:]
	}
	v, err := e.level(0)
	if err == nil && len(e.args) > 0 {
		err = fmt.Errorf("syntax error: unexpected argument %s", quoted(e.args[0]))
	}
	if err != nil {
		return c.usage(err, 2)
	}
	fmt.Fprintln(c.Stdout, v)
	if v == "" || strings.Trim(v, "0") == "" && v != "" || v == "-0" {
		return 1
	}
	return 0
}

type expression struct {
	args  []string
	depth int
}

// exprLevels are the operators from the loosest to the tightest.
var exprLevels = [][]string{{"|"}, {"&"}, {"<", "<=", "=", "==", "!=", ">=", ">"}, {"+", "-"}, {"*", "/", "%"}, {":"}}

func (e *expression) level(n int) (string, error) {
	if n == len(exprLevels) {
		return e.primary()
	}
	left, err := e.level(n + 1)
	for err == nil && len(e.args) > 0 && contains(exprLevels[n], e.args[0]) {
		op := e.args[0]
		e.args = e.args[1:]
		var right string
		if right, err = e.level(n + 1); err == nil {
			left, err = exprApply(op, left, right)
		}
	}
	return left, err
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func (e *expression) primary() (string, error) {
	if e.depth++; e.depth > maxNesting {
		return "", errors.New("the expression nests too deep")
	}
	defer func() { e.depth-- }()
	take := func() (string, error) {
		if len(e.args) == 0 {
			return "", errors.New("syntax error: missing argument")
		}
		a := e.args[0]
		e.args = e.args[1:]
		return a, nil
	}
	a, err := take()
	if err != nil {
		return "", err
	}
	switch a {
	case "(":
		v, err := e.level(0)
		if err != nil {
			return "", err
		}
		if end, err := take(); err != nil || end != ")" {
			return "", errors.New("syntax error: expecting ')'")
		}
		return v, nil
	case "+":
		return take()
	case "length":
		s, err := e.primary()
		return strconv.Itoa(len([]rune(s))), err
	case "match":
		s, err := e.primary()
		if err != nil {
			return "", err
		}
		re, err := e.primary()
		if err != nil {
			return "", err
		}
		return exprApply(":", s, re)
	case "index":
		s, err := e.primary()
		if err != nil {
			return "", err
		}
		chars, err := e.primary()
		return strconv.Itoa(len([]rune(s[:max(0, strings.IndexAny(s, chars))])) + map[bool]int{true: 1, false: 0}[strings.ContainsAny(s, chars)]), err
	case "substr":
		s, err := e.primary()
		if err != nil {
			return "", err
		}
		from, err1 := e.primary()
		count, err2 := e.primary()
		i, err3 := strconv.Atoi(from)
		n, err4 := strconv.Atoi(count)
		r := []rune(s)
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		if err3 != nil || err4 != nil || i < 1 || n < 1 || i > len(r) {
			return "", nil
		}
		return string(r[i-1 : min(i-1+n, len(r))]), nil
	}
	return a, nil
}

func exprApply(op, a, b string) (string, error) {
	empty := func(s string) bool { return s == "" || strings.Trim(s, "0") == "" }
	truth := map[bool]string{true: "1", false: "0"}
	switch op {
	case "|":
		if !empty(a) {
			return a, nil
		}
		if !empty(b) {
			return b, nil
		}
		return "0", nil
	case "&":
		if empty(a) || empty(b) {
			return "0", nil
		}
		return a, nil
	case ":":
		re, err := posixre.Compile("^"+strings.TrimPrefix(b, "^"), posixre.Flags{})
		if err != nil {
			return "", err
		}
		m := re.FindStringSubmatch(a)
		switch {
		case re.NumSubexp() > 0 && m == nil:
			return "", nil
		case re.NumSubexp() > 0:
			return m[1], nil
		case m == nil:
			return "0", nil
		}
		return strconv.Itoa(len([]rune(m[0]))), nil
	}
	x, ok1 := exprInt(a)
	y, ok2 := exprInt(b)
	if strings.ContainsAny(op, "<>=!") {
		n := strings.Compare(a, b)
		if ok1 && ok2 {
			n = x.Cmp(y)
		}
		return truth[map[string]bool{"<": n < 0, "<=": n <= 0, "=": n == 0, "==": n == 0, "!=": n != 0, ">=": n >= 0, ">": n > 0}[op]], nil
	}
	if !ok1 || !ok2 {
		return "", errors.New("non-integer argument")
	}
	switch op {
	case "+":
		x.Add(x, y)
	case "-":
		x.Sub(x, y)
	case "*":
		x.Mul(x, y)
	default:
		if y.Sign() == 0 {
			return "", errors.New("division by zero")
		}
		if op == "/" {
			x.Quo(x, y)
		} else {
			x.Rem(x, y)
		}
	}
	return x.String(), nil
}

func exprInt(s string) (*big.Int, bool) {
	if strings.HasPrefix(s, "+") || strings.Contains(s, "_") || len(s) > 1000 {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}
