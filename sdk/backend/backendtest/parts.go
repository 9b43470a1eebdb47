package backendtest

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// optionalSnapshot: what a sandbox was is what another starts from.
func (k *kit) optionalSnapshot(t *testing.T) {
	s := optional[backend.Snapshotter](t, k)
	ctx := t.Context()
	_, err := s.Snapshot(ctx, k.ghost(), "x", nil)
	wantGone(t, "Snapshot", err)

	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "then")
	mark := k.session()
	snap, err := s.Snapshot(ctx, ref, "kit", map[string]string{"mark": mark})
	if err != nil || snap.ID == "" {
		t.Fatalf("Snapshot = %+v, %v", snap, err)
	}
	k.write(t, ref, data("f"), "now") // the sandbox goes on

	list := func(labels map[string]string) []string {
		t.Helper()
		found, err := s.ListSnapshots(ctx, k.configID, labels)
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{}
		for _, f := range found {
			ids = append(ids, f.ID)
		}
		return ids
	}
	if ids := list(map[string]string{"mark": mark}); !slices.Equal(ids, []string{snap.ID}) {
		t.Errorf("by its label there are %q, want %q", ids, snap.ID)
	}
	if ids := list(map[string]string{"mark": mark, "other": ""}); len(ids) > 0 {
		t.Errorf("by a label that it lacks there are %q", ids)
	}

	// A snapshot outlives its sandbox, and what is made from it outlives both.
	if err := k.b.Delete(ctx, ref); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	spec := k.createSpec()
	spec.Snapshot = snap.ID
	sb := k.create(t, spec)
	if got := k.read(t, sb.Ref, data("f")); got != "then" {
		t.Errorf("a sandbox from the snapshot holds %q", got)
	}
	if sb.Metadata.Session != spec.Session {
		t.Errorf("it belongs to session %q", sb.Metadata.Session)
	}
	for range 2 {
		if err := s.DeleteSnapshot(ctx, k.configID, snap.ID); err != nil {
			t.Errorf("DeleteSnapshot: %v", err)
		}
	}
	if ids := list(map[string]string{"mark": mark}); len(ids) > 0 {
		t.Errorf("a deleted snapshot is listed")
	}
	if got := k.read(t, sb.Ref, data("f")); got != "then" {
		t.Errorf("without its snapshot, a sandbox holds %q", got)
	}
	spec = k.createSpec()
	spec.Snapshot = snap.ID
	_, err = k.b.Create(ctx, spec)
	wantFileError(t, "Create from a snapshot that is gone", err, backend.KindNotFound)
}

// optionalTerminal: a program with a terminal, its size and its end.
func (k *kit) optionalTerminal(t *testing.T) {
	o := optional[backend.TerminalOpener](t, k)
	if k.Probe.Exec == nil {
		t.Skip("the harness says nothing of command lines")
	}
	open := func(ref backend.Ref, ops ...string) (backend.Terminal, error) {
		return o.OpenTerminal(t.Context(), backend.TerminalSpec{
			Ref: ref, Argv: slices.Concat(k.Probe.Exec, ops), Env: k.Probe.Env, Cols: 100, Rows: 30,
		})
	}
	_, err := open(k.ghost(), "exit", "0")
	wantGone(t, "OpenTerminal", err)

	ref := k.sandbox(t)
	term, err := open(ref, "out", "ready", "exit", "3")
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	k.within(t, "the terminal's end", func() { b, err = io.ReadAll(term) })
	if err != nil || !strings.Contains(string(b), "ready") {
		t.Errorf("read %q, %v", b, err)
	}
	if code, ok := term.Exit(); code != 3 || !ok {
		t.Errorf("exit %d, %v", code, ok)
	}
	if err := term.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}

	term, err = open(ref, "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	k.within(t, "resizing and typing", func() {
		if err := term.Resize(t.Context(), 120, 40); err != nil {
			t.Errorf("Resize: %v", err)
		}
		if _, err := io.WriteString(term, "typed\n"); err != nil {
			t.Errorf("Write: %v", err)
		}
	})
	var all []byte
	k.within(t, "the echo", func() {
		buf := make([]byte, 100)
		for err == nil && !strings.Contains(string(all), "typed") {
			var n int
			n, err = term.Read(buf)
			all = append(all, buf[:n]...)
		}
	})
	if err != nil {
		t.Errorf("read %q, %v", all, err)
	}
	if _, ok := term.Exit(); ok {
		t.Error("it has ended although it waits for input")
	}
	k.within(t, "Close", func() { _ = term.Close() })
}

// optionalDialPort: a port where nobody listens says nothing about the sandbox.
func (k *kit) optionalDialPort(t *testing.T) {
	d := optional[backend.PortDialer](t, k)
	_, err := d.DialPort(t.Context(), k.ghost(), 80)
	wantGone(t, "DialPort", err)
	ref := k.sandbox(t)
	for _, port := range []int{0, -1, 65536} {
		_, err := d.DialPort(t.Context(), ref, port)
		wantFileError(t, "DialPort of a port that is none", err, backend.KindInvalidRequest)
	}
	conn, err := d.DialPort(t.Context(), ref, 1)
	if err != nil {
		wantNoProof(t, "DialPort where nobody listens", err)
		return
	}
	// Some gateways accept and then hang up.
	defer conn.Close()
	k.within(t, "a read where nobody listens", func() {
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("where nobody listens there are %d bytes, %v", n, err)
		}
	})
}
