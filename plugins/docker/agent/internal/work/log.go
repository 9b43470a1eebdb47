//go:build linux

package work

import "sync"

// Streams of output.
const (
	stdout = iota
	stderr
	streams
)

// Log keeps the head of a program's output, both streams in the order in which they came,
// for as many readers as there are. The program never waits for them.
type Log struct {
	caps [streams]int64

	mu      sync.Mutex
	changed chan struct{}
	buf     []byte
	runs    []stretch // of buf, in order
	kept    [streams]int64
	total   [streams]int64
	closed  bool
}

// stretch is so many bytes of one stream.
type stretch struct {
	stream uint8
	n      uint32
}

// NewLog keeps at most that much of each stream.
func NewLog(stdoutBytes, stderrBytes int64) *Log {
	return &Log{caps: [streams]int64{stdoutBytes, stderrBytes}, changed: make(chan struct{})}
}

func (l *Log) append(stream int, p []byte) (total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total[stream] += int64(len(p))
	total = l.total[stdout] + l.total[stderr]
	keep := int(min(int64(len(p)), l.caps[stream]-l.kept[stream]))
	if keep <= 0 || l.closed {
		return total
	}
	l.kept[stream] += int64(keep)
	l.buf = append(l.buf, p[:keep]...)
	if last := len(l.runs) - 1; last >= 0 && l.runs[last].stream == uint8(stream) && l.runs[last].n < 1<<31 {
		l.runs[last].n += uint32(keep)
	} else {
		l.runs = append(l.runs, stretch{uint8(stream), uint32(keep)})
	}
	l.wake()
	return total
}

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// close says that nothing more comes.
func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.wake()
	}
}

// Position is how far a reader is.
type Position struct {
	at  int // in buf
	run int
	off uint32 // in that run
}

// From returns the position after so many bytes.
func (l *Log) From(offset int64) Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p Position
	for p.run < len(l.runs) && offset > 0 {
		n := int64(l.runs[p.run].n)
		if offset < n || p.run == len(l.runs)-1 { // the last one may grow
			step := min(offset, n)
			p.off, p.at = uint32(step), p.at+int(step)
			return p
		}
		offset -= n
		p.at += int(n)
		p.run++
	}
	return p
}

// Next returns what comes after p, of one stream. With nothing there it returns a
// channel that is closed when that changes, or neither at the end.
func (l *Log) Next(p *Position) (stream int, data []byte, wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p.run < len(l.runs) {
		r := l.runs[p.run]
		if n := r.n - p.off; n > 0 {
			data = l.buf[p.at : p.at+int(n) : p.at+int(n)]
			p.at += int(n)
			p.off += n
			return int(r.stream), data, nil
		}
		if p.run == len(l.runs)-1 {
			break
		}
		p.run, p.off = p.run+1, 0
	}
	if l.closed {
		return 0, nil, nil
	}
	return 0, nil, l.changed
}

// Counts returns what was written and kept of each stream.
func (l *Log) counts() (total, kept [streams]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.kept
}

// size is how much is kept.
func (l *Log) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.buf))
}
