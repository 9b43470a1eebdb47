package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func allCapabilities() []Capability {
	return []Capability{
		CapTokenOnce, CapTTLRefresh, CapPause, CapSnapshots, CapTemplates, CapVolumes, CapTerminals, CapDialPort, CapDetached, CapWatch,
	}
}

func TestOptionalPartsCross(t *testing.T) {
	b := &fullBackend{caps: allCapabilities()}
	c := serveBackend(t, b)
	ctx, ref, labels := t.Context(), Ref{Config: "c", ID: "s"}, map[string]string{"a": "b"}
	check := func(err error, want string) {
		t.Helper()
		b.mu.Lock()
		defer b.mu.Unlock()
		if err != nil || len(b.asked) != 1 || b.asked[0] != want {
			t.Errorf("the backend was asked %q, want %q: %v", b.asked, want, err)
		}
		b.asked = nil
	}
	sb, err := c.ConnectToken(ctx, ref, "secret")
	check(err, "ConnectToken {c s} secret")
	same(t, Sandbox{Ref: ref, State: StateRunning, Token: "secret"}, sb)
	_, err = c.ConnectToken(ctx, ref, "")
	check(err, "Connect {c s}")
	at, err := c.KeepAlive(ctx, ref, time.Hour+1)
	check(err, "KeepAlive {c s} 1h0m0.000000001s")
	same(t, time.Unix(1_700_000_000, 5).UTC(), at)
	check(c.Pause(ctx, ref), "Pause {c s}")
	snap, err := c.Snapshot(ctx, ref, "n", labels)
	check(err, "Snapshot {c s} n map[a:b]")
	same(t, filled[Snapshot](), snap)
	snaps, err := c.ListSnapshots(ctx, "c", labels)
	check(err, "ListSnapshots c map[a:b]")
	same(t, many(filled[Snapshot]()), snaps)
	check(c.DeleteSnapshot(ctx, "c", "i"), "DeleteSnapshot c i")
	tmpl, err := c.EnsureTemplate(ctx, "c")
	check(err, "EnsureTemplate c")
	same(t, Template{ID: "t", Name: "n", Status: TemplateUntagged, Error: "e"}, tmpl)
	tmpl, err = c.ReplaceTemplate(ctx, "c")
	check(err, "ReplaceTemplate c")
	same(t, Template{ID: "t2", Status: TemplateBuilding}, tmpl)
	tmpls, err := c.ListTemplates(ctx, "c")
	check(err, "ListTemplates c")
	if len(tmpls) != 5000 || tmpls[4999].Status != TemplateFailed {
		t.Errorf("%d templates", len(tmpls))
	}
	check(c.DeleteSuperseded(ctx, "c", []string{"x", "y"}), "DeleteSuperseded c [x y]")
	vol, err := c.EnsureVolume(ctx, "c", "v")
	check(err, "EnsureVolume c v")
	same(t, Volume{Name: "v", Created: time.Unix(7, 0).UTC()}, vol)
	vols, err := c.ListVolumes(ctx, "c")
	check(err, "ListVolumes c")
	if len(vols) != 5000 {
		t.Errorf("%d volumes", len(vols))
	}
	check(c.DeleteVolume(ctx, "c", "v"), "DeleteVolume c v")
	check(c.KillRun(ctx, ref, "r"), "KillRun {c s} r")

	spec := testSpec()
	spec.Inputs = append(spec.Inputs, Input{Path: "/mnt/data/in", Chunked: true})
	l := &listener{inputs: map[int]io.Reader{1: strings.NewReader("content")}}
	check(c.StartRun(ctx, DetachedStart{RunSpec: spec, TTL: time.Minute}, l), "StartRun r 1m0s content")
	if l.starts != 1 {
		t.Errorf("StartRun started %d times", l.starts)
	}
	l = &listener{stdin: strings.NewReader("")}
	res, err := c.AttachRun(ctx, ref, "r", l)
	check(err, "AttachRun {c s} r")
	if l.stdout.String() != "kept" || res.Stop != StopTimeout || res.Step != 3 {
		t.Errorf("attached to %q, %+v", l.stdout.String(), res)
	}
	// Leaving an attached run is no result.
	ctx2, cancel := context.WithCancel(ctx)
	l = &listener{stdin: strings.NewReader(""), output: func() error { cancel(); return nil }}
	_, err = c.AttachRun(ctx2, ref, "endless", l)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("leaving an attached run: %v", err)
	}
	check(nil, "AttachRun {c s} endless")

	events, enough := 0, errors.New("enough")
	err = c.Watch(ctx, ref, "/mnt/data", true, func(e WatchEvent) error {
		if e.Path != fmt.Sprintf("/mnt/data/%d", events) || e.Op != "write" {
			t.Errorf("event %+v", e)
		}
		if events++; events == 10 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("Watch: %v", err)
	}
	check(nil, "Watch {c s} /mnt/data true")
}

// A part that is implemented but not declared is not offered.
func TestUndeclaredPartsAreUnsupported(t *testing.T) {
	c := serveBackend(t, &fullBackend{})
	ctx, ref := t.Context(), Ref{Config: "c", ID: "s"}
	_, err1 := c.KeepAlive(ctx, ref, 1)
	_, err2 := c.ListVolumes(ctx, "c")
	_, err3 := c.OpenTerminal(ctx, TerminalSpec{Ref: ref})
	_, err4 := c.DialPort(ctx, ref, 80)
	_, err5 := c.AttachRun(ctx, ref, "r", &listener{})
	_, err6 := c.ConnectToken(ctx, ref, "secret")
	for i, err := range []error{
		err1, err2, err3, err4, err5, err6, c.Pause(ctx, ref),
		c.StartRun(ctx, DetachedStart{RunSpec: testSpec()}, &listener{}), c.Watch(ctx, ref, "/", false, nil),
	} {
		if KindOf(err) != KindUnsupported {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func TestServerRefusesEmptyPromises(t *testing.T) {
	if _, err := NewServer(t.Context(), &funcBackend{}, nil); err != nil {
		t.Errorf("an honest backend: %v", err)
	}
	if _, err := NewServer(t.Context(), struct{ Backend }{&fullBackend{caps: []Capability{CapWatch}}}, nil); err == nil {
		t.Error("a backend that promises what it lacks is served")
	}
}

func TestTerminal(t *testing.T) {
	b := &fullBackend{caps: allCapabilities(), term: newPipeTerminal()}
	c := serveBackend(t, b)
	if _, err := c.OpenTerminal(t.Context(), TerminalSpec{Cols: 666}); KindOf(err) != KindConflict {
		t.Errorf("a refused terminal: %v", err)
	}
	spec := TerminalSpec{
		Ref: Ref{Config: "c", ID: "s"}, PID: 7, Argv: []string{"sh", ""}, Dir: "/tmp", User: "u", Env: map[string]string{"A": "b"}, Cols: 100, Rows: 30,
	}
	ctx, cancel := context.WithCancel(t.Context())
	term, err := c.OpenTerminal(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // bounds the opening only
	if want := fmt.Sprintf("OpenTerminal %+v", spec); b.asked[1] != want {
		t.Errorf("asked %q, want %q", b.asked[1], want)
	}
	if term.PID() != 42 {
		t.Errorf("pid %d", term.PID())
	}
	go func() { _, _ = term.Write([]byte("echo\n")) }()
	buf := make([]byte, 100)
	if n, err := term.Read(buf); string(buf[:n]) != "echo\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	if err := term.Resize(t.Context(), 120, 40); err != nil || !reflect.DeepEqual(b.term.sizes, []string{"120x40"}) {
		t.Errorf("Resize: %v, %v", b.term.sizes, err)
	}
	if err := term.Resize(t.Context(), 0, 0); KindOf(err) != KindInvalidRequest {
		t.Errorf("a refused size: %v", err)
	}
	if _, ok := term.Exit(); ok {
		t.Error("it has ended already")
	}
	if _, err := term.Write([]byte("exit\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := term.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if code, ok := term.Exit(); code != 3 || !ok {
		t.Errorf("exit %d, %v", code, ok)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	<-b.term.closed
}

// Closing a terminal releases whoever reads it, here and there.
func TestTerminalClose(t *testing.T) {
	b := &fullBackend{caps: allCapabilities(), term: newPipeTerminal()}
	term, err := serveBackend(t, b).OpenTerminal(t.Context(), TerminalSpec{})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		_, err := term.Read(make([]byte, 1))
		read <- err
	}()
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; err == nil {
		t.Error("a closed terminal has something to read")
	}
	<-b.term.closed
	if _, err := term.Write([]byte("x")); err == nil {
		t.Error("a closed terminal can be written")
	}
	if err := term.Resize(t.Context(), 1, 1); err == nil {
		t.Error("a closed terminal can be resized")
	}
}

func TestDialPort(t *testing.T) {
	ours, theirs := net.Pipe()
	b := &fullBackend{caps: allCapabilities(), port: theirs}
	c := serveBackend(t, b)
	for _, port := range []int{0, -1, 65536} {
		if _, err := c.DialPort(t.Context(), Ref{}, port); KindOf(err) != KindInvalidRequest {
			t.Errorf("port %d: %v", port, err)
		}
	}
	if _, err := c.DialPort(t.Context(), Ref{}, 1); KindOf(err) != KindUnavailable {
		t.Errorf("a refused port: %v", err)
	}
	conn, err := c.DialPort(t.Context(), Ref{Config: "c", ID: "s"}, 8080)
	if err != nil {
		t.Fatal(err)
	}
	const size = 2 << 20
	go func() { _, _ = io.CopyN(conn, zeros{}, size) }()
	if n, err := io.CopyN(io.Discard, ours, size); err != nil {
		t.Errorf("%d bytes arrived: %v", n, err)
	}
	go func() { _, _ = ours.Write([]byte("answer")) }()
	buf := make([]byte, 6)
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "answer" {
		t.Errorf("read %q, %v", buf, err)
	}

	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a past deadline: %v", err)
	}
	_ = conn.SetDeadline(time.Time{})
	go func() { _, _ = ours.Write([]byte("later")) }()
	if n, err := io.ReadFull(conn, buf[:5]); err != nil || string(buf[:n]) != "later" {
		t.Errorf("after a deadline was lifted: %q, %v", buf[:n], err)
	}
	_ = ours.Close()
	if _, err := conn.Read(buf); !errors.Is(err, io.EOF) {
		t.Errorf("after the other side closed: %v", err)
	}
	_ = conn.Close()
	if _, err := conn.Write(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write to a closed connection: %v", err)
	}
}

// A write that nobody takes ends with its deadline.
func TestDialPortWriteDeadline(t *testing.T) {
	ours, theirs := net.Pipe() // nobody reads ours
	defer ours.Close()
	conn, err := serveBackend(t, &fullBackend{caps: allCapabilities(), port: theirs}).DialPort(t.Context(), Ref{}, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := io.Copy(conn, zeros{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
