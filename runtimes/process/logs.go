package process

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// The budget of a plugin's log. What exceeds it is counted and dropped, so that
// one plugin cannot take the host's time or fill its disk.
const (
	linesPerSecond = 200
	linesBurst     = 400
	bytesPerSecond = 64 << 10
	bytesBurst     = 256 << 10
	// maxLine is how much of one line is kept.
	maxLine = 16 << 10
	// keptLines is how many of the last lines are kept for a post-mortem, each
	// up to keptLine bytes, whether they were within the budget or not.
	keptLines = 200
	keptLine  = 1 << 10
)

// bridge carries what a plugin writes into the host's log.
type bridge struct {
	log hclog.Logger
	now func() time.Time

	mu      sync.Mutex
	lines   *rate.Limiter
	bytes   *rate.Limiter
	dropped int64 // since the last summary
	total   int64
	ring    [keptLines][]byte
	written int // lines ever written to ring
	parser  parser
}

func newBridge(log hclog.Logger) *bridge {
	return &bridge{
		log: log, now: time.Now,
		lines: rate.NewLimiter(linesPerSecond, linesBurst),
		bytes: rate.NewLimiter(bytesPerSecond, bytesBurst),
	}
}

// writer splits a stream into lines. Each stream has its own.
func (b *bridge) writer() io.WriteCloser { return newSplitter(b.line) }

// stray takes a line that was printed to standard output.
func (b *bridge) stray(line string) {
	if line != "" {
		b.line([]byte("[stdout] " + line))
	}
}

// line takes a line, which is the caller's again afterwards.
func (b *bridge) line(line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := &b.ring[b.written%keptLines]
	*kept = append((*kept)[:0], line[:min(len(line), keptLine)]...)
	if len(line) > keptLine {
		*kept = append(bytes.ToValidUTF8(*kept, nil), "…"...)
	}
	b.written++
	if b.log.GetLevel() == hclog.Off {
		return
	}
	now := b.now()
	if !b.lines.AllowN(now, 1) || !b.bytes.AllowN(now, len(line)) {
		b.dropped++
		b.total++
		return
	}
	b.summarize()
	b.parser.emit(b.log, string(line))
}

// summarize is called with mu held.
func (b *bridge) summarize() {
	if b.dropped > 0 {
		b.log.Warn("the plugin logs too much: lines were dropped", "dropped", b.dropped)
		b.dropped = 0
	}
}

// close tells of what was dropped last.
func (b *bridge) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.summarize()
}

func (b *bridge) droppedTotal() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

func (b *bridge) lastLines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(b.written, keptLines)
	out := make([]string, 0, n)
	for i := b.written - n; i < b.written; i++ {
		out = append(out, string(b.ring[i%keptLines]))
	}
	return out
}

// lastWords is what the plugin said last, for people. Of a crash it is how it
// began, not the end of its trace.
func (b *bridge) lastWords() string {
	lines := b.lastLines()
	for _, l := range slices.Backward(lines) {
		if isCrash(l) {
			return printable(l)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return plain(lines[len(lines)-1])
}

// splitter cuts a stream into lines of bounded length, each of which emit has until it
// returns. One goroutine writes.
type splitter struct {
	emit func([]byte)
	buf  []byte
	cut  bool // the rest of this line is dropped
}

func newSplitter(emit func([]byte)) *splitter { return &splitter{emit: emit} }

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.add(p)
			return n, nil
		}
		s.add(p[:end])
		s.flush()
		p = p[end+1:]
	}
}

// add adds to the line what it has room for.
func (s *splitter) add(p []byte) {
	room := min(len(p), maxLine-len(s.buf))
	s.buf = append(s.buf, p[:room]...)
	s.cut = s.cut || room < len(p)
}

// flush emits an unfinished line.
func (s *splitter) flush() {
	if n := len(s.buf); n > 0 && s.buf[n-1] == '\r' {
		s.buf = s.buf[:n-1]
	}
	if s.cut {
		s.buf = append(s.buf, "… (line cut)"...)
	}
	if len(s.buf) > 0 {
		s.emit(s.buf)
	}
	s.buf, s.cut = s.buf[:0], false
}

func (s *splitter) Close() error {
	s.flush()
	return nil
}
