package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// errCPU ends a run that used more processor time than it may.
var errCPU = errors.New("the limit on processor time was reached")

// Run runs one script. Argv is like bash's command line. An error means that
// nothing ran.
func (s *Interpreter) Run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	p, err := s.take()
	if err != nil {
		return guest.Result{}, err
	}
	defer p.end()
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()

	if r.Program.Data.Quota == nil { // programs must share it
		r.Program.Data.Quota = rootfs.NewQuota(rootfs.Limits{})
	}
	t := newStreams(r, p)
	job := s.job(ctx, r)
	r.Begin()
	began := time.Now()
	defer t.close()
	programs := s.newPrograms(ctx, r, p)
	defer programs.end()
	defer programs.watch()()

	code, exited := -1, false
	f := newFiles(r)
	defer f.close()
	if answer(p, wire.Answer{Data: job.Append(nil)}) == nil {
		code, exited = serve(f, p)
	}
	p.Kill() // what a script leaves in the background ends with it
	_ = p.Wait()
	programs.end()
	t.wait()

	ru := p.usage()
	cpu := time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	res := guest.Result{
		Code: code & 0xff, Reason: guest.ReasonExit,
		WallTime: time.Since(began),
		// Time that was measured: it varies, unlike what the programs used.
		Fuel:            guest.Fuel(cpu) + programs.fuel,
		PeakMemoryBytes: max(int64(ru.Maxrss)<<10, programs.peak),
		OutputErr:       t.err,
	}
	// A script whose time is over may end by itself, since its programs were ended first.
	if exited && code >= 0 && ctx.Err() == nil {
		return res, nil
	}
	res = ended(ctx, res, p.State(), cpu, t.crash)
	if res.Reason == guest.ReasonExit && r.Program.Stderr != nil {
		// The shell cannot say it any more.
		_, _ = fmt.Fprintf(r.Program.Stderr, "bash: %v\n", res.Err)
	}
	return res, nil
}

// job describes the script to the worker.
func (s *Interpreter) job(ctx context.Context, r *guest.Run) *wire.Job {
	left := time.Hour
	if d, ok := ctx.Deadline(); ok {
		left = max(0, time.Until(d))
	}
	if n := r.Program.FuelLimit; n > 0 {
		left = min(left, guest.CPUTime(n))
	}
	j := &wire.Job{
		Argv: r.Program.Argv, Programs: s.programs(r),
		MemoryBytes: uint64(guest.MemoryLimit(r.Program)), CPUSeconds: cpuSeconds(left),
	}
	for k, v := range r.Env {
		j.Env = append(j.Env, k+"="+v)
	}
	return j
}

// programs has the names of what the engine runs for the script.
func (s *Interpreter) programs(r *guest.Run) []string {
	if r.Program.Control == nil {
		return s.cfg.Programs
	}
	return append(slices.Clone(s.cfg.Programs), guest.ControlCommand)
}

// serve answers requests until the worker says how the script ended, or is gone.
func serve(f *files, p *process) (code int, exited bool) {
	for {
		b, err := wire.ReadFrame(p.requests, wire.MaxFrame)
		if err != nil {
			return -1, false
		}
		q, err := wire.ParseRequest(b)
		if err != nil || q.Op == wire.OpJob {
			return -1, false // no worker of ours: it is killed
		}
		if q.Op == wire.OpExit {
			return int(q.Size & 0xff), true
		}
		if answer(p, f.do(q)) != nil {
			return -1, false
		}
	}
}

func answer(p *process, a wire.Answer) error {
	return wire.WriteFrame(p.requests, a.Append(nil))
}

// ended gives a reason to the end of a worker that did not come from the script.
func ended(ctx context.Context, res guest.Result, state *os.ProcessState, cpu time.Duration, crash []byte) guest.Result {
	res.Code = guest.CodeKilled
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		res.Reason, res.Err = guest.ReasonTimeout, context.Cause(ctx)
	case ctx.Err() != nil:
		res.Reason, res.Err = guest.ReasonCanceled, context.Cause(ctx)
	case bytes.Contains(crash, []byte("out of memory")), bytes.Contains(crash, []byte("cannot allocate memory")),
		bytes.Contains(crash, []byte("failed to allocate")):
		res.Reason, res.MemoryLimited = guest.ReasonMemory, true
		res.Err = errors.New("the memory limit was reached")
	case bytes.Contains(crash, []byte("stack overflow")):
		res.Code, res.Err = guest.CodeCrashed, errors.New("the script recursed too deep")
	case bytes.Contains(crash, []byte("thread exhaustion")):
		res.Code, res.Err = guest.CodeAborted, errors.New("the script waits for too many named pipes at once")
	case status.Signaled() && status.Signal() == syscall.SIGKILL, status.Signaled() && status.Signal() == syscall.SIGXCPU:
		// Nobody here sent it: a limit did, or the system had no memory.
		if cpu >= time.Second {
			res.Reason, res.Err = guest.ReasonCPU, errCPU
		} else {
			res.Reason, res.Err = guest.ReasonMemory, errors.New("the system ended the script for lack of memory")
		}
	default:
		res.Code, res.Err = guest.CodeAborted, fmt.Errorf("the shell crashed: %s", firstLine(crash))
	}
	return res
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return line
}

// streams passes on what the worker reads and writes.
type streams struct {
	run   *guest.Run
	p     *process
	mu    sync.Mutex // one Write at a time
	err   error      // the first of a Write
	reads sync.WaitGroup
	crash []byte
}

func newStreams(r *guest.Run, p *process) *streams {
	t := &streams{run: r, p: p}
	t.reads.Go(func() { t.copy(r.Program.Stdout, p.stdout) })
	t.reads.Go(func() { t.copy(r.Program.Stderr, p.stderr) })
	t.reads.Go(func() { t.crash = p.crashText() })
	if r.Program.Stdin == nil {
		_ = p.stdin.Close()
		return t
	}
	// A Read that does not return is given up, as Program.Stdin says.
	go func() {
		_, _ = io.Copy(p.stdin, r.Program.Stdin)
		_ = p.stdin.Close()
	}()
	return t
}

// copy passes output on until its writers are gone. After a Write that failed
// the rest is dropped: the script cannot do anything about it.
func (t *streams) copy(dst io.Writer, src *os.File) {
	b := make([]byte, 32<<10)
	off := dst == nil
	for {
		n, err := src.Read(b)
		if n > 0 && !off {
			t.mu.Lock()
			if _, werr := dst.Write(b[:n]); werr != nil {
				off = true
				if t.err == nil {
					t.err = werr
				}
			}
			t.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// wait waits for the last of the output. The worker and its programs are gone.
func (t *streams) wait() { t.reads.Wait() }

// close ends the reading of standard input.
func (t *streams) close() {
	_ = t.p.stdin.Close()
	if c, ok := t.run.Program.Stdin.(io.Closer); ok {
		_ = c.Close()
	}
}
