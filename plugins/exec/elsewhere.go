package exec

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/peer"
)

// elsewhere answers requests about a session in their path that is on another node,
// which admits for itself, before anybody is admitted here.
func (d *door) elsewhere(w http.ResponseWriter, r *http.Request) bool {
	peers := d.host.Peers()
	if err := peers.Check(r); err != nil {
		d.refused(r.Pattern)(w, r, asRefusal(err))
		return true
	}
	id := r.PathValue("sid")
	if id == "" {
		return false
	}
	node, err := peers.Away(r, id)
	if err != nil {
		d.refused(r.Pattern)(w, r, asRefusal(err))
		return true
	}
	if node == nil {
		return false
	}
	if err := d.pass(w, r, node, nil); err != nil {
		d.refused(r.Pattern)(w, r, asRefusal(err))
	}
	return true
}

// nodeOf is the node of the session that a run goes on in, nil where that is this
// one: the session that it names, else the first that one of its files names and that
// may be continued. A body is only read for callers who were let in; the node admits
// them once more, and only there they are charged.
func (d *door) nodeOf(r *http.Request, in *CodeRun) (*peer.Node, error) {
	peers := d.host.Peers()
	if peers == nil {
		return nil, nil
	}
	if in.SessionID != "" {
		return peers.Away(r, in.SessionID)
	}
	for k := range in.Files {
		if ref := &in.Files[k]; !sharedRef(ref) {
			// A run stays here if this file's session does; one that is gone counts as none.
			node, err := peers.Away(r, ref.session(""))
			if node != nil && err == nil {
				return node, nil
			}
		}
	}
	return nil, nil
}

// pass has a node answer. A body that is not nil takes the place of the request's.
func (d *door) pass(w http.ResponseWriter, r *http.Request, node *peer.Node, body io.Reader) error {
	annotate(r.Context(), "node", node.Name)
	id := w.Header().Get(host.RequestIDHeader)
	w.Header().Del(host.RequestIDHeader) // the node answers with the same
	var failure error
	node.Forward(w, r, body, func(err error) {
		w.Header().Set(host.RequestIDHeader, id)
		failure = &host.HTTPError{
			Status: http.StatusServiceUnavailable, Code: codeSandboxDown, RetryAfter: defaultRetry, Cause: err,
			Message: "the machine that has this session cannot be reached now",
		}
	})
	return failure
}

// replayed is a body whose beginning is kept, so that another node can be given all
// of it.
type replayed struct {
	io.Reader
	most int // bytes to keep; 0 is maxReplay

	mu   sync.Mutex
	kept []byte
	over bool // more was read than is kept
}

// maxReplay is how much of a form may come before its first file.
const maxReplay = 1 << 20

func (b *replayed) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		if b.over = len(b.kept)+n > cmp.Or(b.most, maxReplay); b.over {
			b.kept = nil
		} else {
			b.kept = append(b.kept, p[:n]...)
		}
	}
	return n, err
}

// forget keeps nothing any more.
func (b *replayed) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.over = nil, true
}

// awayError: an upload goes into a session on another node.
type awayError struct{ node *peer.Node }

func (e *awayError) Error() string { return fmt.Sprintf("the session is on node %q", e.node.Name) }
