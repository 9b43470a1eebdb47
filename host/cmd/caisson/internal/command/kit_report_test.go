package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
)

// The output of go test -test.v=test2json, with what makes it hard to read: output with
// no line end, text that looks like a frame, and an end that does not come.
func TestReadKit(t *testing.T) {
	out := strings.ReplaceAll(`^=== RUN   conformance
^=== RUN   conformance/kit
^=== RUN   conformance/kit/backend
^=== RUN   conformance/kit/backend/files
^=== RUN   conformance/kit/backend/files/write
    files.go:12: on the way
--- FAIL: conformance/kit/backend/files/write (1.00s)
^--- PASS: conformance/kit/backend/files/write (0.25s)
^=== RUN   conformance/kit/backend/files/links
no line end^=== NAME  conformance/kit/backend/files/links
    files.go:20: it is \x1b[31m
        and more
    files.go:21: second
^--- FAIL: conformance/kit/backend/files/links (0.01s)
^=== RUN   conformance/kit/backend/files/odd
    lacks.go:7: it cannot
^--- SKIP: conformance/kit/backend/files/odd (0.00s)
^--- FAIL: conformance/kit/backend/files (0.26s)
^=== NAME  conformance/kit/backend
    backendtest.go:1: Skip names "x"
^--- FAIL: conformance/kit/backend (0.30s)
^--- FAIL: conformance/kit (0.30s)
^=== NAME  conformance
panic: the end`, "^", kitMark)
	var got []host.VerifyCheck
	rest, err := readKit(strings.NewReader(out), func(c host.VerifyCheck) { got = append(got, c) })
	if err != nil || rest != "panic: the end" {
		t.Errorf("rest %q, %v", rest, err)
	}
	want := []host.VerifyCheck{
		{Name: "files/write", OK: true, Took: 250 * time.Millisecond},
		{Name: "files/links", Detail: "no line end\nit is \\x1b[31m\nand more\nsecond", Took: 10 * time.Millisecond},
		{Name: "files/odd", OK: true, Skipped: true, Detail: "it cannot"},
		{Name: "backend", Detail: `Skip names "x"`, Took: 300 * time.Millisecond},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	var b bytes.Buffer
	for _, c := range append(got, host.VerifyCheck{Name: "a/b", Detail: "x\x1b\n\x07forged"}) {
		printCheck(&b, c)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07") || !strings.Contains(b.String(), "files/odd                           SKIP    it cannot (0s)\n") {
		t.Errorf("%s", b.String())
	}
}

// Nobody keeps whatever a test says.
func TestReadKitIsBounded(t *testing.T) {
	out := kitMark + "=== RUN   " + kitRoot + "a/b\n" + strings.Repeat("much\n", 1<<18) + kitMark + "--- FAIL: " + kitRoot + "a/b (0.00s)\n"
	n := 0
	if _, err := readKit(strings.NewReader(out), func(c host.VerifyCheck) { n = len(c.Detail) }); err != nil || n == 0 || n > maxKitSaid {
		t.Errorf("%d bytes, %v", n, err)
	}
}
