package exec

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/plugins/exec/internal/bodies"
	"github.com/caisson-run/caisson/plugins/exec/internal/shallow"
)

// guarded reads a request's body up to a limit and gives up on a client that
// falls silent, or nearly: a body that never ends would keep what waits for it.
type guarded struct {
	body   io.Reader
	ctl    *http.ResponseController
	idle   time.Duration
	until  time.Time
	waited time.Duration // for the piece that is on its way
	piece  int           // how much of it came
	upload bool
	// over is said of a body beyond the limit.
	over string
	// share and count are of JSON bodies only.
	share *bodies.Body
	count *shallow.Counter
}

// pieceRead is how much of a body has to come within Options.BodyIdle, unless it ends.
const pieceRead = 16 << 10

func (i *Interpreter) guard(w http.ResponseWriter, r *http.Request, limit int64, over string, upload bool) (*guarded, error) {
	g := &guarded{
		body: http.MaxBytesReader(w, r.Body, limit), ctl: http.NewResponseController(w),
		idle: i.o.BodyIdle, until: time.Now().Add(i.o.BodyTime), upload: upload, over: over,
	}
	if r.ContentLength > limit {
		return nil, g.tooLarge()
	}
	return g, nil
}

func (g *guarded) Read(p []byte) (int, error) {
	began := time.Now()
	next := began.Add(g.idle - g.waited)
	if next.After(g.until) {
		next = g.until
	}
	_ = g.ctl.SetReadDeadline(next) // not every server can
	n, err := g.body.Read(p)
	// Only waiting counts: what is done with the body may take its time.
	g.waited += time.Since(began)
	if g.piece += n; g.piece >= pieceRead {
		g.waited, g.piece = 0, 0
	}
	if refused := g.weigh(p[:n]); refused != nil {
		return 0, refused
	}
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, g.tooSlow(err)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return n, g.tooLarge()
	}
	return n, &brokenBody{err}
}

// done lets the connection be read without a deadline again, after a body that
// was read to its end: the server watches it for the client going away.
func (g *guarded) done() { _ = g.ctl.SetReadDeadline(time.Time{}) }

func (g *guarded) tooSlow(cause error) error {
	e := &host.HTTPError{Status: http.StatusRequestTimeout, Code: "body_timeout", Message: "the body did not arrive in time", Cause: cause}
	if g.upload {
		e.Status, e.Message = http.StatusGatewayTimeout, "Upload timeout"
	}
	return e
}

func (g *guarded) tooLarge() error {
	return refuse(http.StatusRequestEntityTooLarge, "too_large", g.over)
}

// brokenBody: the client went away, or sent what HTTP cannot read.
type brokenBody struct{ err error }

func (e *brokenBody) Error() string { return "read the body: " + e.err.Error() }
func (e *brokenBody) Unwrap() error { return e.err }

// readBody reads a JSON body of up to limit bytes, which share counts unless it is nil.
func (i *Interpreter) readBody(w http.ResponseWriter, r *http.Request, limit int64, share *bodies.Body) ([]byte, error) {
	g, err := i.guard(w, r, limit, fmt.Sprintf("the body is larger than %d bytes", limit), false)
	if err != nil {
		return nil, err
	}
	if share != nil {
		g.weighed(share)
	}
	b, err := io.ReadAll(g)
	return b, g.read(err)
}

// read ends the reading of a body with its error, which it returns for the caller.
func (g *guarded) read(err error) error {
	if _, broken := errors.AsType[*brokenBody](err); broken {
		return &host.HTTPError{Status: http.StatusBadRequest, Code: "invalid_body", Message: "the body could not be read", Cause: err}
	}
	if err == nil {
		g.done()
	}
	return err
}
