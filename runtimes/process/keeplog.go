package process

import (
	"io"
	"os"
	"time"
)

const (
	// keptLogPoll is how often what a kept process logs is looked at.
	keptLogPoll = 50 * time.Millisecond
	// keptLogSize is how much of its log is kept after it was read.
	keptLogSize = 1 << 20
	// keptLogTail is how much of what it logged without a host is read afterwards. It stays.
	keptLogTail = 64 << 10
)

// keptLog is the file that a kept process logs into: a pipe would break with its
// host, and end it.
type keptLog struct {
	path string
	file *os.File // appended to by the process
	at   int64    // what is before was read
	free int64    // what is before is not stored any more
}

func openKeptLog(path string) (*keptLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &keptLog{path: path, file: f, at: max(0, info.Size()-keptLogTail)}, nil
}

func (l *keptLog) close() { _ = l.file.Close() }

// follow passes on what is written, until dead is closed and everything was read.
func (l *keptLog) follow(dead <-chan struct{}, to io.WriteCloser) {
	defer to.Close()
	tick := time.NewTicker(keptLogPoll)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-dead:
			over = true
		}
		l.read(to)
	}
}

// read passes on what came since the last time, and gives back the room of what was
// read when it is much.
func (l *keptLog) read(to io.Writer) {
	info, err := l.file.Stat()
	if err != nil {
		return
	}
	if info.Size() < l.at { // the process emptied it
		l.at, l.free = 0, 0
	}
	n, _ := io.Copy(to, io.NewSectionReader(l.file, l.at, info.Size()-l.at))
	if l.at += n; l.at-l.free < keptLogSize {
		return
	}
	switch {
	case punch(l.file, l.at-keptLogTail) == nil:
		l.free = l.at - keptLogTail
	case l.file.Truncate(0) == nil: // what was written meanwhile is lost
		l.at, l.free = 0, 0
	}
}
