package envd

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb"
	"github.com/caisson-run/caisson/sdk/backend"
)

// ops are the daemon's words for what happened.
var ops = map[filesystempb.EventType]string{
	filesystempb.EventType_EVENT_TYPE_CREATE: "create",
	filesystempb.EventType_EVENT_TYPE_WRITE:  "write",
	filesystempb.EventType_EVENT_TYPE_REMOVE: "remove",
	filesystempb.EventType_EVENT_TYPE_RENAME: "rename",
	filesystempb.EventType_EVENT_TYPE_CHMOD:  "chmod",
}

// Watch implements backend.Watcher.
func (c *Client) Watch(ctx context.Context, ref backend.Ref, root string, recursive bool, fn func(backend.WatchEvent) error) error {
	const op = "Watch"
	if err := c.invalid(op, root); err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // the daemon is told of no deadline
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	silence := time.AfterFunc(c.opts.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	begun := false
	var heard error // the listener's own
	q := call{op: op, id: ref.ID, subject: backend.SubjectFile, again: true, spent: func() bool { return begun }}
	err := c.do(ctx, q, func(ctx context.Context, b *box) error {
		dir, err := c.about(ctx, b, op, root)
		if err != nil && root == backend.DataDir && backend.IsNotFound(err) {
			err = c.dataDir(ctx, b, op, &dir)
		}
		if err != nil {
			return err
		}
		if dir.Type != backend.EntryDir {
			return c.wrongType(op, "the path is no directory")
		}
		s, err := b.files.WatchDir(inner, request(&filesystempb.WatchDirRequest{Path: root, Recursive: recursive}))
		if err != nil {
			return err
		}
		defer s.Close()
		for s.Receive() {
			begun = true
			silence.Stop() // what the listener does is not the daemon's silence
			e := s.Msg().GetFilesystem()
			word := ops[e.GetType()]
			p := path.Join(root, e.GetName())
			if word != "" && backend.CheckPath(p) == nil && backend.Within(root, p) {
				if heard = fn(backend.WatchEvent{Path: p, Op: word}); heard != nil {
					return nil
				}
			}
			silence.Reset(c.opts.Silence)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(context.Cause(inner), errSilent):
			return c.fail(op, backend.KindUnavailable, "%w", errSilent)
		case s.Err() == nil:
			return c.fail(op, backend.KindUnavailable, "the daemon stopped watching")
		}
		return s.Err()
	})
	if heard != nil {
		return heard
	}
	return err
}
