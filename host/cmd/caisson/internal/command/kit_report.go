package command

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
)

// The kit is a child that runs Go tests with -test.v=test2json. Lines that the testing
// package itself writes begin with a byte that nothing else writes, wherever on a line
// the output before them ended:
//
//	=== RUN   NAME
//	=== NAME  NAME
//	--- PASS: NAME (0.12s)
//
// What comes between them is what the test said that was named last.
const kitMark = "\x16"

// kitRoot is above the tests of the kit, in the names of tests.
const kitRoot = "conformance/kit/backend/"

var (
	kitNamed = regexp.MustCompile(`^=== (?:RUN|NAME|CONT|PAUSE) +(\S+)$`)
	kitEnded = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+s)\)$`)
	kitPlace = regexp.MustCompile(`(?m)^    (?:[\w.-]+\.go:[0-9]+: |    )`) // further lines are further in
)

// maxKitSaid bounds what is kept of what one test says.
const maxKitSaid = 64 << 10

// readKit reads the child's output and tells every check as it ends. What no test said
// is returned.
func readKit(r io.Reader, tell func(host.VerifyCheck)) (rest string, err error) {
	said := make(map[string]*strings.Builder)
	at := ""
	say := func(text string) {
		b := said[at]
		if b == nil {
			b = &strings.Builder{}
			said[at] = b
		}
		b.WriteString(text[:min(len(text), max(0, maxKitSaid-b.Len()))])
	}
	lines := bufio.NewReader(r)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n')
		text, frame, framed := strings.Cut(line, kitMark)
		if framed && text != "" {
			text += "\n"
		}
		say(text)
		if !framed {
			continue
		}
		frame = strings.TrimRight(frame, "\n")
		if m := kitNamed.FindStringSubmatch(frame); m != nil {
			at = m[1]
		} else if m := kitEnded.FindStringSubmatch(frame); m != nil {
			out := ""
			if b := said[m[2]]; b != nil {
				out = b.String()
			}
			delete(said, m[2])
			at, _, _ = cutLast(m[2], "/")
			if c, ok := kitCheck(m[1], m[2], m[3], out); ok {
				tell(c)
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	for _, b := range said {
		rest += b.String()
	}
	return rest, err
}

// kitCheck is a test as a check. What only failed because one below it did is none, and
// neither is what only has others below it.
func kitCheck(end, test, took, out string) (host.VerifyCheck, bool) {
	out = strings.TrimSpace(kitPlace.ReplaceAllString(out, ""))
	name, ofKit := strings.CutPrefix(test, kitRoot)
	if !ofKit {
		_, name, _ = cutLast(test, "/")
	}
	if leaf := ofKit && strings.Contains(name, "/"); !leaf && (end == "PASS" || out == "") {
		return host.VerifyCheck{}, false
	}
	c := host.VerifyCheck{Name: name, OK: end != "FAIL", Skipped: end == "SKIP", Detail: out}
	if c.OK && !c.Skipped {
		c.Detail = "" // what it said on the way
	}
	c.Took, _ = time.ParseDuration(took) // it has the form of one
	return c, true
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// printCheck prints one line for a check, and more where it says more.
func printCheck(w io.Writer, c host.VerifyCheck) {
	word := "ok"
	switch {
	case !c.OK:
		word = "FAILED"
	case c.Skipped:
		word = "SKIP"
	}
	width := 8
	if strings.Contains(c.Name, "/") {
		width = 34
	}
	first, more, _ := strings.Cut(c.Detail, "\n")
	took := fmt.Sprintf("(%v)", c.Took.Round(time.Millisecond))
	fmt.Fprintf(w, "%-*s  %-6s  %s\n", width, safe(c.Name), word, strings.TrimSpace(safe(first)+" "+took))
	if more != "" {
		for line := range strings.SplitSeq(more, "\n") {
			fmt.Fprintf(w, "    %s\n", safe(line))
		}
	}
}
