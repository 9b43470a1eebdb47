package backend

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// A terminal can be resized before anybody has read what it shows.
func TestResizeUnread(t *testing.T) {
	b := &fullBackend{caps: allCapabilities(), term: newPipeTerminal()}
	term, err := serveBackend(t, b).OpenTerminal(t.Context(), TerminalSpec{})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	for _, text := range []string{"one", "two", "three"} { // once one is taken, those before were sent
		if _, err := b.term.w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := term.Resize(ctx, 120, 40); err != nil {
		t.Errorf("Resize: %v", err)
	}
	got := make([]byte, len("onetwothree"))
	if _, err := io.ReadFull(term, got); err != nil || string(got) != "onetwothree" {
		t.Errorf("it shows %q, %v", got, err)
	}
}

// A terminal whose program does not read keeps a resize no longer than its context.
func TestResizeUntaken(t *testing.T) {
	b := &fullBackend{caps: allCapabilities(), term: newPipeTerminal()}
	b.term.Reader = deaf{b.term.closed} // so that what is written is not taken
	term, err := serveBackend(t, b).OpenTerminal(t.Context(), TerminalSpec{})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if _, err := term.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(term, zeros{})
		written <- err
	}()
	for range 3 { // the first may still be sent, the last finds the window used up
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		resized := make(chan error, 1)
		go func() { resized <- term.Resize(ctx, 120, 40) }()
		select {
		case err := <-resized:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Resize: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("Resize outlives its context")
		}
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if err := <-written; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a write that nobody took: %v", err)
	}
}

// deaf reads nothing, to its end.
type deaf struct{ end <-chan struct{} }

func (d deaf) Read([]byte) (int, error) {
	<-d.end
	return 0, io.EOF
}

// What a stream breaks with is what a reader gets, after what came before.
func TestTerminalBreaks(t *testing.T) {
	b := &fullBackend{caps: allCapabilities(), term: newPipeTerminal()}
	term, err := serveBackend(t, b).OpenTerminal(t.Context(), TerminalSpec{})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if _, err := b.term.w.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	_ = b.term.w.CloseWithError(Errorf(KindUnavailable, "Terminal", "the sandbox is gone"))
	got, err := io.ReadAll(term)
	if string(got) != "last words" || KindOf(err) != KindUnavailable {
		t.Errorf("%q, %v", got, err)
	}
}
