package process

import (
	"io"
	"os"
	"time"
)

const (
	// keptLogPoll is how often what a kept process logs is looked at.
	keptLogPoll = 50 * time.Millisecond
	// keptLogSize is where its log is emptied, once it was read.
	keptLogSize = 1 << 20
	// keptLogTail is how much of what it logged without a host is read afterwards.
	keptLogTail = 64 << 10
)

// keptLog is the file that a kept process logs into: a pipe would break with its
// host, and end it.
type keptLog struct {
	path string
	file *os.File // appended to by the process
	at   int64
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

// read passes on what came since the last time, and empties the file when it is
// large.
func (l *keptLog) read(to io.Writer) {
	info, err := l.file.Stat()
	if err != nil {
		return
	}
	if info.Size() < l.at { // the process emptied it
		l.at = 0
	}
	n, _ := io.Copy(to, io.NewSectionReader(l.file, l.at, info.Size()-l.at))
	if l.at += n; l.at >= keptLogSize && l.file.Truncate(0) == nil {
		l.at = 0
	}
}
