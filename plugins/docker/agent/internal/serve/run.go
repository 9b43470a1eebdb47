//go:build linux

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

const (
	defaultOutput = 1 << 20
	// maxOutput is how much of each stream is kept at the most: it is in memory.
	maxOutput = 64 << 20
	// maxTTL is how long a detached run lives at the most.
	maxTTL = 24 * time.Hour
)

// check completes a request and says what is wrong with it.
func check(r *agentwire.Run) error {
	switch {
	case r.RunID == "" || len(r.RunID) > 256:
		return errors.New("run_id: between 1 and 256 bytes")
	case r.Manner < agentwire.Foreground || r.Manner > agentwire.Command:
		return errors.New("manner: unknown")
	case len(r.Steps) == 0:
		return errors.New("steps: at least one is required")
	}
	for i, s := range r.Steps {
		if len(s.Argv) == 0 || s.Argv[0] == "" {
			return fmt.Errorf("steps[%d].argv: a command is required", i)
		}
		for _, list := range [][]string{s.Argv, s.Args} {
			for _, a := range list {
				if hasNUL(a) {
					return fmt.Errorf("steps[%d]: an argument contains NUL", i)
				}
			}
		}
	}
	if r.File != "" && (r.File == "." || r.File == ".." || len(r.File) > 255 || hasSlashOrNUL(r.File)) {
		return errors.New("program.file: no file name")
	}
	for i := range r.Inputs {
		if p := r.Inputs[i].Path; files.CheckPath(p) != nil || !files.Within(files.DataDir, p) || p == files.DataDir {
			return fmt.Errorf("inputs[%d]: the path is not below %s", i, files.DataDir)
		}
	}
	for _, p := range []string{r.Dir, r.Collect.Root} {
		if p != "" && files.CheckPath(p) != nil {
			return errors.New("dir or collect.root: no path")
		}
	}
	if err := checkEnv(r.Env); err != nil {
		return err
	}
	l := &r.Limits
	if l.Wall < 0 || l.CPU < 0 || l.MemoryBytes < 0 || l.Processes < 0 || l.StdoutBytes < 0 || l.StderrBytes < 0 ||
		l.DiskBytes < 0 || l.DiskFiles < 0 || r.TTL < 0 || r.Collect.MaxFiles < 0 || r.Collect.MaxFileBytes < 0 || r.Collect.MaxDepth < 0 {
		return errors.New("a limit is negative")
	}
	r.TTL = min(cmp.Or(r.TTL, maxTTL), maxTTL)
	l.Wall = cmp.Or(l.Wall, agentwire.DefaultWall)
	l.StdoutBytes = min(cmp.Or(l.StdoutBytes, defaultOutput), maxOutput)
	l.StderrBytes = min(cmp.Or(l.StderrBytes, defaultOutput), maxOutput)
	if r.Manner == agentwire.Command {
		r.Collect.Skip = true
	}
	if r.Control && (r.Manner != agentwire.Foreground || r.Beside <= 0) {
		return errors.New("control: only foreground runs make calls, within a limit of processor time")
	}
	return nil
}

func checkEnv(env []agentwire.Pair) error {
	for _, p := range env {
		if p.Name == "" || hasNUL(p.Name) || hasNUL(p.Value) || hasEqual(p.Name) {
			return fmt.Errorf("env: %q is no variable", p.Name)
		}
	}
	return nil
}

func (s *Server) run(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Run
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	if err := check(&m); err != nil {
		return fault(invalid(err))
	}
	in := &source{st: st}
	j, err := s.Host.Start(ctx, &m, in)
	if err != nil {
		return fault(err)
	}
	return s.follow(ctx, st, j, 0, m.Rejoin, in)
}

func (s *Server) attach(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Attach
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	j := s.Host.Job(m.RunID)
	if j == nil || j.Manner == agentwire.Foreground && !m.Takeover {
		return fault(&agentwire.Fault{Kind: "not_found", Subject: "run", Text: "there is no run of this id"})
	}
	if j.Manner != agentwire.Detached {
		j.Join()
	}
	return s.follow(ctx, st, j, m.Offset, m.Rejoin, nil)
}

func (s *Server) kill(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Name
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	j := s.Host.Job(m.Name)
	if j == nil {
		return fault(&agentwire.Fault{Kind: "not_found", Subject: "run", Text: "there is no run of this id"})
	}
	j.Cancel("the run was ended")
	select {
	case <-j.Done():
		return done(nil)
	case <-ctx.Done():
		return fault(ctx.Err())
	}
}

// follow sends what a run says until it ends, and answers with how it did. When the
// caller of a foreground run leaves, the run ends; when the connection breaks, others
// may take over for a while.
func (s *Server) follow(ctx context.Context, st *agentwire.Stream, j *work.Job, offset int64, rejoin time.Duration, in *source) []byte {
	caller := j.Manner != agentwire.Detached
	sending := context.WithoutCancel(ctx) // a cancelled run still says how it ended
	gone := func() []byte {
		if caller {
			if in != nil && in.unfinished() {
				rejoin = 0 // nobody else can send the rest of its input
			}
			j.Leave(rejoin)
		}
		return fault(context.Canceled)
	}
	// over ends the following for good; false goes on.
	over := func() bool {
		if st.Lost() {
			return true
		}
		if caller {
			j.Cancel("the caller went away")
			ctx = sending
			return false
		}
		return true
	}
	for waiting := true; waiting; {
		select {
		case <-j.Started():
			waiting = false
		case <-ctx.Done():
			if over() {
				return gone()
			}
		}
	}
	if j.Runs() {
		if err := st.SendMessage(sending, agentwire.ChanStarted, &agentwire.Empty{}); err != nil {
			return gone()
		}
	}
	at := j.Log.From(offset)
	for {
		stream, data, wait := j.Log.Next(&at)
		switch {
		case data != nil:
			ch := agentwire.ChanStdout
			if stream != 0 {
				ch = agentwire.ChanStderr
			}
			if err := s.output(ctx, sending, st, ch, data, over); err != nil {
				return gone()
			}
			continue
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				if over() {
					return gone()
				}
			}
			continue
		}
		break
	}
	<-j.Done()
	return s.result(sending, st, j, gone)
}

// output sends a piece of output. A caller that cancels meanwhile ends the run, and
// still gets it.
func (s *Server) output(ctx, sending context.Context, st *agentwire.Stream, ch agentwire.Channel, data []byte, over func() bool) error {
	for len(data) > 0 {
		p := data[:min(len(data), agentwire.MaxData)]
		err := st.Send(ctx, ch, p)
		if err != nil && ctx.Err() != nil && !over() {
			ctx = sending
			continue
		}
		if err != nil {
			return err
		}
		data = data[len(p):]
	}
	return nil
}

func (s *Server) result(ctx context.Context, st *agentwire.Stream, j *work.Job, gone func() []byte) []byte {
	exit, changed, deleted, err := j.Result()
	if err != nil {
		return fault(err)
	}
	rest, err := sendEntries(ctx, st, changed)
	if err == nil && len(rest) > 0 {
		err = st.SendMessage(ctx, agentwire.ChanEntries, &agentwire.Listing{Entries: rest})
	}
	if err == nil {
		err = sendNames(ctx, st, deleted)
	}
	if err != nil {
		return gone()
	}
	return agentwire.Answer(&exit, nil)
}

func sendNames(ctx context.Context, st *agentwire.Stream, names []string) error {
	for begin := 0; begin < len(names); {
		end, size := begin, 0
		for end < len(names) && size+len(names[end])+8 <= portion {
			size += len(names[end]) + 8
			end++
		}
		if err := st.SendMessage(ctx, agentwire.ChanDeleted, &agentwire.Names{Names: names[begin:end]}); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// source reads inputs and stdin from a stream.
type source struct {
	st    *agentwire.Stream
	stdin *stdinReader
}

func (in *source) Input(ctx context.Context, w io.Writer) (uint32, error) {
	for {
		it, err := in.st.Recv(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return 0, context.Canceled
		case err != nil:
			return 0, err
		case it.Channel != agentwire.ChanInput:
			return 0, invalid(errors.New("something else among the inputs"))
		case !it.Message:
			if _, err := w.Write(it.Data); err != nil {
				return 0, err
			}
			continue
		}
		var end agentwire.InputEnd
		if err := agentwire.Decode(it.Data, &end); err != nil {
			return 0, err
		}
		if end.Fault.Kind != "" {
			return 0, &end.Fault
		}
		return end.Mode, nil
	}
}

func (in *source) Stdin(ctx context.Context) io.Reader {
	in.stdin = &stdinReader{ctx: ctx, st: in.st}
	return in.stdin
}

func (in *source) unfinished() bool { return in.stdin != nil && !in.stdin.ended.Load() }
