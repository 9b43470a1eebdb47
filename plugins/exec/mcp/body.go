package mcp

import (
	"bytes"
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

// maxValues bounds the values of a body, of which the protocol's library makes several each
// while it decodes and checks them, and messages, of which each is answered. A call of
// run_code with everything that may be in it has six thousand.
const maxValues = 32 << 10

// weight is for how many bytes of a request to the routes a byte of a body counts: a text is
// taken out of the protocol, checked, and packed up again, where some characters take six.
const weight = 2

// read takes in a body, which has to arrive in time and is counted by share, and puts it back.
func (s *Server) read(w http.ResponseWriter, r *http.Request, share *bodies.Body) ([]byte, *host.HTTPError) {
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Now().Add(s.o.BodyTime)) // not every server can
	b, err := io.ReadAll(&weighed{
		r: http.MaxBytesReader(w, r.Body, s.o.BodyBytes), share: share, count: shallow.Counter{Values: maxValues},
	})
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, refusal(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body is larger than %d bytes", s.o.BodyBytes))
	}
	switch {
	case errors.Is(err, bodies.ErrFull):
		return nil, busy("too many large requests at once")
	case errors.Is(err, shallow.ErrTooMany):
		return nil, refusal(http.StatusBadRequest, "invalid_request", fmt.Sprintf("the body has more than %d values", maxValues))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &host.HTTPError{Status: http.StatusRequestTimeout, Code: "body_timeout", Message: "the body did not arrive in time", Cause: err}
	case err != nil:
		return nil, &host.HTTPError{Status: http.StatusBadRequest, Code: "invalid_body", Message: "the body could not be read", Cause: err}
	}
	_ = ctl.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(b))
	return b, nil
}

// weighed is a body whose bytes and values are counted while it comes in.
type weighed struct {
	r     io.Reader
	share *bodies.Body
	count shallow.Counter
}

func (b *weighed) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err := b.share.Read(weight * n); err != nil {
		return 0, err
	}
	if _, err := b.count.Write(p[:n]); err != nil {
		return 0, err
	}
	return n, err
}
