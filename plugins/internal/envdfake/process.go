package envdfake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
)

// process is a program that the daemon started.
type process struct {
	m      *Machine
	pid    uint32
	config *processpb.ProcessConfig
	tag    *string
	cmd    *exec.Cmd
	pty    *os.File

	stdinMu sync.Mutex
	stdin   io.WriteCloser // nil: closed or never there

	mu    sync.Mutex
	subs  map[*subscriber]bool
	muted bool // after a signal, nothing is passed on any more
	end   *processpb.ProcessEvent_EndEvent
}

// subscriber is one stream that follows a process.
type subscriber struct {
	events chan *processpb.ProcessEvent
	ended  chan struct{} // closed once all events are in
	gone   chan struct{} // closed when nobody receives any more
}

func newSubscriber() *subscriber {
	return &subscriber{events: make(chan *processpb.ProcessEvent, 16), ended: make(chan struct{}), gone: make(chan struct{})}
}

// wrapper is how the daemon runs a command: its nice says so when there is none.
const wrapper = `echo 100 >/proc/$$/oom_score_adj 2>/dev/null; cd -- "$0" || exit 126; exec /usr/bin/nice -n 0 "$@"`

// errStart is a command that could not even be forked.
var errStart = errors.New("fork/exec")

// spawn starts a command and follows it with s from its first byte.
func (m *Machine) spawn(req *processpb.StartRequest, user, dir string, env []string, s *subscriber) (*process, error) {
	c := req.GetProcess()
	argv := []string{"-t", fmt.Sprint(m.anchor.Process.Pid), "-m"}
	if m.user {
		argv = append(argv, "-U", "--preserve-credentials")
	}
	argv = append(argv, "--", "/bin/sh", "-c", wrapper, dir, c.GetCmd())
	p := &process{m: m, config: c, tag: req.Tag, subs: map[*subscriber]bool{s: true}}
	p.cmd = exec.Command("/usr/bin/nsenter", append(argv, c.GetArgs()...)...)
	p.cmd.Env = env
	if req.GetPty() != nil {
		return p, p.startPTY(req.GetPty().GetSize())
	}
	return p, p.startPipes(req.Stdin == nil || req.GetStdin() || !m.atLeast("0.3.0"))
}

func (p *process) startPTY(size *processpb.PTY_Size) error {
	f, err := pty.StartWithSize(p.cmd, &pty.Winsize{Cols: uint16(size.GetCols()), Rows: uint16(size.GetRows())})
	if err != nil {
		return fmt.Errorf("%w %v: %w", errStart, p.cmd.Args, err)
	}
	p.pty = f
	p.begin(func() {
		p.read(f, 16<<10, func(b []byte) *processpb.ProcessEvent_DataEvent {
			return &processpb.ProcessEvent_DataEvent{Output: &processpb.ProcessEvent_DataEvent_Pty{Pty: b}}
		})
	})
	return nil
}

func (p *process) startPipes(stdin bool) error {
	var err error
	if stdin {
		if p.stdin, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, outR.Close(), outW.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr = outW, errW
	err = p.cmd.Start()
	_, _ = outW.Close(), errW.Close()
	if err != nil {
		_, _ = outR.Close(), errR.Close()
		return fmt.Errorf("%w %v: %w", errStart, p.cmd.Args, err)
	}
	p.begin(func() {
		p.read(outR, 32<<10, func(b []byte) *processpb.ProcessEvent_DataEvent {
			return &processpb.ProcessEvent_DataEvent{Output: &processpb.ProcessEvent_DataEvent_Stdout{Stdout: b}}
		})
	}, func() {
		p.read(errR, 32<<10, func(b []byte) *processpb.ProcessEvent_DataEvent {
			return &processpb.ProcessEvent_DataEvent{Output: &processpb.ProcessEvent_DataEvent_Stderr{Stderr: b}}
		})
	})
	return nil
}

// begin registers a process that runs, and follows it to its end.
func (p *process) begin(readers ...func()) {
	p.pid = uint32(p.cmd.Process.Pid)
	p.m.mu.Lock()
	p.m.procs[p.pid] = p
	p.m.mu.Unlock()
	p.send(&processpb.ProcessEvent{Event: &processpb.ProcessEvent_Start{Start: &processpb.ProcessEvent_StartEvent{Pid: p.pid}}})
	p.m.wg.Go(func() {
		var wg sync.WaitGroup
		for _, read := range readers {
			wg.Go(read)
		}
		wg.Wait() // everybody who held the output has closed it
		p.finish(p.cmd.Wait())
	})
}

func (p *process) read(f *os.File, size int, event func([]byte) *processpb.ProcessEvent_DataEvent) {
	defer f.Close()
	for {
		buf := make([]byte, size)
		n, err := f.Read(buf)
		if n > 0 {
			p.mu.Lock()
			muted := p.muted
			p.mu.Unlock()
			if !muted {
				p.send(&processpb.ProcessEvent{Event: &processpb.ProcessEvent_Data{Data: event(buf[:n])}})
			}
		}
		if err != nil {
			return
		}
	}
}

// send waits for slow followers, as a pipe would.
func (p *process) send(e *processpb.ProcessEvent) {
	p.mu.Lock()
	subs := make([]*subscriber, 0, len(p.subs))
	for s := range p.subs {
		subs = append(subs, s)
	}
	p.mu.Unlock()
	for _, s := range subs {
		select {
		case s.events <- e:
		case <-s.gone:
		case <-p.m.closed:
		}
	}
}

// endMemory is how long the end of a process is remembered.
const endMemory = 30 * time.Second

func (p *process) finish(err error) {
	end := &processpb.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		text := exit.Error()
		end.Exited, end.ExitCode, end.Status, end.Error = exit.Exited(), int32(exit.ExitCode()), text, &text
	}
	p.closeStdin()
	p.mu.Lock()
	p.end = end
	for s := range p.subs {
		close(s.ended)
	}
	p.subs = nil
	p.mu.Unlock()
	time.AfterFunc(endMemory, func() {
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		if p.m.procs[p.pid] == p {
			delete(p.m.procs, p.pid)
		}
	})
}

// follow adds a follower of what comes from now on. It reports whether the process
// still runs.
func (p *process) follow(s *subscriber) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.events <- &processpb.ProcessEvent{Event: &processpb.ProcessEvent_Start{Start: &processpb.ProcessEvent_StartEvent{Pid: p.pid}}}
	if p.end != nil {
		close(s.ended)
		return false
	}
	p.subs[s] = true
	return true
}

func (p *process) leave(s *subscriber) {
	close(s.gone)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subs, s)
}

// lives reports whether the process has not ended yet.
func (p *process) lives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end == nil
}

// kill signals the process itself, not its descendants.
func (p *process) kill(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// deliver sends a process's events to a stream, with keep-alives between, until the
// process ends or the stream does.
func (p *process) deliver(ctx context.Context, s *subscriber, every time.Duration, send func(*processpb.ProcessEvent) error) error {
	defer p.leave(s)
	tick := time.NewTicker(every)
	defer tick.Stop()
	alive := &processpb.ProcessEvent{Event: &processpb.ProcessEvent_Keepalive{Keepalive: &processpb.ProcessEvent_KeepAlive{}}}
	for {
		var e *processpb.ProcessEvent
		select {
		case e = <-s.events:
		case <-tick.C:
			e = alive
		case <-ctx.Done():
			return ctx.Err()
		case <-p.m.closed:
			return io.ErrUnexpectedEOF
		case <-s.ended:
			for len(s.events) > 0 {
				if err := send(<-s.events); err != nil {
					return err
				}
			}
			return send(&processpb.ProcessEvent{Event: &processpb.ProcessEvent_End{End: p.end}})
		}
		if err := send(e); err != nil {
			return err
		}
	}
}

func (p *process) closeStdin() {
	p.stdinMu.Lock()
	defer p.stdinMu.Unlock()
	if p.stdin != nil {
		_ = p.stdin.Close()
		p.stdin = nil
	}
}
