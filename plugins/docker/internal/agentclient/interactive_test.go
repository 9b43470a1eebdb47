package agentclient_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/sdk/backend"
)

// until reads from r until all of it contains a word.
func until(t *testing.T, r io.Reader, word string) string {
	t.Helper()
	var all strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(all.String(), word) {
		n, err := r.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v after %q, want %q", err, all.String(), word)
		}
	}
	return all.String()
}

func TestTerminal(t *testing.T) {
	b, c := sandbox(t, options{})
	ctx := t.Context()
	term, err := c.OpenTerminal(ctx, backend.TerminalSpec{Ref: ref(), Argv: []string{"sh"}, Cols: 100, Rows: 30, Env: map[string]string{"PS1": "$ "}})
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(term, text); err != nil {
			t.Fatal(err)
		}
	}
	say("stty size; tty; echo TERM is $TERM; pwd\n")
	if got := until(t, term, "/mnt/data\r\n"); !strings.Contains(got, "30 100\r\n") || !strings.Contains(got, "/dev/pts/") || !strings.Contains(got, "TERM is xterm-256color") {
		t.Errorf("the terminal shows %q", got)
	}
	if err := term.Resize(ctx, 120, 40); err != nil {
		t.Error(err)
	}
	say("stty size\n")
	until(t, term, "40 120\r\n")
	say("sh -c 'echo begun $((40+2)); exec sleep 1000'\n")
	until(t, term, "begun 42") // the shell has handed the terminal over
	say("\x03echo interrupted $((1+1))\n")
	until(t, term, "interrupted 2")
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	// It lives on, and shows what it showed.
	again, err := b.open(t).OpenTerminal(ctx, backend.TerminalSpec{Ref: ref(), PID: term.PID()})
	if err != nil {
		t.Fatal(err)
	}
	until(t, again, "interrupted 2")
	if _, ok := again.Exit(); ok {
		t.Error("it has ended")
	}
	if n, err := c.Busy(ctx); n != 1 || err != nil {
		t.Errorf("busy %d, %v", n, err)
	}
	if _, err := io.WriteString(again, "umask 077; echo x > made; setsid sleep 1000 & exit 5\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(again); err != nil {
		t.Error(err)
	}
	if code, ok := again.Exit(); code != 5 || !ok {
		t.Errorf("exit %d, %v", code, ok)
	}
	eventually(func() bool { n, err := c.Busy(ctx); return n == 0 && err == nil })
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	if _, h := run(t, c, script("cat made")); h.stdout.String() != "x\n" {
		t.Errorf("stdout %q, stderr %q", h.stdout.String(), h.stderr.String())
	}
	if _, err := c.OpenTerminal(ctx, backend.TerminalSpec{Ref: ref(), PID: term.PID()}); backend.KindOf(err) != backend.KindNotFound {
		t.Errorf("attaching to a terminal that ended: %v", err)
	}
	if _, err := c.OpenTerminal(ctx, backend.TerminalSpec{Ref: ref(), Argv: []string{"no-such-command"}}); backend.KindOf(err) != backend.KindInvalidRequest {
		t.Errorf("a terminal with no command: %v", err)
	}
}

func TestDialPort(t *testing.T) {
	_, c := sandbox(t, options{})
	ctx := t.Context()
	if _, err := c.DialPort(ctx, 4711); backend.KindOf(err) != backend.KindUnavailable {
		t.Errorf("a port where nobody listens: %v", err)
	}
	spec := script(`exec python3 -c "
import socket
s = socket.create_server(('127.0.0.1', 4711)); print('listening', flush=True)
while True:
    c, _ = s.accept()
    while data := c.recv(65536): c.sendall(data.upper())
    c.close()"`)
	if err := c.StartRun(ctx, backend.DetachedStart{RunSpec: spec}, &heard{}); err != nil {
		t.Fatal(err)
	}
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	_, _ = c.AttachRun(listening, spec.RunID, &heard{onOut: func(string) error { cancel(); return nil }})
	conn, err := c.DialPort(ctx, 4711)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("hello ", 50_000)
	go func() { _, _ = io.WriteString(conn, text) }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != strings.ToUpper(text) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := conn.Read(got); err == nil {
		t.Error("there is more")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if conn, err = c.DialPort(ctx, 4711); err != nil { // the server goes on to the next
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "the end"); err != nil {
		t.Error(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(conn); err != nil || string(b) != "THE END" { // it reads to the end before it closes
		t.Errorf("%q came back, %v", b, err)
	}
	_ = conn.Close()
	if conn, err = c.DialPort(ctx, 4711); err != nil {
		t.Fatal(err)
	}
	if err := c.KillRun(ctx, spec.RunID); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(got); err == nil {
		t.Error("a dead server says something")
	}
	_ = conn.Close()
}

func TestWatch(t *testing.T) {
	_, c := sandbox(t, options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.MakeDir(ctx, data("sub")); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	seen := make(map[string]bool)
	watching := make(chan error, 1)
	go func() {
		watching <- c.Watch(ctx, backend.DataDir, true, func(e backend.WatchEvent) error {
			seen[e.Op+" "+strings.TrimPrefix(e.Path, data(""))] = true
			// The first script may have been watched from its middle on only.
			if e.Path == data("last") && seen["create sub/new"] {
				return enough
			}
			return nil
		})
	}()
	for range 200 { // nobody says when watching begins
		run(t, c, script("mkdir -p sub/new; sleep 0.05; echo x > sub/new/f; chmod 600 sub/new/f; rm sub/new/f; rmdir sub/new; ln -s / loop; rm loop; echo > last"))
		if len(watching) > 0 {
			break
		}
	}
	if err := <-watching; !errors.Is(err, enough) {
		t.Fatalf("Watch: %v", err)
	}
	for _, want := range []string{"create sub/new", "create sub/new/f", "write sub/new/f", "chmod sub/new/f", "remove sub/new/f", "remove sub/new"} {
		if !seen[want] {
			t.Errorf("%q was not seen: %v", want, seen)
		}
	}
	if err := c.Watch(ctx, data("absent"), true, nil); backend.KindOf(err) != backend.KindNotFound {
		t.Errorf("watching what is not there: %v", err)
	}
	if err := c.Watch(ctx, "/.caisson/private", true, nil); err == nil {
		t.Error("the agent's own directory can be watched")
	}
}

// TestSocket: a second socket is for one user only.
func TestSocket(t *testing.T) {
	b, c := sandbox(t, options{})
	b.exec(t, "0:0", "mkdir", "-m", "0700", "/sock")
	if out, code := b.exec(t, "0:0", agentclient.ListenCommand(b.build, "/sock/a.sock", 0)...); code != 0 {
		t.Fatalf("listen: %s", out)
	}
	if out, code := b.exec(t, "0:0", "python3", "-c", `
import socket
s = socket.socket(socket.AF_UNIX); s.connect('/sock/a.sock'); print(s.recv(8)[1:])`); code != 0 || !strings.Contains(out, "isson") {
		t.Errorf("user 0 is not let in: %s", out)
	}
	if out, code := b.exec(t, "0:0", agentclient.ListenCommand(b.build, "/sock/b.sock", 1234)...); code != 0 {
		t.Fatalf("listen: %s", out)
	}
	if out, _ := b.exec(t, "0:0", "python3", "-c", `
import socket
s = socket.socket(socket.AF_UNIX); s.connect('/sock/b.sock'); print(s.recv(8))`); strings.Contains(out, "isson") {
		t.Errorf("user 0 is let in at the socket of another: %s", out)
	}
	for path, uid := range map[string]int{"/tmp/open.sock": 0, "/sock/program.sock": 20000, "relative": 0} {
		if out, code := b.exec(t, "0:0", agentclient.ListenCommand(b.build, path, uid)...); code == 0 {
			t.Errorf("listening at %s for user %d: %s", path, uid, out)
		}
	}
	goesOn(t, c)
}

// TestOpenFails: what answers is not believed, and nothing stays behind.
func TestOpenFails(t *testing.T) {
	b := newBox(t, options{})
	for name, dial := range map[string]agentclient.Dialer{
		"no such program": func(ctx context.Context) (io.ReadWriteCloser, error) {
			return b.hijack(ctx, []string{"/no/such/agent", "relay"})
		},
		"another program": func(ctx context.Context) (io.ReadWriteCloser, error) {
			return b.hijack(ctx, []string{"sh", "-c", "echo this is no agent at all, whatever you think"})
		},
		"nobody": func(context.Context) (io.ReadWriteCloser, error) { return nil, errors.New("no engine") },
	} {
		if c, err := agentclient.Open(t.Context(), dial, agentclient.Options{}); err == nil {
			_ = c.Close()
			t.Errorf("%s: Open succeeded", name)
		} else if k := backend.KindOf(err); k != backend.KindUnavailable && k != backend.KindUnsupported || backend.ProvesGone(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	silent := func(ctx context.Context) (io.ReadWriteCloser, error) {
		return b.hijack(ctx, []string{"sleep", "1000"})
	}
	if _, err := agentclient.Open(ctx, silent, agentclient.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who does not answer: %v", err)
	}
}
