// Package response is how the entries of plugins/exec answer: with a bound on their
// readers' patience, and with refusals in the shape of docs/wire.md.
package response

import (
	"errors"
	"net/http"
	"time"
)

// Writer remembers what was answered. It gives its reader a deadline for every
// piece: a client that takes nothing would otherwise keep an answer in memory, and who
// writes it, for good. An answer of any length may take as long as it comes along.
// It is used by one goroutine at a time.
type Writer struct {
	http.ResponseWriter
	stall   time.Duration
	untimed bool // the server has no deadlines
	status  int
	bytes   int64
	failed  error
}

// pieceBytes is what a reader has to take within the time of New.
const pieceBytes = 64 << 10

// New returns the writer of one answer whose reader may take up to stall for 64 KiB,
// or for less that is flushed. Zero is without a bound.
func New(w http.ResponseWriter, stall time.Duration) *Writer {
	return &Writer{ResponseWriter: w, stall: stall}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(b []byte) (n int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	for {
		w.patient()
		var m int
		m, err = w.ResponseWriter.Write(b[n:min(len(b), n+pieceBytes)])
		n += m
		if err != nil || n == len(b) {
			break
		}
	}
	w.bytes += int64(n)
	w.fail(err)
	return n, err
}

// FlushError is what http.ResponseController flushes with. Most servers keep what is
// written until then, so that it is here that a reader is waited for.
func (w *Writer) FlushError() error {
	w.patient()
	ctl := http.NewResponseController(w.ResponseWriter)
	err := ctl.Flush()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		w.fail(err)
	case w.stall > 0 && !w.untimed:
		// Nothing waits for the reader any more. HTTP/2 would end a stream at its
		// deadline even when it is only silent.
		_ = ctl.SetWriteDeadline(time.Time{})
	}
	return err
}

// End gives the reader time for what the server sends when the handler has returned. A
// handler calls it last.
func (w *Writer) End() { w.patient() }

func (w *Writer) patient() {
	if w.stall > 0 && !w.untimed {
		w.untimed = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.stall)) != nil
	}
}

func (w *Writer) fail(err error) {
	if err != nil && w.failed == nil {
		w.failed = err
	}
}

// Status is the status that was answered, zero before.
func (w *Writer) Status() int { return w.status }

// Began reports whether the answer has begun: its status cannot be changed any more.
func (w *Writer) Began() bool { return w.status != 0 }

// Bytes is how much of a body was written.
func (w *Writer) Bytes() int64 { return w.bytes }

// Err is the first error of writing, nil where there is none.
func (w *Writer) Err() error { return w.failed }

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
