package envdfake_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
)

// program is a followed process.
type program struct {
	d      *daemon
	pid    uint32
	stream interface {
		Receive() bool
		Err() error
		Close() error
	}
	event func() *processpb.ProcessEvent
}

func pid(n uint32) *processpb.ProcessSelector {
	return &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: n}}
}

func tag(s string) *processpb.ProcessSelector {
	return &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Tag{Tag: s}}
}

// start starts a program; its first event has to be its start.
func (d *daemon) start(ctx context.Context, msg *processpb.StartRequest, headers ...string) (*program, error) {
	d.t.Helper()
	req := connect.NewRequest(msg)
	for i := 0; i < len(headers); i += 2 {
		req.Header().Set(headers[i], headers[i+1])
	}
	s, err := d.process.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	d.t.Cleanup(func() { _ = s.Close() })
	p := &program{d: d, stream: s, event: func() *processpb.ProcessEvent { return s.Msg().GetEvent() }}
	return p, p.begin()
}

func (d *daemon) follow(n uint32) (*program, error) {
	d.t.Helper()
	s, err := d.process.Connect(d.t.Context(), connect.NewRequest(&processpb.ConnectRequest{Process: pid(n)}))
	if err != nil {
		return nil, err
	}
	d.t.Cleanup(func() { _ = s.Close() })
	p := &program{d: d, stream: s, event: func() *processpb.ProcessEvent { return s.Msg().GetEvent() }}
	return p, p.begin()
}

func (p *program) begin() error {
	if !p.stream.Receive() {
		return p.stream.Err()
	}
	if p.pid = p.event().GetStart().GetPid(); p.pid == 0 {
		return fmt.Errorf("the first event is %v", p.event())
	}
	return nil
}

// wait follows a program to its end.
func (p *program) wait() (stdout, stderr string, end *processpb.ProcessEvent_EndEvent, err error) {
	for p.stream.Receive() {
		e := p.event()
		stdout += string(e.GetData().GetStdout()) + string(e.GetData().GetPty())
		stderr += string(e.GetData().GetStderr())
		if e.GetEnd() != nil {
			end = e.GetEnd()
		}
	}
	return stdout, stderr, end, p.stream.Err()
}

func command(cmd string, args ...string) *processpb.StartRequest {
	none, cwd := false, "/"
	return &processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: cmd, Args: args, Cwd: &cwd}, Stdin: &none}
}

func shell(text string) *processpb.StartRequest { return command("/bin/sh", "-c", text) }

// TestEnds is how programs end.
func TestEnds(t *testing.T) {
	d := newDaemon(t, envdfake.Options{Env: map[string]string{"GIVEN": "g"}})
	for _, row := range []struct {
		msg            *processpb.StartRequest
		code           int32
		exited         bool
		status         string
		stdout, stderr string
	}{
		{shell("echo out; echo err >&2"), 0, true, "exit status 0", "out\n", "err\n"},
		{shell("exit 7"), 7, true, "exit status 7", "", ""},
		{shell("kill -9 $$"), -1, false, "signal: killed", "", ""},
		{command("no-such-command"), 127, true, "exit status 127", "", "no-such-command"},
		{command("/etc/passwd"), 126, true, "exit status 126", "", "nice"},
		{command("cat"), 0, true, "exit status 0", "", ""}, // without input, it is at its end at once
		{shell(`echo "$GIVEN|$HOME|$USER"`), 0, true, "exit status 0", "g|/root|root\n", ""},
		{shell("cat /proc/$$/oom_score_adj"), 0, true, "exit status 0", "100\n", ""},
	} {
		p, err := d.start(t.Context(), row.msg)
		if err != nil {
			t.Errorf("%v: %v", row.msg, err)
			continue
		}
		stdout, stderr, end, err := p.wait()
		if err != nil || end.GetExitCode() != row.code || end.GetExited() != row.exited || end.GetStatus() != row.status ||
			(end.Error != nil) != (row.code != 0) || stdout != row.stdout || !strings.Contains(stderr, row.stderr) {
			t.Errorf("%v: %q, %q, %v, %v", row.msg.GetProcess().GetArgs(), stdout, stderr, end, err)
		}
	}
}

// TestRefusedStarts end with an error in the stream, which is HTTP 200.
func TestRefusedStarts(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	if status, text := d.post("/mnt/file", "x"); status != 200 {
		t.Fatal(status, text)
	}
	missing, isFile := "/mnt/absent", "/mnt/file"
	inMissing, inFile := shell("true"), shell("true")
	inMissing.Process.Cwd, inFile.Process.Cwd = &missing, &isFile
	for _, row := range []struct {
		msg   *processpb.StartRequest
		holds string
	}{
		{inMissing, "cwd '/mnt/absent' does not exist"},
		{inFile, "true"},
		{command("true", strings.Repeat("x", 200_000)), strings.Repeat("x", 200_000)}, // all of it comes back
	} {
		_, err := d.start(t.Context(), row.msg)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), row.holds) {
			t.Errorf("%.100v", err)
		}
	}
}

// TestDeadlines: a deadline kills the program, and leaves its descendants and their
// hold of the output; leaving kills nothing.
func TestDeadlines(t *testing.T) {
	var d *daemon
	for ms := 500; ; ms *= 2 { // a busy machine may need longer to begin
		d = newDaemon(t, envdfake.Options{})
		p, err := d.start(t.Context(), shell("sleep 600 & echo begun; wait"), "Connect-Timeout-Ms", strconv.Itoa(ms))
		if err != nil {
			t.Fatal(err)
		}
		stdout, _, end, err := p.wait()
		if connect.CodeOf(err) != connect.CodeDeadlineExceeded || end != nil {
			t.Fatalf("%q, %v, %v", stdout, end, err)
		}
		if stdout == "begun\n" {
			break
		}
		if ms > 30_000 {
			t.Fatalf("stdout %q", stdout)
		}
	}
	awaitTrue(t, "the grandchild alone", func() bool { return len(d.Processes()) == 1 })

	ctx, cancel := context.WithCancel(t.Context())
	p, err := d.start(ctx, shell("while :; do echo x; sleep 0.05; done"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_, _, _, _ = p.wait()
	again, err := d.follow(p.pid)
	if err != nil || !again.stream.Receive() || string(again.event().GetData().GetStdout()) != "x\n" {
		t.Errorf("a program that was left: %v", err)
	}
	_ = again.stream.Close()

	began := time.Now()
	p, err = d.start(t.Context(), shell("sleep 1 & echo done"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := p.wait(); err != nil || time.Since(began) < time.Second {
		t.Errorf("the end came after %v, before everybody closed the output: %v", time.Since(began), err)
	}
}

func awaitTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// TestCalls is the table of the calls about processes.
func TestCalls(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	ctx := t.Context()
	open := shell("cat")
	open.Stdin = nil // a pipe that stays open
	piped, err1 := d.start(ctx, open)
	plain, err2 := d.start(ctx, shell("sleep 600"))
	terminal := command("/bin/sh")
	terminal.Stdin, terminal.Pty = nil, &processpb.PTY{Size: &processpb.PTY_Size{Cols: 80, Rows: 24}}
	pty, err3 := d.start(ctx, terminal)
	ended, err4 := d.start(ctx, shell("exit 4"))
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		t.Fatal(err1, err2, err3, err4)
	}
	if _, _, end, err := ended.wait(); err != nil || end.GetExitCode() != 4 {
		t.Fatal(end, err)
	}
	input := func(sel *processpb.ProcessSelector, in *processpb.ProcessInput) error {
		_, err := d.process.SendInput(ctx, connect.NewRequest(&processpb.SendInputRequest{Process: sel, Input: in}))
		return err
	}
	stdin := &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte("x")}}
	typed := &processpb.ProcessInput{Input: &processpb.ProcessInput_Pty{Pty: []byte("x")}}
	closing := func(n uint32) error {
		_, err := d.process.CloseStdin(ctx, connect.NewRequest(&processpb.CloseStdinRequest{Process: pid(n)}))
		return err
	}
	resize := func(n uint32, p *processpb.PTY) error {
		_, err := d.process.Update(ctx, connect.NewRequest(&processpb.UpdateRequest{Process: pid(n), Pty: p}))
		return err
	}
	signal := func(n uint32, s processpb.Signal) error {
		_, err := d.process.SendSignal(ctx, connect.NewRequest(&processpb.SendSignalRequest{Process: pid(n), Signal: s}))
		return err
	}
	size := &processpb.PTY{Size: &processpb.PTY_Size{Cols: 100, Rows: 50}}
	for _, row := range []struct {
		name string
		err  error
		want connect.Code
	}{
		{"input", input(pid(piped.pid), stdin), 0},
		{"typing to a pipe", input(pid(piped.pid), typed), connect.CodeInternal},
		{"a pipe's input to a terminal", input(pid(pty.pid), stdin), connect.CodeInternal},
		{"typing", input(pid(pty.pid), typed), 0},
		{"input where none is", input(pid(plain.pid), stdin), connect.CodeInternal},
		{"no input", input(pid(piped.pid), &processpb.ProcessInput{}), connect.CodeUnimplemented},
		{"input after the end", input(pid(ended.pid), stdin), connect.CodeNotFound},
		{"nobody chosen", input(nil, stdin), connect.CodeUnimplemented},
		{"close a terminal's", closing(pty.pid), connect.CodeUnknown},
		{"close what is closed", closing(plain.pid), 0},
		{"resize a pipe", resize(piped.pid, size), connect.CodeInternal},
		{"resize", resize(pty.pid, size), 0},
		{"resize to nothing", resize(pty.pid, nil), 0},
		{"another signal", signal(plain.pid, processpb.Signal(2)), connect.CodeUnimplemented},
		{"signal after the end", signal(ended.pid, processpb.Signal_SIGNAL_SIGKILL), connect.CodeNotFound},
		{"signal", signal(plain.pid, processpb.Signal_SIGNAL_SIGTERM), 0},
		{"close", closing(piped.pid), 0},
		{"close twice", errOr(closing(piped.pid)), 0},
	} {
		if row.want == 0 && row.err != nil || row.want != 0 && connect.CodeOf(row.err) != row.want {
			t.Errorf("%s: %v, want %v", row.name, row.err, row.want)
		}
	}
	if stdout, _, end, err := piped.wait(); err != nil || stdout != "x" || end.GetExitCode() != 0 {
		t.Errorf("%q, %v, %v", stdout, end, err)
	}
	for range 2 { // an end is remembered
		again, err := d.follow(ended.pid)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, end, err := again.wait(); err != nil || end.GetExitCode() != 4 {
			t.Errorf("%v, %v", end, err)
		}
	}
	if _, err := d.follow(1); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "process with pid 1 not found") {
		t.Errorf("following nobody: %v", err)
	}
	list, err := d.process.List(ctx, connect.NewRequest(&processpb.ListRequest{}))
	var pids []uint32
	for _, p := range list.Msg.GetProcesses() {
		pids = append(pids, p.GetPid())
	}
	if err != nil || !slices.Contains(pids, pty.pid) || slices.Contains(pids, ended.pid) {
		t.Errorf("listed %v, %v", pids, err)
	}
}

// errOr lets a process that has ended meanwhile count as closed.
func errOr(err error) error {
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil
	}
	return err
}

// TestAfterSignal: output after a signal is lost, the exit code is not.
func TestAfterSignal(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	p, err := d.start(t.Context(), shell("trap 'echo late; exit 3' TERM; echo begun; while :; do sleep 0.05; done"))
	if err != nil || !p.stream.Receive() {
		t.Fatal(err)
	}
	if _, err := d.process.SendSignal(t.Context(), connect.NewRequest(&processpb.SendSignalRequest{Process: pid(p.pid), Signal: processpb.Signal_SIGNAL_SIGTERM})); err != nil {
		t.Fatal(err)
	}
	if stdout, _, end, err := p.wait(); err != nil || stdout != "" || end.GetExitCode() != 3 {
		t.Errorf("%q, %v, %v", stdout, end, err)
	}
}

// TestTags: of several tagged programs, only one is found.
func TestTags(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	found := 0
	for _, name := range []string{"t1", "t2", "t3"} {
		msg := shell("sleep 600")
		msg.Tag = &name
		if _, err := d.start(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"t1", "t2", "t3"} {
		_, err := d.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: tag(name)}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d of 3 are found by their tags, want 1", found)
	}
}

// TestVersions: what came later is not there before.
func TestVersions(t *testing.T) {
	old := newDaemon(t, envdfake.Options{Version: "0.2.0"})
	if status, h, _ := old.ask("POST", "/process.Process/CloseStdin", strings.NewReader("{}"), "Content-Type", "application/json", "Connect-Protocol-Version", "1"); status != http.StatusNotFound || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.Errorf("CloseStdin of an old daemon: %d %v", status, h)
	}
	p, err := old.start(t.Context(), shell("echo $HOME; cat"))
	if err != nil {
		t.Fatal(err)
	}
	if !p.stream.Receive() || string(p.event().GetData().GetStdout()) != "/home/user\n" {
		t.Errorf("the default account's home: %v", p.event())
	}
	// It was told that there is no input, and keeps the pipe open all the same.
	if _, err := old.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{
		Process: pid(p.pid), Input: &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte("x")}},
	})); err != nil {
		t.Error(err)
	}
}

// TestKeepAlive: streams say that they are alive, and an interval of 0 is the end of
// the daemon.
func TestKeepAlive(t *testing.T) {
	d := newDaemon(t, envdfake.Options{KeepAlive: 50 * time.Millisecond})
	d.allowed = []string{"brings the daemon down"}
	p, err := d.start(t.Context(), shell("sleep 1"))
	if err != nil || !p.stream.Receive() || p.event().GetKeepalive() == nil {
		t.Errorf("%v, %v", p.event(), err)
	}
	if _, err := d.start(t.Context(), shell("true"), "Keepalive-Ping-Interval", "0"); err == nil {
		t.Error("the daemon went on")
	}
	if len(d.Violations()) == 0 {
		t.Error("nobody noticed")
	}
}
