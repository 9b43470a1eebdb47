package envdfake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/creack/pty"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
)

// processService is the daemon's process.Process.
type processService struct{ m *Machine }

func failf(code connect.Code, format string, args ...any) error {
	return connect.NewError(code, fmt.Errorf(format, args...))
}

// maxArgument is what the system takes as one argument.
const maxArgument = 128 << 10

func (s processService) Start(ctx context.Context, req *connect.Request[processpb.StartRequest], out *connect.ServerStream[processpb.StartResponse]) error {
	m, c := s.m, req.Msg.GetProcess()
	user := m.userOf(req.Header())
	dir := absolute(c.GetCwd(), user)
	if c.GetCwd() == "" {
		dir = home(user)
	}
	real, err := m.real(dir, true)
	if err != nil {
		return failf(connect.CodeInvalidArgument, "%v", err)
	}
	if i, err := os.Stat(real); err != nil {
		return failf(connect.CodeInvalidArgument, "cwd '%s' does not exist", dir)
	} else if !i.IsDir() {
		return failf(connect.CodeInvalidArgument, "fork/exec /bin/sh: not a directory: %s %s", c.GetCmd(), strings.Join(c.GetArgs(), " "))
	}
	for _, a := range append([]string{c.GetCmd()}, c.GetArgs()...) {
		if len(a) > maxArgument || strings.Contains(a, "\x00") {
			return failf(connect.CodeInvalidArgument, "fork/exec /bin/sh: %s %s", c.GetCmd(), strings.Join(c.GetArgs(), " "))
		}
	}
	sub := newSubscriber()
	p, err := m.spawn(req.Msg, user, dir, m.environment(user, c.GetEnvs()), sub)
	if err != nil {
		return failf(connect.CodeInvalidArgument, "%v", err)
	}
	err = p.deliver(ctx, sub, m.interval(req.Header()), func(e *processpb.ProcessEvent) error {
		return out.Send(&processpb.StartResponse{Event: e})
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// The deadline is the program's, but nobody's of its descendants.
		_ = p.kill(syscall.SIGKILL)
		return failf(connect.CodeDeadlineExceeded, "context deadline exceeded")
	}
	return streamError(err)
}

// streamError leaves an orderly end alone.
func streamError(err error) error {
	if err == nil {
		return nil
	}
	return failf(connect.CodeCanceled, "%v", err)
}

func (m *Machine) environment(user string, more map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home(user), "USER=" + user, "LOGNAME=" + user}
	for _, vars := range []map[string]string{m.opts.Env, more} {
		for k, v := range vars {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// interval is how often a stream says that it is alive.
func (m *Machine) interval(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Keepalive-Ping-Interval"))
	if err != nil {
		return m.opts.KeepAlive
	}
	return min(time.Duration(n)*time.Second, m.opts.KeepAlive)
}

// find finds a process that was asked for, among those that live or have ended just
// now. By tag it looks at one tagged process only: the daemon takes whichever its map
// yields first, and here it is the oldest, so that who relies on tags fails every time.
func (s processService) find(sel *processpb.ProcessSelector) (*process, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	switch by := sel.GetSelector().(type) {
	case *processpb.ProcessSelector_Pid:
		if p := s.m.procs[by.Pid]; p != nil {
			return p, nil
		}
		return nil, failf(connect.CodeNotFound, "process with pid %d not found", by.Pid)
	case *processpb.ProcessSelector_Tag:
		var oldest *process
		for _, p := range s.m.procs {
			if p.tag != nil && p.lives() && (oldest == nil || p.pid < oldest.pid) {
				oldest = p
			}
		}
		if oldest != nil && *oldest.tag == by.Tag {
			return oldest, nil
		}
		return nil, failf(connect.CodeNotFound, "process with tag %s not found", by.Tag)
	}
	return nil, failf(connect.CodeUnimplemented, "invalid input type")
}

// findLive is find for calls that need a process that runs.
func (s processService) findLive(sel *processpb.ProcessSelector) (*process, error) {
	p, err := s.find(sel)
	if err == nil && !p.lives() {
		return nil, failf(connect.CodeNotFound, "process with pid %d not found", p.pid)
	}
	return p, err
}

func (s processService) Connect(ctx context.Context, req *connect.Request[processpb.ConnectRequest], out *connect.ServerStream[processpb.ConnectResponse]) error {
	p, err := s.find(req.Msg.GetProcess())
	if err != nil {
		return err
	}
	sub := newSubscriber()
	p.follow(sub)
	return streamError(p.deliver(ctx, sub, s.m.interval(req.Header()), func(e *processpb.ProcessEvent) error {
		return out.Send(&processpb.ConnectResponse{Event: e})
	}))
}

func (s processService) List(context.Context, *connect.Request[processpb.ListRequest]) (*connect.Response[processpb.ListResponse], error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	res := new(processpb.ListResponse)
	for _, p := range s.m.procs {
		if p.lives() {
			res.Processes = append(res.Processes, &processpb.ProcessInfo{Config: p.config, Pid: p.pid, Tag: p.tag})
		}
	}
	return connect.NewResponse(res), nil
}

func (s processService) Update(_ context.Context, req *connect.Request[processpb.UpdateRequest]) (*connect.Response[processpb.UpdateResponse], error) {
	p, err := s.findLive(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if size := req.Msg.GetPty().GetSize(); req.Msg.GetPty() != nil {
		if p.pty == nil {
			return nil, failf(connect.CodeInternal, "tty not assigned to process")
		}
		if size.GetCols() > 65535 || size.GetRows() > 65535 {
			s.m.violation("terminal of %d by %d: sizes wrap", size.GetCols(), size.GetRows())
		}
		if err := pty.Setsize(p.pty, &pty.Winsize{Cols: uint16(size.GetCols()), Rows: uint16(size.GetRows())}); err != nil {
			return nil, failf(connect.CodeInternal, "%v", err)
		}
	}
	return connect.NewResponse(&processpb.UpdateResponse{}), nil
}

func (s processService) StreamInput(ctx context.Context, in *connect.ClientStream[processpb.StreamInputRequest]) (*connect.Response[processpb.StreamInputResponse], error) {
	var p *process
	for in.Receive() {
		switch e := in.Msg().GetEvent().(type) {
		case *processpb.StreamInputRequest_Start:
			var err error
			if p, err = s.findLive(e.Start.GetProcess()); err != nil {
				return nil, err
			}
		case *processpb.StreamInputRequest_Data:
			if p == nil {
				return nil, failf(connect.CodeInvalidArgument, "no start event")
			}
			if err := p.input(ctx, e.Data.GetInput()); err != nil {
				return nil, err
			}
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&processpb.StreamInputResponse{}), nil
}

func (s processService) SendInput(ctx context.Context, req *connect.Request[processpb.SendInputRequest]) (*connect.Response[processpb.SendInputResponse], error) {
	p, err := s.findLive(req.Msg.GetProcess())
	if err == nil {
		err = p.input(ctx, req.Msg.GetInput())
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&processpb.SendInputResponse{}), nil
}

// input writes to the process, and waits while its pipe is full.
func (p *process) input(ctx context.Context, in *processpb.ProcessInput) error {
	var write func() error
	switch i := in.GetInput().(type) {
	case *processpb.ProcessInput_Pty:
		if p.pty == nil {
			return failf(connect.CodeInternal, "tty not assigned to process")
		}
		write = func() error { _, err := p.pty.Write(i.Pty); return err }
	case *processpb.ProcessInput_Stdin:
		if p.pty != nil {
			return failf(connect.CodeInternal, "tty assigned to process")
		}
		p.stdinMu.Lock()
		stdin := p.stdin
		p.stdinMu.Unlock()
		if stdin == nil {
			return failf(connect.CodeInternal, "stdin not enabled or closed")
		}
		write = func() error { _, err := stdin.Write(i.Stdin); return err }
	default:
		return failf(connect.CodeUnimplemented, "invalid input type")
	}
	done := make(chan error, 1)
	p.m.wg.Go(func() { done <- write() })
	select {
	case err := <-done:
		if err != nil {
			return failf(connect.CodeInternal, "error writing to stdin: %v", err)
		}
		return nil
	case <-ctx.Done():
		return failf(connect.CodeDeadlineExceeded, "%v", ctx.Err())
	case <-p.m.closed:
		return failf(connect.CodeUnavailable, "closed")
	}
}

func (s processService) CloseStdin(_ context.Context, req *connect.Request[processpb.CloseStdinRequest]) (*connect.Response[processpb.CloseStdinResponse], error) {
	p, err := s.findLive(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if p.pty != nil {
		return nil, failf(connect.CodeUnknown, "cannot close the input of a terminal")
	}
	p.closeStdin()
	return connect.NewResponse(&processpb.CloseStdinResponse{}), nil
}

func (s processService) SendSignal(_ context.Context, req *connect.Request[processpb.SendSignalRequest]) (*connect.Response[processpb.SendSignalResponse], error) {
	p, err := s.findLive(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	sig := syscall.Signal(req.Msg.GetSignal())
	if sig != syscall.SIGKILL && sig != syscall.SIGTERM {
		return nil, failf(connect.CodeUnimplemented, "invalid signal: %v", req.Msg.GetSignal())
	}
	p.mu.Lock()
	p.muted = true
	p.mu.Unlock()
	if err := p.kill(sig); err != nil {
		return nil, failf(connect.CodeInternal, "error sending signal: %v", err)
	}
	return connect.NewResponse(&processpb.SendSignalResponse{}), nil
}
