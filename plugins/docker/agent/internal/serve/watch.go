//go:build linux

package serve

import (
	"context"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// watch reports changes below a directory.
func (s *Server) watch(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Watch
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	if err := files.CheckPath(m.Path); err != nil {
		return fault(invalid(err))
	}
	w, err := s.Host.FS.Watch(ctx, m.Path, m.Recursive)
	if err != nil {
		return fault(err)
	}
	defer w.Close()
	if err := st.SendMessage(ctx, agentwire.ChanStarted, &agentwire.Empty{}); err != nil {
		return fault(err)
	}
	return done(w.Run(ctx, func(path, op string) error {
		return st.SendMessage(ctx, agentwire.ChanEvents, &agentwire.Event{Path: path, Op: op})
	}))
}
