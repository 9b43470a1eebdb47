package envd_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

// screen reads a terminal until its output contains each of some words.
func screen(t *testing.T, term io.Reader, words ...string) string {
	t.Helper()
	var all []byte
	buf := make([]byte, 1000)
	for {
		missing := 0
		for _, w := range words {
			if !strings.Contains(string(all), w) {
				missing++
			}
		}
		if missing == 0 {
			return string(all)
		}
		n, err := term.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			t.Fatalf("read %q, %v; want %q", all, err, words)
		}
	}
}

func (s *stand) open(spec backend.TerminalSpec) backend.Terminal {
	s.t.Helper()
	term, err := s.OpenTerminal(s.t.Context(), spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return term
}

// TestTerminals: size, environment and directory; closing leaves the program alone, and
// whoever comes back sees what it prints from then on.
func TestTerminals(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	var terms []backend.Terminal
	for range 3 { // several at once: tags would find the first only
		terms = append(terms, s.open(backend.TerminalSpec{Ref: ref, Cols: 100, Rows: 30, Env: map[string]string{"TERM": "dumb", "MORE": "x y"}}))
	}
	for _, term := range terms {
		if _, err := io.WriteString(term, `stty size; echo "$TERM|$MORE|$PWD|rea""dy"`+"\n"); err != nil {
			t.Fatal(err)
		}
		screen(t, term, "30 100", "xterm-256color|x y|/mnt/data|ready")
	}
	for _, r := range s.requests("/Start") {
		if r.Header.Get("Connect-Timeout-Ms") != "" {
			t.Error("a terminal has a deadline")
		}
	}
	pid := terms[1].PID()
	if err := terms[1].Close(); err != nil {
		t.Error(err)
	}
	if _, ok := terms[1].Exit(); ok {
		t.Error("detaching ended the program")
	}
	again := s.open(backend.TerminalSpec{Ref: ref, PID: pid, Cols: 70, Rows: 20})
	if _, err := io.WriteString(again, `stty size; echo st""ill`+"\n"); err != nil {
		t.Fatal(err)
	}
	screen(t, again, "20 70", "still")
	for _, size := range [][2]int{{0, 0}, {-5, 1 << 20}, {70000, 70000}} { // clamped: the fake would notice
		if err := again.Resize(t.Context(), size[0], size[1]); err != nil {
			t.Errorf("Resize to %v: %v", size, err)
		}
	}
	if _, err := io.WriteString(again, "exit 5\n"); err != nil && !errors.Is(err, io.ErrClosedPipe) { // it may end first
		t.Fatal(err)
	}
	if _, err := io.ReadAll(again); err != nil {
		t.Errorf("at its end: %v", err)
	}
	if code, ok := again.Exit(); code != 5 || !ok {
		t.Errorf("exit %d, %v", code, ok)
	}
	for range 2 {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, pid := range map[string]int{"one that ended": pid, "none": 1 << 22, "no number": -1, "another process": s.other(ref)} {
		_, err := s.OpenTerminal(t.Context(), backend.TerminalSpec{Ref: ref, PID: pid})
		wantKind(t, name, err, backend.KindNotFound)
	}
	terms[0].Close()
	terms[2].Close()
}

// other starts a program that is no terminal.
func (s *stand) other(ref backend.Ref) int {
	s.t.Helper()
	r := newRaw(s, ref)
	return r.start(s.t, "sleep", "600")
}

// TestTerminalOverPause: a terminal's connection breaks when its sandbox is paused, and
// the program is there afterwards.
func TestTerminalOverPause(t *testing.T) {
	s := newStand(t, options{change: func(o *envd.Options) { o.Silence = 3 * time.Second }, machine: envdfake.Options{KeepAlive: time.Hour}})
	ref := s.sandbox()
	term := s.open(backend.TerminalSpec{Ref: ref})
	screen(t, term, "/mnt/data")
	if err := s.Pause(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadAll(term) // nothing comes any more
	wantKind(t, "a terminal that fell silent", err, backend.KindUnavailable)
	if _, ok := term.Exit(); ok {
		t.Error("it claims an end")
	}
	_ = term.Close()
	_, err = s.OpenTerminal(t.Context(), backend.TerminalSpec{Ref: ref, PID: term.PID()})
	wantKind(t, "while it is paused", err, backend.KindConflict)
	if _, err := s.Connect(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	again := s.open(backend.TerminalSpec{Ref: ref, PID: term.PID()})
	defer again.Close()
	if _, err := io.WriteString(again, `echo st""ill`+"\n"); err != nil {
		t.Fatal(err)
	}
	screen(t, again, "still")
}

// TestTerminalSlowReader: a reader that waits loses nothing, and Close does not wait.
func TestTerminalSlowReader(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	const n = 1 << 20
	term := s.open(backend.TerminalSpec{Ref: ref, Argv: []string{"/bin/sh", "-c", "stty raw; head -c 1048576 /dev/zero | tr '\\000' x"}})
	time.Sleep(300 * time.Millisecond) // it fills up meanwhile
	all, err := io.ReadAll(term)
	if err != nil || len(all) != n {
		t.Errorf("%d of %d bytes, %v", len(all), n, err)
	}
	_ = term.Close()
	term = s.open(backend.TerminalSpec{Ref: ref, Argv: []string{"yes"}})
	time.Sleep(200 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- term.Close() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("Close waits for whoever does not read")
	}
	_, err = s.OpenTerminal(t.Context(), backend.TerminalSpec{Ref: ref, User: "nobody"})
	wantKind(t, "another account", err, backend.KindUnsupported)
}
