package coreutils

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
)

// sortKey is one -k, or the options that hold for all.
type sortKey struct {
	fromField, fromChar, toField, toChar int // from 1; toField 0: to the end
	flags                                string
}

// compare compares by the flags of a key.
func (k sortKey) compare(a, b string) int {
	has := func(f byte) bool { return strings.IndexByte(k.flags, f) >= 0 }
	if has('b') {
		a, b = strings.TrimLeft(a, " \t"), strings.TrimLeft(b, " \t")
	}
	if has('d') {
		keep := func(r rune) rune {
			if r == ' ' || r == '\t' || r > 127 || isDigit(byte(r)) || isLetter(byte(r)) {
				return r
			}
			return -1
		}
		a, b = strings.Map(keep, a), strings.Map(keep, b)
	}
	if has('f') {
		a, b = strings.ToUpper(a), strings.ToUpper(b)
	}
	var n int
	switch {
	case has('n'):
		n = compareNumbers(a, b)
	case has('g'):
		n = cmp.Compare(leadingFloat(a), leadingFloat(b))
	case has('h'):
		n = cmp.Compare(humanNumber(a), humanNumber(b))
	case has('M'):
		n = cmp.Compare(month(a), month(b))
	case has('V'):
		n = compareVersions(a, b)
	case has('R'):
		n = cmp.Compare(scramble(a), scramble(b))
	default:
		n = strings.Compare(a, b)
	}
	if has('r') {
		return -n
	}
	return n
}

// number splits the decimal number at the beginning of s.
func number(s string) (negative bool, whole, fraction string) {
	s = strings.TrimLeft(s, " \t")
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		negative, s = true, rest
	}
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	whole = strings.TrimLeft(s[:i], "0")
	if i < len(s) && s[i] == '.' {
		j := i + 1
		for j < len(s) && isDigit(s[j]) {
			j++
		}
		fraction = strings.TrimRight(s[i+1:j], "0")
	}
	return negative && whole+fraction != "", whole, fraction
}

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b string) int {
	an, aw, af := number(a)
	bn, bw, bf := number(b)
	if an != bn {
		if an {
			return -1
		}
		return 1
	}
	n := cmp.Or(cmp.Compare(len(aw), len(bw)), strings.Compare(aw, bw), strings.Compare(af, bf))
	if an {
		return -n
	}
	return n
}

func leadingFloat(s string) float64 {
	s = strings.TrimLeft(s, " \t")
	for n := len(s); n > 0; n-- {
		if n > 64 {
			n = 64
		}
		if f, err := strconv.ParseFloat(s[:n], 64); err == nil {
			return f
		}
	}
	return -1.797693134862315708145274237317043567981e+308 // what is no number comes first
}

func humanNumber(s string) float64 {
	negative, whole, fraction := number(s)
	f, _ := strconv.ParseFloat("0"+whole+"."+fraction+"0", 64)
	rest := strings.TrimLeft(strings.TrimLeft(s, " \t-"), "0123456789.")
	if rest != "" {
		if i := strings.IndexByte("KMGTPEZY", rest[0]&^0x20); i >= 0 {
			for range i + 1 {
				f *= 1024
			}
		}
	}
	if negative {
		return -f
	}
	return f
}

func month(s string) int {
	s = strings.ToUpper(strings.TrimLeft(s, " \t"))
	i := strings.Index("JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", s[:min(3, len(s))])
	if len(s) < 3 || i < 0 || i%3 != 0 {
		return 0
	}
	return i/3 + 1
}

// compareVersions compares runs of digits as numbers, the rest as text.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		i, j := digits(a), digits(b)
		if i > 0 && j > 0 {
			if n := compareNumbers(a[:i], b[:j]); n != 0 {
				return n
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

func scramble(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s)
	return h.Sum64()
}

// extract returns the part of a line that a key is about.
func (k sortKey) extract(line, sep string) string {
	if k.fromField == 0 {
		return line
	}
	start := fieldStart(line, sep, k.fromField)
	if k.fromChar > 1 {
		if strings.IndexByte(k.flags, 'b') >= 0 {
			start += len(line[start:]) - len(strings.TrimLeft(line[start:], " \t"))
		}
		start = min(start+k.fromChar-1, len(line))
	}
	end := len(line)
	if k.toField > 0 {
		if k.toChar > 0 {
			end = min(fieldStart(line, sep, k.toField)+k.toChar, len(line))
		} else {
			end = fieldEnd(line, sep, k.toField)
		}
	}
	if start >= end {
		return ""
	}
	return line[start:end]
}

func fieldStart(line, sep string, n int) int {
	at := 0
	for range n - 1 {
		at = fieldEndFrom(line, sep, at)
		if sep != "" && at < len(line) {
			at++
		}
	}
	return at
}

func fieldEnd(line, sep string, n int) int { return fieldEndFrom(line, sep, fieldStart(line, sep, n)) }

// fieldEndFrom finds the end of the field that begins at at. Without a separator
// the blanks before a field belong to it.
func fieldEndFrom(line, sep string, at int) int {
	if sep != "" {
		if i := strings.Index(line[at:], sep); i >= 0 {
			return at + i
		}
		return len(line)
	}
	for at < len(line) && (line[at] == ' ' || line[at] == '\t') {
		at++
	}
	for at < len(line) && line[at] != ' ' && line[at] != '\t' {
		at++
	}
	return at
}

// parseSortKey reads "2,3nr" or "1.2,1.4".
func parseSortKey(s string) (k sortKey, err error) {
	from, to, ranged := strings.Cut(s, ",")
	read := func(s string) (field, char int, flags string, err error) {
		n := digits(s)
		if field, err = strconv.Atoi(s[:n]); err != nil || field < 1 {
			return 0, 0, "", fmt.Errorf("invalid number at field start: invalid count at start of %s", quoted(s))
		}
		s = s[n:]
		if rest, ok := strings.CutPrefix(s, "."); ok {
			n = digits(rest)
			char, _ = strconv.Atoi(rest[:n])
			s = rest[n:]
		}
		if strings.Trim(s, "bdfgiMhnRrV") != "" {
			return 0, 0, "", fmt.Errorf("stray character in field spec: invalid field specification %s", quoted(s))
		}
		return field, char, s, nil
	}
	if k.fromField, k.fromChar, k.flags, err = read(from); err != nil || !ranged {
		return k, err
	}
	var flags string
	k.toField, k.toChar, flags, err = read(to)
	k.flags += flags
	return k, err
}

func sortCommand(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("nrubfdighMVRt:k:o:cCsmzT:S:", "numeric-sort=n", "reverse=r", "unique=u", "ignore-leading-blanks=b", "ignore-case=f", "dictionary-order=d", "general-numeric-sort=g", "human-numeric-sort=h", "month-sort=M", "version-sort=V", "random-sort=R", "field-separator=t", "key=k", "output=o", "check=c", "stable=s", "merge=m", "zero-terminated=z", "ignore-nonprinting=i", "buffer-size=S", "temporary-directory=T", "parallel=S")
	if err != nil {
		return c.usage(err, 2)
	}
	var keys []sortKey
	global, sep, output, end := "", "", "", byte('\n')
	set := map[byte]bool{}
	for _, o := range opts {
		set[o.name] = true
		switch o.name {
		case 't':
			if sep = o.arg; sep == `\0` {
				sep = "\x00"
			}
			if len([]rune(sep)) != 1 {
				return c.usage(fmt.Errorf("multi-character tab %s", quoted(sep)), 2)
			}
		case 'k':
			k, err := parseSortKey(o.arg)
			if err != nil {
				return c.usage(err, 2)
			}
			keys = append(keys, k)
		case 'o':
			output = o.arg
		case 'z':
			end = 0
		case 'n', 'r', 'b', 'f', 'd', 'i', 'g', 'h', 'M', 'V', 'R':
			global += string(rune(o.name))
		}
	}
	for i := range keys {
		if keys[i].flags == "" {
			keys[i].flags = global
		}
	}
	whole := len(keys) == 0
	if whole {
		keys = []sortKey{{flags: global}}
	}
	byKeys := func(a, b string) int {
		for _, k := range keys {
			if n := k.compare(k.extract(a, sep), k.extract(b, sep)); n != 0 {
				return n
			}
		}
		return 0
	}
	compare := func(a, b string) int {
		n := byKeys(a, b)
		if n == 0 && !set['s'] && !set['u'] {
			if n = strings.Compare(a, b); strings.Contains(global, "r") {
				n = -n
			}
		}
		return n
	}
	var list []string
	code := c.inputs(ctx, operands, func(_ string, r io.Reader) error {
		return lines(ctx, r, end, func(line []byte, _ bool) error {
			list = append(list, string(line))
			return nil
		})
	})
	if code != 0 {
		return 2
	}
	if set['c'] || set['C'] {
		for i := 1; i < len(list); i++ {
			if n := compare(list[i-1], list[i]); n > 0 || n == 0 && set['u'] {
				if set['c'] {
					c.errorf("%s:%d: disorder: %s", cmp.Or(strings.Join(operands, ""), "-"), i+1, list[i])
				}
				return 1
			}
		}
		return 0
	}
	steps := 0
	slices.SortStableFunc(list, func(a, b string) int {
		if steps++; steps&0xffff == 0 && ctx.Err() != nil {
			return 0
		}
		return compare(a, b)
	})
	if set['u'] {
		list = slices.CompactFunc(list, func(a, b string) bool { return byKeys(a, b) == 0 })
	}
	out := c.Stdout
	if output != "" {
		f, err := c.create(output)
		if err != nil {
			c.errorf("open failed: %s: %s", output, reason(err))
			return 2
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	w := bufio.NewWriterSize(out, 64<<10)
	for _, line := range list {
		w.WriteString(line)
		if w.WriteByte(end) != nil {
			break
		}
	}
	return c.flush(w, 0)
}
