package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/caisson-run/caisson/plugins/exec/internal/events"
	"github.com/caisson-run/caisson/plugins/exec/internal/options"
	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
	"github.com/caisson-run/caisson/sdk/backend"
)

// live is the host's side of one run: it feeds inputs, keeps output up to its
// limits, and passes on that the program started.
type live struct {
	ctx     context.Context
	opens   map[int]func(context.Context) (io.ReadCloser, error)
	onStart func() error
	watch   watcher // nil is fine
	// call answers the program's calls; nil where none are offered.
	call func(context.Context, backend.ControlCall) (backend.ControlReply, error)

	mu             sync.Mutex
	stdout, stderr output
	started        bool
	startErr       error
	source         *source
}

var _ backend.RunIO = (*live)(nil)

// watcher is told what happens in a run while it happens. It must not wait.
type watcher interface {
	// Started is told the session in which the program begins.
	Started(session string)
	// Output is told what of a stream ("stdout" or "stderr") is kept, and End that
	// there is no more of it; cut says that it had been longer.
	Output(stream string, p []byte)
	End(stream string, cut bool)
}

// defaultOutput bounds a stream whose limit nobody set.
const defaultOutput = 1 << 20

func newLive(ctx context.Context, limits backend.Limits, in *inputs, onStart func() error) *live {
	l := &live{ctx: ctx, opens: in.opens, onStart: onStart}
	l.stdout.limit, l.stderr.limit = limits.StdoutBytes, limits.StderrBytes
	options.Default(&l.stdout.limit, defaultOutput)
	options.Default(&l.stderr.limit, defaultOutput)
	return l
}

// Input returns a reader that opens its source when it is first read, so that a
// source which is gone fails this input and not the run.
func (l *live) Input(index int) (io.Reader, error) {
	open, ok := l.opens[index]
	if !ok {
		return nil, fmt.Errorf("input %d is not chunked", index)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.source.close()
	l.source = &source{open: func() (io.ReadCloser, error) { return open(l.ctx) }}
	return l.source, nil
}

func (l *live) Stdin() io.Reader { return strings.NewReader("") }

func (l *live) Started() error {
	l.mu.Lock()
	again := l.started
	l.mu.Unlock()
	if again {
		return errors.New("started twice")
	}
	err := l.onStart()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started, l.startErr = err == nil, err
	return err
}

// began reports whether the program started, or why it was not allowed to.
func (l *live) began() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started, l.startErr
}

func (l *live) Stdout(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(events.Stdout, l.stdout.write(p))
	return nil
}

func (l *live) Stderr(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(events.Stderr, l.stderr.write(p))
	return nil
}

func (l *live) tell(stream string, kept []byte) {
	if l.watch != nil {
		l.watch.Output(stream, kept)
	}
}

// ended tells the watcher that there is no more output, and whether it was cut.
func (l *live) ended(cutOut, cutErr bool) {
	if l.watch != nil {
		l.watch.End(events.Stdout, cutOut)
		l.watch.End(events.Stderr, cutErr)
	}
}

func (l *live) Call(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
	if l.call != nil {
		return l.call(ctx, c)
	}
	return backend.ControlReply{}, &backend.Error{Kind: backend.KindUnsupported, Op: "Call", Message: "no calls in this run"}
}

// close releases what a run that ended early left open.
func (l *live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.source.close()
}

// output is the head of a stream.
type output struct {
	limit int64
	kept  []byte
	total int64
}

// write returns what of p is kept.
func (o *output) write(p []byte) []byte {
	o.total += int64(len(p))
	p = p[:min(int64(len(p)), max(0, o.limit-int64(len(o.kept))))]
	o.kept = append(o.kept, p...)
	return p
}

// text returns what was kept as valid UTF-8. A character that the limit cut in
// two is left out rather than replaced.
func (o *output) text(truncated bool) string {
	b := o.kept
	if truncated {
		b = runes.Whole(b)
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

// source is chunked content that opens late and closes at its end.
type source struct {
	open func() (io.ReadCloser, error)

	mu   sync.Mutex
	body io.ReadCloser
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.body == nil {
		s.body, s.err = s.open()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.body.Read(p)
	if err != nil {
		s.end(err)
	}
	return n, err
}

func (s *source) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.end(errors.New("the input is closed"))
	}
}

func (s *source) end(err error) {
	s.err = err
	if s.body != nil {
		_ = s.body.Close() // it was only read from
		s.body = nil
	}
}
