// Package linger lets clients read a refusal that comes before they have sent their
// request: a connection that is closed while its client still writes is reset, and with
// the reset goes an answer that the client has not read (RFC 9112 §9.6).
//
// net/http waits for half a second with its half of the connection closed, without
// reading, and not at all where the request says "Connection: close".
package linger

import (
	"io"
	"net/http"
	"time"
)

// Bounds on what lingering costs.
const (
	// Places is how many answers of a Closer may linger at once. Beyond that connections
	// are closed as net/http does it.
	Places = 32
	// Time is how long one may go on, Silence how long without a byte of its client.
	Time    = 5 * time.Second
	Silence = time.Second
	// Bytes is how much is read and thrown away.
	Bytes = 256 << 20
)

// Closer ends answers whose requests nobody wants to read. It is safe for concurrent use;
// a nil one does nothing.
type Closer struct {
	places        chan struct{}
	time, silence time.Duration
	bytes         int64
}

// New returns a Closer.
func New() *Closer {
	return &Closer{places: make(chan struct{}, Places), time: Time, silence: Silence, bytes: Bytes}
}

// Hurry bounds for how long the server may read what is left of a small body before the
// answer goes out, as it does to keep the connection. It would wait for a silent client
// for good. Call it before the answer.
func Hurry(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(Silence)) // not every server can
}

// End sends the answer that was written to w, and reads on until the client has sent r or
// has gone, within the bounds. A handler calls it last and returns. r has to have the body
// that the server gave it. Where the server has no deadlines or cannot send an answer
// before its handler returns, and over HTTP/2, where streams end without their
// connection, End does nothing more.
func (c *Closer) End(w http.ResponseWriter, r *http.Request) {
	if c == nil || r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody {
		return
	}
	ctl := http.NewResponseController(w)
	if ctl.Flush() != nil {
		return
	}
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	default:
		return
	}
	buf := make([]byte, 64<<10)
	end := time.Now().Add(c.time)
	for left := c.bytes; left > 0; {
		now := time.Now()
		until := now.Add(c.silence)
		if until.After(end) {
			until = end
		}
		if !now.Before(end) || ctl.SetReadDeadline(until) != nil {
			return
		}
		n, err := io.ReadAtLeast(r.Body, buf, 1)
		if left -= int64(n); err != nil {
			return // all of it was read, or the client went away
		}
	}
}
