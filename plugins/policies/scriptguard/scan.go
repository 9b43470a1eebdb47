package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// unread is the type of a finding about text that was not looked at.
const unread = "not_scanned"

// maxFindings is how many are kept, and maxCalls how many commands are taken out of a
// program.
const (
	maxFindings = 32
	maxCalls    = 200
)

// scan looks at no more than limit bytes of a program, in time that is proportional to
// them.
func scan(language, code string, args []string, limit int) []Finding {
	var out []Finding
	whole := len(code)
	if whole > limit {
		code = code[:limit]
	}
	s := lex(language, code)
	shell := language == "bash"
	out = look(out, s, language, 0)
	if !shell {
		// Commands that a program hands to a shell, and the lists it starts programs by.
		for _, m := range calls.FindAllStringSubmatchIndex(s.text, maxCalls) {
			if !s.inString(m[0]) {
				out = commands(out, s.text[m[2]:m[3]], lineOf(s.text, m[2]))
			}
		}
	} else {
		for _, m := range shells.FindAllStringSubmatchIndex(s.text, maxCalls) {
			if !s.inString(m[0]) {
				out = commands(out, s.text[m[2]:m[3]], lineOf(s.text, m[2]))
			}
		}
	}
	for _, a := range args {
		for _, f := range look(nil, source{a[:min(len(a), limit)], make([]byte, min(len(a), limit)/8+1)}, "", 0) {
			f.Line = 0
			out = append(out, f)
		}
	}
	if whole > limit {
		out = append(out, Finding{
			Type: unread, Pattern: "length", Line: lineOf(code, len(code)), Context: strconv.Itoa(whole-limit) + " bytes",
			Message: "the rest of the program is longer than what is looked at",
		})
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return a.Line - b.Line })
	out = slices.CompactFunc(out, func(a, b Finding) bool { return a.Type == b.Type && a.Line == b.Line })
	return out[:min(len(out), maxFindings)]
}

// calls are functions that start programs, with what they are given on their line.
var calls = regexp.MustCompile(`\b(?:os\.system|os\.popen|os\.exec\w*|subprocess\.\w+|pty\.spawn|execSync|spawnSync|spawn|execFile|exec\.Command|` +
	`Command::new|shell_exec|passthru|proc_open|popen|system|exec[lv]?p?|getRuntime\(\)\.exec|ProcessBuilder)\s*\(([^\n]{0,300})`)

// shells are commands that take another one as text.
var shells = regexp.MustCompile(`(?:\b(?:ba|z|da)?sh\s+-\w*c|\beval|\bxargs|\bsudo|\bnohup|\bwatch)\s+([^\n]{0,300})`)

// separators between the words of a list, which becomes a command line by them.
var separators = strings.NewReplacer(`", "`, " ", `","`, " ", `', '`, " ", `','`, " ", `"`, " ", `'`, " ", "[", " ", `").arg("`, " ")

// commands looks at text that becomes a command line.
func commands(out []Finding, text string, line int) []Finding {
	text = separators.Replace(text)
	return look(out, source{text, make([]byte, len(text)/8+1)}, "bash", line)
}

// look applies the rules of a language; line, if not zero, is where the text stands.
func look(out []Finding, s source, language string, line int) []Finding {
	for i := range rules {
		k := &rules[i]
		if len(k.languages) > 0 && !slices.Contains(k.languages, language) {
			continue
		}
		if !slices.ContainsFunc(k.hints, func(hint string) bool { return strings.Contains(s.text, hint) }) {
			continue
		}
		at := k.find(s)
		if at < 0 {
			continue
		}
		f := Finding{Type: k.kind, Pattern: k.name, Line: line, Context: excerpt(s.text, at), Message: k.message, Certain: k.certain}
		if line == 0 {
			f.Line = lineOf(s.text, at)
		}
		out = append(out, f)
	}
	return out
}

func lineOf(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// maxMatches is how many matches inside of strings are passed over.
const maxMatches = 100

// find returns where the rule first matches, or -1.
func (k *rule) find(s source) int {
	for _, m := range k.pattern.FindAllStringSubmatchIndex(s.text, maxMatches) {
		if !k.anywhere && s.inString(m[0]) {
			continue
		}
		if k.accept != nil && !k.accept(s.text, m) {
			continue
		}
		return m[0]
	}
	return -1
}
