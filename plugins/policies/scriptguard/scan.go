package main

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// unread is the type of a finding about text that was not looked at.
const unread = "not_scanned"

// maxFindings is how many are kept of those that somebody is told.
const maxFindings = 32

// longProgram is how long a program is, in bytes, for which garbage is collected before
// and not while it is looked at. A module has one thread, on which a collection that has
// begun does not end while patterns are matched, and as long as it lasts they take
// several times as long.
const longProgram = 16 << 10

// scan looks at no more than limit bytes of a program, in time that is proportional to
// them. What it returns is in no order: each rule says where it first matches the
// program, the commands that the program starts, and an argument.
func scan(language, code string, args []string, limit int) []Finding {
	whole := len(code)
	if whole > limit {
		code = code[:limit]
	}
	if len(code) > longProgram {
		runtime.GC()
	}
	s := lex(language, code)
	out := look(nil, s, language, func(at int) int { return lineOf(s.text, at) })
	// Commands that a program hands to a shell, and the lists it starts programs by.
	if language == "bash" {
		out = commands(out, s, shells)
	} else {
		out = commands(out, s, calls)
	}
	for _, a := range args {
		out = look(out, plainText(a[:min(len(a), limit)]), "", func(int) int { return 0 })
	}
	if whole > limit {
		out = append(out, Finding{
			Type: unread, Pattern: "length", Line: lineOf(code, len(code)), Context: strconv.Itoa(whole-limit) + " bytes",
			Message: "the rest of the program is longer than what is looked at",
		})
	}
	return out
}

// pick returns the findings that somebody is to be told of, in the order of the text
// and one of a type for each line. The rest must have gone before it is counted: what
// is harmless, or left out by the operator, takes the room of nothing else.
func pick(all []Finding, told func(Finding) bool) []Finding {
	all = slices.DeleteFunc(all, func(f Finding) bool { return !told(f) })
	slices.SortStableFunc(all, func(a, b Finding) int { return a.Line - b.Line })
	out := all[:0]
	for _, f := range all {
		same := func(g Finding) bool { return g.Type == f.Type && g.Line == f.Line }
		if !slices.ContainsFunc(out, same) {
			out = append(out, f)
		}
		if len(out) == maxFindings {
			break
		}
	}
	return out
}

// separators between the words of a list, which becomes a command line by them.
var separators = strings.NewReplacer(`", "`, " ", `","`, " ", `', '`, " ", `','`, " ", `"`, " ", `'`, " ", "[", " ", `").arg("`, " ")

// commandBreak keeps commands apart that are looked at together: no rule takes the end
// of one and the beginning of the next for a third.
const commandBreak = "\n;\n"

// commands looks at text that becomes command lines. All of it is looked at at once, so
// that there need not be a bound on how many there are.
func commands(out []Finding, s source, h heads) []Finding {
	spans := h.spans(s)
	if len(spans) == 0 {
		return out
	}
	var text strings.Builder
	starts := make([]int, len(spans))
	for i, n := range spans {
		starts[i] = text.Len()
		text.WriteString(separators.Replace(s.text[n.from:n.to]))
		text.WriteString(commandBreak)
	}
	return look(out, plainText(text.String()), "bash", func(at int) int {
		i, found := slices.BinarySearch(starts, at)
		if !found {
			i--
		}
		return lineOf(s.text, spans[i].from)
	})
}

// look applies the rules of a language; line says on which line of the program an
// offset is.
func look(out []Finding, s source, language string, line func(at int) int) []Finding {
	for i := range rules {
		k := &rules[i]
		if len(k.languages) > 0 && !slices.Contains(k.languages, language) {
			continue
		}
		if !k.hinted(s.text) {
			continue
		}
		if at := k.find(s); at >= 0 {
			out = append(out, Finding{
				Type: k.kind, Pattern: k.name, Line: line(at), Context: excerpt(s.text, at), Message: k.message, Certain: k.certain,
			})
		}
	}
	return out
}

func lineOf(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// find returns where the rule first matches, or -1. A match that begins in a string is
// none, and if it goes on behind the string it may have taken the beginning of one that
// is: then the second try is without what is in strings.
func (k *rule) find(s source) int {
	at, took := k.first(s, s.text)
	if took {
		at, _ = k.first(s, s.code)
	}
	return at
}

// first returns where the rule first matches a text, or -1. took says that it does not,
// but that matches which are none took text outside of strings.
func (k *rule) first(s source, text string) (at int, took bool) {
	for _, m := range k.pattern.FindAllStringSubmatchIndex(text, -1) {
		if !k.anywhere && s.inString(m[0]) {
			for i := m[0]; i < m[1] && !took; i++ {
				took = !s.inString(i)
			}
			continue
		}
		if k.accept != nil && !k.accept(s.text, m) {
			continue
		}
		return m[0], false
	}
	return -1, took
}

// hinted says whether the pattern is worth a try.
func (k *rule) hinted(text string) bool {
	return slices.ContainsFunc(k.hints, func(hint string) bool { return strings.Contains(text, hint) })
}
