package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// maxPrograms is how many programs a script may run at once. A further one fails:
// waiting for a place could be waiting for itself, in a pipeline.
const maxPrograms = 4

// programs runs what one script asks for. All of it ends with end.
type programs struct {
	shell  *Interpreter
	run    *guest.Run
	p      *process
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex // guards the rest, and writes of packets
	running map[uint32]context.CancelFunc
	calls   int   // of running, those of guest.ControlCommand
	peak    int64 // bytes
	fuel    int64
}

func (s *Interpreter) newPrograms(ctx context.Context, r *guest.Run, p *process) *programs {
	g := &programs{shell: s, run: r, p: p, running: map[uint32]context.CancelFunc{}}
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.all.Go(g.listen)
	return g
}

// end stops every program and waits for them.
func (g *programs) end() {
	g.cancel()
	_ = g.p.programs.Close()
	g.all.Wait()
}

// listen reads requests until the worker is gone, or says what it must not.
func (g *programs) listen() {
	b := make([]byte, wire.MaxPacket)
	control := make([]byte, unix.CmsgSpace(3*4))
	for {
		n, cn, flags, _, err := g.p.programs.ReadMsgUnix(b, control)
		if err != nil || n == 0 {
			return
		}
		s, err := wire.ParseStart(b[:n])
		var files []*os.File
		if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) == 0 {
			want := 0
			for bit := uint32(1); bit <= wire.StreamStderr; bit <<= 1 {
				if s.Streams&bit != 0 {
					want++
				}
			}
			files, err = descriptors(control[:cn], want)
		} else if err == nil {
			err = wire.ErrMalformed
		}
		if err != nil {
			g.p.Kill() // no worker of ours
			return
		}
		g.begin(s, files)
	}
}

// begin starts a program, or cancels it.
func (g *programs) begin(s wire.Start, files []*os.File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cancel, there := g.running[s.ID]
	switch {
	case len(s.Argv) == 0:
		theirs(files).close()
		if there {
			cancel()
		}
	case there, !isCall(s) && len(g.running)-g.calls >= maxPrograms, isCall(s) && g.calls >= maxCalls:
		theirs(files).close()
		message := fmt.Sprintf("%d programs run already, which is the limit of a script", len(g.running)-g.calls)
		if isCall(s) {
			message = fmt.Sprintf("%d calls wait already, which is the limit of a script", g.calls)
		}
		g.tell(wire.Ended{ID: s.ID, Code: 126, Message: message})
	default:
		ctx, cancel := context.WithCancel(g.ctx)
		g.running[s.ID] = cancel
		program := g.program
		if isCall(s) {
			g.calls++
			program = g.call
		}
		g.all.Go(func() {
			defer cancel()
			end := program(ctx, s, files)
			g.mu.Lock()
			defer g.mu.Unlock()
			delete(g.running, s.ID)
			if isCall(s) {
				g.calls--
			}
			if g.ctx.Err() == nil { // else the script ends too, and shall not go on before
				g.tell(end)
			}
		})
	}
}

// tell sends a packet. The caller holds mu. A worker that is gone needs none.
func (g *programs) tell(e wire.Ended) {
	if len(e.Message) > 4096 {
		e.Message = e.Message[:4096]
	}
	_, _ = g.p.programs.Write(e.Append(nil))
}

// program runs one program to its end.
func (g *programs) program(ctx context.Context, s wire.Start, files []*os.File) wire.Ended {
	p := g.run.Program
	p.Argv, p.Env, p.Started = s.Argv, map[string]string{}, nil
	p.Stdin, p.Stdout, p.Stderr = nil, nil, nil
	for _, kv := range s.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			p.Env[k] = v
		}
	}
	// A stream that blocks lets go when the program is to end.
	defer theirs(files).close()
	defer context.AfterFunc(ctx, theirs(files).close)()
	in, out, errs := standard(s, files)
	ctx, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	pipe := pipeEnd{broken}
	if in != nil {
		p.Stdin = in
	}
	if out != nil {
		p.Stdout = pipe.writer(out)
	}
	if errs != nil {
		p.Stderr = pipe.writer(errs)
	}
	res, err := g.shell.cfg.Run(ctx, p)
	g.mu.Lock()
	g.peak = max(g.peak, res.PeakMemoryBytes)
	g.fuel += res.Fuel
	g.mu.Unlock()
	end := wire.Ended{ID: s.ID, Code: uint32(res.Code)}
	switch {
	case err != nil:
		end.Code, end.Message = 126, err.Error()
	case errors.Is(context.Cause(ctx), errPipe):
		end.Code = 128 + uint32(syscall.SIGPIPE)
	case res.Err != nil && ctx.Err() == nil:
		end.Message = res.Err.Error()
	}
	return end
}

// standard says which of the files are which streams; nil for those that there are not.
func standard(s wire.Start, files []*os.File) (in, out, errs *os.File) {
	for _, stream := range []struct {
		bit uint32
		to  **os.File
	}{{wire.StreamStdin, &in}, {wire.StreamStdout, &out}, {wire.StreamStderr, &errs}} {
		if s.Streams&stream.bit != 0 {
			*stream.to, files = files[0], files[1:]
		}
	}
	return in, out, errs
}

// errPipe ends a program whose output nobody reads any more.
var errPipe = errors.New("broken pipe")

// pipeEnd ends a program at the first Write that fails, as SIGPIPE does: without
// it "python3 endless.py | head" would not come to an end.
type pipeEnd struct{ cancel context.CancelCauseFunc }

func (e pipeEnd) writer(w io.Writer) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		n, err := w.Write(b)
		if err != nil {
			e.cancel(errPipe)
		}
		return n, err
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
