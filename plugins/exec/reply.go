package exec

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/response"
)

// reply answers a run. While the run goes on it sends white space, which JSON
// allows in front of a value: clients and proxies drop connections that stay
// silent for seconds. The price is that the status is 200 from the first byte
// on, so it begins only when nothing can be refused any more.
type reply struct {
	w     http.ResponseWriter
	every time.Duration

	stop chan struct{}
	done sync.WaitGroup
	sent bool // owned by the goroutine until done
}

func newReply(w http.ResponseWriter, every time.Duration) *reply {
	return &reply{w: w, every: every, stop: make(chan struct{})}
}

// keepAlive begins to send, every so often, until the answer is there. It is
// called at most once.
func (r *reply) keepAlive() {
	r.done.Go(func() {
		ctl := http.NewResponseController(r.w)
		tick := time.NewTicker(r.every)
		defer tick.Stop()
		for {
			select {
			case <-r.stop:
				return
			case <-tick.C:
			}
			if !r.sent {
				h := r.w.Header()
				h.Set("Content-Type", "application/json")
				h.Set("X-Content-Type-Options", "nosniff")
				h.Set("X-Accel-Buffering", "no") // a proxy that buffers would defeat it
				r.sent = true
			}
			if _, err := r.w.Write([]byte(" ")); err != nil || ctl.Flush() != nil {
				return // whoever waits is gone, or the server cannot stream
			}
		}
	})
}

// end stops the keep-alive. It is safe to call more than once.
func (r *reply) end() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	r.done.Wait()
}

// result answers with what came of the run.
func (r *reply) result(res *CodeResult) { r.encoded(response.Encode(res)) }

// encoded answers with JSON that is encoded already.
func (r *reply) encoded(b []byte) {
	r.end()
	if r.sent {
		_, _ = r.w.Write(b) // a caller that went away is not ours to report
		return
	}
	response.Encoded(r.w, http.StatusOK, b)
}

// fail answers with why there is no result. Once the status is out it is a
// result whose stderr says so, since a broken body would say nothing.
func (r *reply) fail(err error, c *call) error {
	r.end()
	if !r.sent {
		return err
	}
	he := asRefusal(err)
	late := map[string]any{
		"session_id": c.named, "stdout": "", "stderr": "[sandbox] " + he.Message + "\n", "files": []CodeFile{},
		"code": nil, "signal": nil, "status": "XX", "message": he.Message, "error": response.Body(he).Error,
		"wall_time": c.wall.Milliseconds(),
	}
	if he.Code == codeRateLimited {
		late["retry_after_seconds"] = response.Seconds(he.RetryAfter)
	}
	_, _ = r.w.Write(response.Encode(late)) // a caller that went away is not ours to report
	return errors.Join(err, errLate)
}

// errLate says in the log that a failure went out as a 200.
var errLate = errors.New("answered after the status was sent")
