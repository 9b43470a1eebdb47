package coreutils

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// trSet is the meaning of one operand of tr.
type trSet struct {
	runes []rune
	// fill is where in runes the repetition without a number stands, -1 if
	// there is none.
	fill     int
	fillRune rune
	class    string // if the whole of it is one class
}

// trClasses are the ASCII members of the classes, in order.
var trClasses = map[string]func(b byte) bool{
	"alnum": func(b byte) bool { return isDigit(b) || isLetter(b) },
	"alpha": isLetter,
	"blank": func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl": func(b byte) bool { return b < 32 || b == 127 },
	"digit": isDigit,
	"graph": func(b byte) bool { return b > 32 && b < 127 },
	"lower": func(b byte) bool { return b >= 'a' && b <= 'z' },
	"print": func(b byte) bool { return b >= 32 && b < 127 },
	"punct": func(b byte) bool { return b > 32 && b < 127 && !isDigit(b) && !isLetter(b) },
	"space": func(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' },
	"upper": func(b byte) bool { return b >= 'A' && b <= 'Z' },
	"xdigit": func(b byte) bool {
		return isDigit(b) || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
	},
}

func isDigit(b byte) bool  { return b >= '0' && b <= '9' }
func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// maxTrSet bounds the characters that ranges and repetitions stand for.
const maxTrSet = 1 << 17

// parseTr reads an operand of tr.
func parseTr(s string) (trSet, error) {
	set := trSet{fill: -1}
	add := func(low, high rune) error {
		if int(high-low) > maxTrSet-len(set.runes) {
			return errors.New("the set is too large")
		}
		for r := low; r <= high; r++ {
			set.runes = append(set.runes, r)
		}
		return nil
	}
	whole := s
	for s != "" {
		if class, rest, ok := trClass(s); ok {
			in, known := trClasses[class]
			if !known {
				return set, fmt.Errorf("invalid character class %s", quoted(class))
			}
			for b := range 128 {
				if in(byte(b)) {
					set.runes = append(set.runes, rune(b))
				}
			}
			if len(class)+4 == len(whole) {
				set.class = class
			}
			s = rest
			continue
		}
		if r, n, rest, ok := trRepeat(s); ok {
			s = rest
			if n == 0 {
				if set.fill >= 0 {
					return set, errors.New("only one [c*] repeat construct may appear in string2")
				}
				set.fill, set.fillRune = len(set.runes), r
				continue
			}
			if n > maxTrSet-len(set.runes) {
				return set, errors.New("the set is too large")
			}
			set.runes = append(set.runes, slices.Repeat([]rune{r}, n)...)
			continue
		}
		low, rest := trChar(s)
		s = rest
		if len(s) > 1 && s[0] == '-' {
			high, rest := trChar(s[1:])
			if high < low {
				return set, fmt.Errorf("range-endpoints of '%c-%c' are in reverse collating sequence order", low, high)
			}
			if err := add(low, high); err != nil {
				return set, err
			}
			s = rest
			continue
		}
		if err := add(low, low); err != nil {
			return set, err
		}
	}
	return set, nil
}

func trClass(s string) (class, rest string, ok bool) {
	if !strings.HasPrefix(s, "[:") {
		return "", s, false
	}
	return strings.Cut(s[2:], ":]")
}

// trRepeat reads [c*], with n 0, or [c*n].
func trRepeat(s string) (r rune, n int, rest string, ok bool) {
	if !strings.HasPrefix(s, "[") {
		return 0, 0, s, false
	}
	if len(s) < 4 {
		return 0, 0, s, false
	}
	r, rest = trChar(s[1:])
	if !strings.HasPrefix(rest, "*") {
		return 0, 0, s, false
	}
	count, rest, ok := strings.Cut(rest[1:], "]")
	if !ok {
		return 0, 0, s, false
	}
	if count == "" {
		return r, 0, rest, true
	}
	base := 10
	if count[0] == '0' {
		base = 8
	}
	v, err := strconv.ParseUint(count, base, 31)
	if errors.Is(err, strconv.ErrRange) {
		v = maxTrSet + 1 // which is refused
	} else if err != nil {
		return 0, 0, s, false
	}
	return r, int(min(v, maxTrSet+1)), rest, true
}

// trChar reads one character, escaped or not.
func trChar(s string) (rune, string) {
	if s[0] != '\\' || len(s) == 1 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n <= 1 {
			return rawByte(s[0]), s[1:]
		}
		return r, s[n:]
	}
	if n := len(s[1:]) - len(strings.TrimLeft(s[1:min(4, len(s))], "01234567")) - len(s[min(4, len(s)):]); n > 0 {
		v, _ := strconv.ParseUint(s[1:1+n], 8, 16)
		return rawByte(byte(v)), s[1+n:]
	}
	if i := strings.IndexByte("abfnrtv", s[1]); i >= 0 {
		return rune("\a\b\f\n\r\t\v"[i]), s[2:]
	}
	r, n := utf8.DecodeRuneInString(s[1:])
	return r, s[1+n:]
}

// rawByte keeps bytes that are no text apart from characters: they are negative.
func rawByte(b byte) rune {
	if b < utf8.RuneSelf {
		return rune(b)
	}
	return -rune(b)
}

func tr(ctx context.Context, c *Call) int {
	opts, operands, err := c.options("+cCdst", "complement=c", "delete=d", "squeeze-repeats=s", "truncate-set1=t")
	if err != nil {
		return c.usage(err, 1)
	}
	set := map[byte]bool{}
	for _, o := range opts {
		set[o.name] = true
	}
	complement := set['c'] || set['C']
	least, most := 2, 2
	switch {
	case set['d'] && !set['s']:
		least, most = 1, 1
	case set['s'] && !set['d']:
		least = 1
	}
	if len(operands) < least {
		return c.usage(errors.New("missing operand"), 1)
	}
	if len(operands) > most {
		return c.usage(fmt.Errorf("extra operand %s", quoted(operands[most])), 1)
	}
	var sets [2]trSet
	for i, s := range operands {
		if sets[i], err = parseTr(s); err != nil {
			return c.usage(err, 1)
		}
	}
	if sets[0].fill >= 0 {
		return c.usage(errors.New("the [c*] repeat construct may not appear in string1"), 1)
	}
	in := map[rune]bool{}
	for _, r := range sets[0].runes {
		in[r] = true
	}
	t := translation{complement: complement, in: in, remove: set['d'], squeeze: map[rune]bool{}}
	if len(operands) == 2 && !set['d'] {
		if t.to, err = trMap(&sets, complement, set['t']); err != nil {
			return c.usage(err, 1)
		}
		t.last = sets[1].runes[len(sets[1].runes)-1]
	}
	if set['s'] {
		last := sets[len(operands)-1].runes
		for _, r := range last {
			t.squeeze[r] = true
		}
		t.squeezeOut = complement && len(operands) == 1
	}
	w := c.output()
	err = t.run(ctx, c.Stdin, w)
	if err != nil && !broken(err) {
		return c.fail(err)
	}
	return c.flush(w, 0)
}

// trMap makes the table of what becomes what; sets[1] is filled up.
func trMap(sets *[2]trSet, complement, truncate bool) (map[rune]rune, error) {
	from, to := sets[0].runes, &sets[1]
	if to.fill >= 0 {
		n := max(0, len(from)-len(to.runes))
		to.runes = slices.Insert(to.runes, to.fill, slices.Repeat([]rune{to.fillRune}, n)...)
	}
	if len(to.runes) == 0 {
		if len(from) == 0 {
			to.runes = []rune{0}
			return nil, nil
		}
		return nil, errors.New("when not truncating set1, string2 must be non-empty")
	}
	if complement {
		return nil, nil
	}
	m := make(map[rune]rune, len(from))
	for i, r := range from {
		if i >= len(to.runes) && truncate {
			break
		}
		m[r] = to.runes[min(i, len(to.runes)-1)]
	}
	return m, nil
}

// translation is what tr does to a stream.
type translation struct {
	complement, remove, squeezeOut bool
	in                             map[rune]bool
	to                             map[rune]rune // nil with complement
	last                           rune
	squeeze                        map[rune]bool
}

func (t *translation) run(ctx context.Context, r io.Reader, w *bufio.Writer) error {
	b := bufio.NewReaderSize(r, 64<<10)
	previous := rune(math.MinInt32)
	for i := 0; ; i++ {
		if i&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c, n, err := b.ReadRune()
		if err == io.EOF { //nolint:errorlint // as io.Reader says
			return nil
		}
		if err != nil {
			return err
		}
		if c == utf8.RuneError && n == 1 {
			_ = b.UnreadRune()
			raw, _ := b.ReadByte()
			c = rawByte(raw)
		}
		hit := t.in[c] != t.complement
		switch {
		case t.remove && hit:
			continue
		case hit && t.complement && t.last != 0:
			c = t.last
		case hit && t.to != nil:
			if to, ok := t.to[c]; ok {
				c = to
			}
		}
		if c == previous && (t.squeeze[c] != t.squeezeOut) {
			continue
		}
		previous = c
		if c < 0 {
			err = w.WriteByte(byte(-c))
		} else {
			_, err = w.WriteRune(c)
		}
		if err != nil {
			return err
		}
		// What reads a line at a time should not wait for more of it.
		if b.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}
