package exec

import (
	"net/http"
	"time"
)

// response remembers what was answered. It gives its reader a deadline for every
// piece: a client that takes nothing would otherwise keep an answer in memory, and who
// writes it, for good. An answer of any length may take as long as it comes along.
type response struct {
	http.ResponseWriter
	stall   time.Duration
	untimed bool // the server has no deadlines
	status  int
	bytes   int64
	failed  error // of a write
}

// pieceBytes is what a reader has to take within Options.Stall.
const pieceBytes = 64 << 10

func (r *response) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(b []byte) (n int, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	for {
		r.patient()
		var m int
		m, err = r.ResponseWriter.Write(b[n:min(len(b), n+pieceBytes)])
		n += m
		if err != nil || n == len(b) {
			break
		}
	}
	r.bytes += int64(n)
	if err != nil && r.failed == nil {
		r.failed = err
	}
	return n, err
}

// FlushError is what http.ResponseController flushes with.
func (r *response) FlushError() error {
	r.patient()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (r *response) patient() {
	if r.stall > 0 && !r.untimed {
		r.untimed = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(r.stall)) != nil
	}
}

func (r *response) began() bool { return r.status != 0 }

// Unwrap lets http.ResponseController reach the server's own writer.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
