package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

func seq(ctx context.Context, c *Call) int {
	// Negative numbers are operands.
	args := c.Argv[1:]
	sep, form, wide := "\n", "", false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && !isDigit(args[0][1]) && args[0][1] != '.' {
		a := args[0]
		args = args[1:]
		value := func(short string) (string, bool) {
			if rest, ok := strings.CutPrefix(a, short); ok && rest != "" {
				return strings.TrimPrefix(rest, "="), true
			}
			if len(args) > 0 {
				v := args[0]
				args = args[1:]
				return v, true
			}
			return "", false
		}
		ok := true
		switch {
		case a == "-w", a == "--equal-width":
			wide = true
		case strings.HasPrefix(a, "-s"):
			sep, ok = value("-s")
		case strings.HasPrefix(a, "--separator"):
			sep, ok = value("--separator")
		case strings.HasPrefix(a, "-f"):
			form, ok = value("-f")
		case strings.HasPrefix(a, "--format"):
			form, ok = value("--format")
		default:
			ok = false
		}
		if !ok {
			return c.usage(fmt.Errorf("invalid option %s", quoted(a)), 1)
		}
	}
	if len(args) == 0 || len(args) > 3 {
		return c.usage(errors.New("one to three numbers are needed"), 1)
	}
	nums := make([]*big.Rat, len(args))
	places := 0
	for i, a := range args {
		r, ok := new(big.Rat).SetString(a)
		if !ok || len(a) > 100 || strings.ContainsAny(a, "/eEpPxX") && len(a) > 12 {
			return c.usage(fmt.Errorf("invalid floating point argument: %s", quoted(a)), 1)
		}
		nums[i] = r
		if _, frac, ok := strings.Cut(a, "."); ok && (i < 2 || len(args) == 1) {
			places = max(places, len(frac))
		}
	}
	first, step, last := big.NewRat(1, 1), big.NewRat(1, 1), nums[len(nums)-1]
	if len(nums) > 1 {
		first = nums[0]
	}
	if len(nums) == 3 {
		step = nums[1]
	}
	if step.Sign() == 0 {
		return c.usage(fmt.Errorf("invalid Zero increment value: %s", quoted(args[1])), 1)
	}
	text := func(r *big.Rat) string { return r.FloatString(places) }
	if form != "" {
		if err := checkFormat(form); err != nil {
			return c.usage(err, 1)
		}
		text = func(r *big.Rat) string {
			f, _ := r.Float64()
			return fmt.Sprintf(form, f)
		}
	} else if wide {
		width := max(len(text(first)), len(text(last)))
		plain := text
		text = func(r *big.Rat) string {
			s := plain(r)
			neg := strings.HasPrefix(s, "-")
			s = strings.TrimPrefix(s, "-")
			if neg {
				return "-" + strings.Repeat("0", max(0, width-1-len(s))) + s
			}
			return strings.Repeat("0", max(0, width-len(s))) + s
		}
	}
	w := c.output()
	n := 0
	for v := new(big.Rat).Set(first); ctx.Err() == nil; v.Add(v, step) {
		if d := v.Cmp(last); d*step.Sign() > 0 {
			break
		}
		if n > 0 {
			w.WriteString(sep)
		}
		n++
		if _, err := w.WriteString(text(v)); err != nil {
			break
		}
	}
	if n > 0 {
		w.WriteByte('\n')
	}
	return c.flush(w, 0)
}

// checkFormat accepts a format with one directive for a number.
func checkFormat(form string) error {
	rest := strings.ReplaceAll(form, "%%", "")
	i := strings.IndexByte(rest, '%')
	if i < 0 || strings.Count(rest, "%") != 1 {
		return fmt.Errorf("format %s has no %% directive, or more than one", quoted(form))
	}
	rest = strings.TrimLeft(rest[i+1:], "-+ #0")
	digits := strings.TrimLeft(rest, "0123456789.")
	if len(rest)-len(digits) > 6 || digits == "" || strings.IndexByte("efgEFG", digits[0]) < 0 {
		return fmt.Errorf("format %s has unknown directive", quoted(form))
	}
	return nil
}

func factor(ctx context.Context, c *Call) int {
	numbers := c.Argv[1:]
	if len(numbers) == 0 {
		b, err := io.ReadAll(c.Stdin)
		if err != nil {
			return c.fail(err)
		}
		numbers = strings.Fields(string(b))
	}
	code := 0
	for _, s := range numbers {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			c.errorf("%s is not a valid positive integer", quoted(s))
			code = 1
			continue
		}
		fmt.Fprintf(c.Stdout, "%d:", n)
		for p := uint64(2); p <= n/p && ctx.Err() == nil; p++ {
			for n%p == 0 {
				fmt.Fprintf(c.Stdout, " %d", p)
				n /= p
			}
		}
		if n > 1 {
			fmt.Fprintf(c.Stdout, " %d", n)
		}
		fmt.Fprintln(c.Stdout)
	}
	return code
}

// numfmt converts numbers with units.
func numfmt(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("f:t:d:F:s:p:H::", "from=f", "to=t", "delimiter=d", "field=F", "suffix=s", "padding=p", "header=H", "format=p", "round=p", "grouping=H")
	if err != nil {
		return c.usage(err, 1)
	}
	from, to, delim, field, suffix := "none", "none", "", 1, ""
	for _, o := range opts {
		switch o.name {
		case 'f':
			from = o.arg
		case 't':
			to = o.arg
		case 'd':
			delim = o.arg
		case 's':
			suffix = o.arg
		case 'F':
			if field, err = strconv.Atoi(o.arg); err != nil || field < 1 {
				return c.usage(fmt.Errorf("invalid field value %s", quoted(o.arg)), 1)
			}
		}
	}
	base := map[string]float64{"none": 1, "si": 1000, "iec": 1024, "iec-i": 1024, "auto": 1024}
	if base[from] == 0 || base[to] == 0 {
		return c.usage(errors.New("a unit is none, si, iec, iec-i or auto"), 1)
	}
	convert := func(s string) (string, error) {
		digits := strings.TrimRight(s, "iKMGTPE")
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return "", fmt.Errorf("invalid number: %s", quoted(s))
		}
		if unit := s[len(digits):]; unit != "" && from != "none" {
			b := base[from]
			if from == "auto" && !strings.HasSuffix(unit, "i") {
				b = 1000
			}
			for range strings.IndexByte("KMGTPE", unit[0]) + 1 {
				f *= b
			}
		}
		if to == "none" {
			return strconv.FormatFloat(f, 'f', -1, 64) + suffix, nil
		}
		n := 0
		for f >= base[to] && n < 6 {
			f, n = f/base[to], n+1
		}
		unit := ""
		if n > 0 {
			unit = "KMGTPE"[n-1 : n]
			if to == "iec-i" {
				unit += "i"
			}
		}
		if n == 0 || f >= 9.95 {
			return strconv.FormatFloat(ceil(f, 1), 'f', 0, 64) + unit + suffix, nil
		}
		return strconv.FormatFloat(ceil(f, 10), 'f', 1, 64) + unit + suffix, nil
	}
	code := 0
	line := func(w *bufio.Writer, text string) {
		fields := strings.Fields(text)
		sep := " "
		if delim != "" {
			fields, sep = strings.Split(text, delim), delim
		}
		if field <= len(fields) {
			v, err := convert(strings.TrimSpace(fields[field-1]))
			if err != nil {
				c.errorf("%v", err)
				code = 2
				return
			}
			fields[field-1] = v
		}
		w.WriteString(strings.Join(fields, sep))
	}
	if len(operands) > 0 {
		w := c.output()
		for _, a := range operands {
			line(w, a)
			w.WriteByte('\n')
		}
		return c.flush(w, code)
	}
	return max(c.filter(ctx, nil, func(w *bufio.Writer, b []byte) { line(w, string(b)) }), code)
}

// ceil rounds away from zero to a part of one.
func ceil(f, parts float64) float64 {
	n := f * parts
	if r := float64(int64(n)); r < n {
		return (r + 1) / parts
	}
	return n / parts
}
