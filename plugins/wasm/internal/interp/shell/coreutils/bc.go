package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a number of bc: digits after the point are kept, not rounded.
type decimal struct {
	v     *big.Int // times 10 to the scale
	scale int
}

// Limits of bc.
const (
	maxBCScale = 1000
	maxBCBits  = 1 << 20
)

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// at changes the scale; digits are cut off.
func (d decimal) at(scale int) decimal {
	switch {
	case scale > d.scale:
		return decimal{new(big.Int).Mul(d.v, pow10(scale-d.scale)), scale}
	case scale < d.scale:
		return decimal{new(big.Int).Quo(d.v, pow10(d.scale-scale)), scale}
	}
	return d
}

func (d decimal) String() string {
	s := new(big.Int).Abs(d.v).String()
	sign := ""
	if d.v.Sign() < 0 {
		sign = "-"
	}
	if d.scale == 0 {
		return sign + s
	}
	if len(s) <= d.scale {
		s = strings.Repeat("0", d.scale-len(s)+1) + s
	}
	whole, fraction := s[:len(s)-d.scale], s[len(s)-d.scale:]
	if d.v.Sign() == 0 {
		return "0"
	}
	if whole == "0" {
		whole = ""
	}
	return sign + whole + "." + fraction
}

// calculator evaluates statements of bc: expressions and assignments.
type calculator struct {
	vars  map[string]decimal
	in    string
	at    int
	depth int
}

func (k *calculator) scale() int { return int(k.vars["scale"].at(0).v.Int64()) }

// bc is the calculator without control flow: numbers, variables, operators,
// comparisons, sqrt and length.
func bc(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("lqsiw", "mathlib=l", "quiet=q")
	if err != nil {
		return c.usage(err, 1)
	}
	k := &calculator{vars: map[string]decimal{"scale": {big.NewInt(0), 0}}}
	for _, o := range opts {
		if o.name == 'l' {
			k.vars["scale"] = decimal{big.NewInt(20), 0}
		}
	}
	operands = append(operands, "-")
	code := 0
	quit := false
	n := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, '\n', func(line []byte, _ bool) error {
			for _, s := range strings.Split(string(line), ";") {
				s, _, _ = strings.Cut(s, "#")
				if s = strings.TrimSpace(s); s == "" {
					continue
				}
				if s == "quit" || s == "halt" {
					quit = true
					return errStop
				}
				out, err := k.statement(s)
				if err != nil {
					c.errorf("%v", err)
					code = 1
					continue
				}
				if _, err := io.WriteString(c.Stdout, out); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if quit {
		return 0
	}
	_ = code // errors are told, and bc exits with 0
	return n
}

func (k *calculator) statement(s string) (string, error) {
	k.in, k.at, k.depth = s, 0, 0
	assigns := false
	v, err := k.assignment(&assigns)
	k.blanks()
	switch {
	case err != nil:
		return "", err
	case k.at < len(k.in):
		return "", fmt.Errorf("syntax error near %s", quoted(k.in[k.at:]))
	case assigns:
		return "", nil
	}
	return v.String() + "\n", nil
}

func (k *calculator) blanks() {
	for k.at < len(k.in) && (k.in[k.at] == ' ' || k.in[k.at] == '\t') {
		k.at++
	}
}

// accept takes one of the operators, longest first.
func (k *calculator) accept(ops ...string) string {
	k.blanks()
	for _, op := range ops {
		if strings.HasPrefix(k.in[k.at:], op) {
			k.at += len(op)
			return op
		}
	}
	return ""
}

func (k *calculator) name() string {
	k.blanks()
	n := k.at
	for n < len(k.in) && (k.in[n] >= 'a' && k.in[n] <= 'z' || k.in[n] == '_' || n > k.at && isDigit(k.in[n])) {
		n++
	}
	s := k.in[k.at:n]
	k.at = n
	return s
}

func (k *calculator) assignment(assigns *bool) (decimal, error) {
	start := k.at
	if name := k.name(); name != "" {
		op := k.accept("+=", "-=", "*=", "/=", "%=", "^=")
		if op == "" && k.accept("==") == "" && k.accept("=") != "" {
			op = "="
		}
		if op != "" {
			v, err := k.assignment(new(bool))
			if err == nil && op != "=" {
				v, err = k.apply(op[:1], k.vars[name].orZero(), v)
			}
			if err == nil && name == "scale" && (v.at(0).v.Cmp(big.NewInt(maxBCScale)) > 0 || v.v.Sign() < 0) {
				err = fmt.Errorf("scale is at most %d", maxBCScale)
			}
			if err == nil && (name == "ibase" || name == "obase") && v.at(0).v.Cmp(big.NewInt(10)) != 0 {
				err = errors.New("bases other than 10 are not available: printf '%x' and $((16#ff)) are")
			}
			if err == nil {
				k.vars[name] = v
			}
			*assigns = true
			return v, err
		}
	}
	k.at = start
	return k.level(0)
}

func (d decimal) orZero() decimal {
	if d.v == nil {
		return decimal{new(big.Int), 0}
	}
	return d
}

// bcLevels are the binary operators from the loosest to the tightest.
var bcLevels = [][]string{{"||"}, {"&&"}, {"<=", ">=", "==", "!=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}}

func (k *calculator) level(n int) (decimal, error) {
	if n == len(bcLevels) {
		return k.power()
	}
	left, err := k.level(n + 1)
	for err == nil {
		op := k.accept(bcLevels[n]...)
		if op == "" {
			break
		}
		var right decimal
		if right, err = k.level(n + 1); err == nil {
			left, err = k.apply(op, left, right)
		}
	}
	return left, err
}

// power binds to the right, and tighter than a sign before it.
func (k *calculator) power() (decimal, error) {
	if k.depth++; k.depth > maxNesting {
		return decimal{}, errors.New("the expression nests too deep")
	}
	defer func() { k.depth-- }()
	if k.accept("-") != "" {
		v, err := k.power()
		if err != nil {
			return v, err
		}
		return decimal{new(big.Int).Neg(v.v), v.scale}, nil
	}
	if k.accept("!") != "" {
		v, err := k.power()
		if err != nil {
			return v, err
		}
		return truthValue(v.v.Sign() == 0), nil
	}
	base, err := k.primary()
	if err != nil || k.accept("^") == "" {
		return base, err
	}
	exp, err := k.power()
	if err != nil {
		return base, err
	}
	return k.apply("^", base, exp)
}

func truthValue(b bool) decimal {
	if b {
		return decimal{big.NewInt(1), 0}
	}
	return decimal{new(big.Int), 0}
}

func (k *calculator) primary() (decimal, error) {
	k.blanks()
	if k.accept("(") != "" {
		v, err := k.assignment(new(bool))
		if err == nil && k.accept(")") == "" {
			err = errors.New("syntax error: missing )")
		}
		return v, err
	}
	n := k.at
	for n < len(k.in) && (isDigit(k.in[n]) || k.in[n] == '.') {
		n++
	}
	if n > k.at {
		text := k.in[k.at:n]
		k.at = n
		whole, fraction, _ := strings.Cut(text, ".")
		v, ok := new(big.Int).SetString("0"+whole+fraction, 10)
		if !ok || strings.Contains(fraction, ".") {
			return decimal{}, fmt.Errorf("syntax error near %s", quoted(text))
		}
		return decimal{v, len(fraction)}, nil
	}
	name := k.name()
	if name == "" {
		return decimal{}, fmt.Errorf("syntax error near %s", quoted(k.in[k.at:]))
	}
	if k.accept("(") == "" {
		return k.vars[name].orZero(), nil
	}
	v, err := k.assignment(new(bool))
	if err == nil && k.accept(")") == "" {
		err = errors.New("syntax error: missing )")
	}
	if err != nil {
		return v, err
	}
	switch name {
	case "sqrt":
		if v.v.Sign() < 0 {
			return v, errors.New("square root of a negative number")
		}
		s := max(v.scale, k.scale())
		return decimal{new(big.Int).Sqrt(v.at(2 * s).v), s}, nil
	case "length":
		return decimal{big.NewInt(int64(len(strings.TrimLeft(new(big.Int).Abs(v.v).String(), "-")))), 0}, nil
	case "scale":
		return decimal{big.NewInt(int64(v.scale)), 0}, nil
	}
	return v, fmt.Errorf("function %s is not available", name)
}

func (k *calculator) apply(op string, a, b decimal) (decimal, error) {
	s := max(a.scale, b.scale)
	if a.v.BitLen()+b.v.BitLen() > maxBCBits {
		return a, errors.New("the number is too large")
	}
	x, y := a.at(s).v, b.at(s).v
	cmp := x.Cmp(y)
	switch op {
	case "+":
		return decimal{new(big.Int).Add(x, y), s}, nil
	case "-":
		return decimal{new(big.Int).Sub(x, y), s}, nil
	case "*":
		full := decimal{new(big.Int).Mul(a.v, b.v), a.scale + b.scale}
		return full.at(min(full.scale, max(k.scale(), a.scale, b.scale))), nil
	case "/", "%":
		if b.v.Sign() == 0 {
			return a, errors.New("divide by zero")
		}
		scale := k.scale()
		q := decimal{new(big.Int).Quo(a.at(scale+b.scale+a.scale).v, new(big.Int).Mul(b.v, pow10(a.scale))), scale}
		if op == "/" {
			return q, nil
		}
		p := decimal{new(big.Int).Mul(q.v, b.v), q.scale + b.scale}
		s := max(p.scale, a.scale)
		return decimal{new(big.Int).Sub(a.at(s).v, p.at(s).v), s}.at(max(scale+b.scale, a.scale)), nil
	case "^":
		n, err := strconv.Atoi(b.at(0).v.String())
		if err != nil || max(a.v.BitLen(), 1)*max(n, -n) > maxBCBits {
			return a, errors.New("the number is too large")
		}
		p := decimal{new(big.Int).Exp(a.v, big.NewInt(int64(max(n, -n))), nil), a.scale * max(n, -n)}
		if n < 0 {
			return k.apply("/", decimal{big.NewInt(1), 0}, p)
		}
		return p.at(min(p.scale, max(k.scale(), a.scale))), nil
	case "<":
		return truthValue(cmp < 0), nil
	case ">":
		return truthValue(cmp > 0), nil
	case "<=":
		return truthValue(cmp <= 0), nil
	case ">=":
		return truthValue(cmp >= 0), nil
	case "==":
		return truthValue(cmp == 0), nil
	case "!=":
		return truthValue(cmp != 0), nil
	case "&&":
		return truthValue(a.v.Sign() != 0 && b.v.Sign() != 0), nil
	default: // ||
		return truthValue(a.v.Sign() != 0 || b.v.Sign() != 0), nil
	}
}
