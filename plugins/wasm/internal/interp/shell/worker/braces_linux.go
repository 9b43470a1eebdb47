package worker

import (
	"fmt"
	"slices"
	"strconv"

	"mvdan.cc/sh/v3/syntax"
)

// maxBraces is how many words the interpreter makes of one. Beyond it says so, leaves
// the command out and goes on as if nothing had been wrong.
const maxBraces = 16 << 10

// braces rewrites the words of a command that expand to too many: a range of numbers
// becomes a command that prints them, anything else ends the script.
func (r *rewriter) braces(words []*syntax.Word) {
	for _, w := range words {
		split := *w // SplitBraces replaces its parts
		if !syntax.SplitBraces(&split) || countBraces(&split) <= maxBraces {
			continue
		}
		text := fmt.Sprintf("${braces?expansion to more than %d words}", maxBraces)
		parts := slices.DeleteFunc(split.Parts, func(p syntax.WordPart) bool {
			l, ok := p.(*syntax.Lit)
			return ok && l.Value == ""
		})
		if len(parts) == 1 {
			if b, ok := parts[0].(*syntax.BraceExp); ok && b.Sequence {
				if from, to, by, plain, _ := numbers(b); plain {
					text = fmt.Sprintf("$(seq %d %d %d)", from, by, to)
				}
			}
		}
		r.replace(w, text)
	}
}

// countBraces returns the number of words that a word expands to, at most a number that
// is too large.
func countBraces(w *syntax.Word) int {
	n := 1
	for _, p := range w.Parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			continue
		}
		ways := 0
		if b.Sequence {
			ways = 1 << 8 // of letters there are fewer
			if from, to, by, _, ok := numbers(b); ok {
				ways = int(min(max(from-to, to-from)/max(by, -by), maxBraces)) + 1
			}
		} else {
			for _, e := range b.Elems {
				ways = min(ways+countBraces(e), maxBraces+1)
			}
		}
		if n *= ways; n > maxBraces {
			return maxBraces + 1
		}
	}
	return n
}

// numbers are the bounds and the step of a range of numbers, which are plain if nothing
// but their values matters.
func numbers(b *syntax.BraceExp) (from, to, by int64, plain, ok bool) {
	by, plain = 1, true
	for i, at := range []*int64{&from, &to, &by} {
		if i == len(b.Elems) {
			break
		}
		text := b.Elems[i].Lit()
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return 0, 0, 0, false, false
		}
		plain = plain && strconv.FormatInt(n, 10) == text
		*at = n
	}
	if by = max(by, -by, 1); from > to {
		by = -by
	}
	return from, to, by, plain, true
}
