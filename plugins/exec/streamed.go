package exec

import (
	"errors"
	"net/http"

	"github.com/caisson-run/caisson/plugins/exec/internal/events"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
)

// streamed answers a run with events while it happens (docs/wire.md): started,
// stdout and stderr, a file each, and result, or failure in the place of a refusal
// that comes after the first byte.
type streamed struct {
	w      http.ResponseWriter
	o      events.Options
	stream *events.Stream // once the run is admitted
}

var _ watcher = (*streamed)(nil)

// newStreamed returns an answer that cancels the run when nobody reads it.
func newStreamed(w http.ResponseWriter, o Options, cancel func()) *streamed {
	return &streamed{w: w, o: events.Options{Every: o.KeepAlive, Gone: func(error) { cancel() }}}
}

// open begins to send. It is called at most once, before anything is reported.
func (s *streamed) open() { s.stream = events.Open(s.w, s.o) }

func (s *streamed) Started(session string) {
	s.stream.Send("started", response.Encode(map[string]string{"session_id": session}))
}

func (s *streamed) Output(name string, p []byte) { s.stream.Output(name, p) }
func (s *streamed) End(name string, cut bool)    { s.stream.End(name, cut) }

func (s *streamed) end() {
	if s.stream != nil {
		_ = s.stream.Close() // a caller that went away is not ours to report
	}
}

func (s *streamed) result(res *CodeResult) {
	for _, f := range res.Files {
		if !f.Inherited {
			s.stream.Send("file", response.Encode(f))
		}
	}
	s.stream.Send("result", response.Encode(res))
	s.end()
}

func (s *streamed) fail(err error, _ *call) error {
	s.end()
	if s.stream == nil || !s.stream.Began() {
		return err
	}
	_ = s.stream.Last("failure", response.Encode(response.Body(asRefusal(err)))) // as above
	return errors.Join(err, errLate)
}
