package envdfake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/fsnotify/fsnotify"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb"
)

// watcher reports changes below a directory.
type watcher struct {
	m         *Machine
	path      string // of the machine
	real      string
	recursive bool
	entries   bool
	notify    *fsnotify.Watcher
	once      sync.Once

	mu     sync.Mutex
	events []*filesystempb.FilesystemEvent // of one that is polled
}

func (m *Machine) watch(p string, recursive, entries bool) (*watcher, error) {
	real, err := m.real(p, true)
	if err != nil {
		return nil, fsError(err, p)
	}
	i, err := os.Stat(real)
	switch {
	case err != nil:
		return nil, failf(connect.CodeNotFound, "path %s not found", p)
	case !i.IsDir():
		return nil, failf(connect.CodeInvalidArgument, "path %s not a directory", p)
	}
	w := &watcher{m: m, path: p, real: real, recursive: recursive, entries: entries}
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		return nil, failf(connect.CodeInternal, "%v", err)
	}
	if err := w.add(real); err != nil {
		w.close()
		return nil, failf(connect.CodeInternal, "%v", err)
	}
	return w, nil
}

// add watches a directory and, if asked to, all below it.
func (w *watcher) add(real string) error {
	if !w.recursive {
		return w.notify.Add(real)
	}
	return filepath.WalkDir(real, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // what went meanwhile is not watched
		}
		return w.notify.Add(p)
	})
}

func (w *watcher) close() { w.once.Do(func() { _ = w.notify.Close() }) }

var eventTypes = []struct {
	op   fsnotify.Op
	kind filesystempb.EventType
}{
	{fsnotify.Create, filesystempb.EventType_EVENT_TYPE_CREATE},
	{fsnotify.Write, filesystempb.EventType_EVENT_TYPE_WRITE},
	{fsnotify.Remove, filesystempb.EventType_EVENT_TYPE_REMOVE},
	{fsnotify.Rename, filesystempb.EventType_EVENT_TYPE_RENAME},
	{fsnotify.Chmod, filesystempb.EventType_EVENT_TYPE_CHMOD},
}

// translate makes the daemon's events of one of the system's.
func (w *watcher) translate(e fsnotify.Event) []*filesystempb.FilesystemEvent {
	name := strings.TrimPrefix(strings.TrimPrefix(e.Name, w.real), "/")
	if name == "" {
		return nil
	}
	var out []*filesystempb.FilesystemEvent
	for _, t := range eventTypes {
		if !e.Has(t.op) {
			continue
		}
		ev := &filesystempb.FilesystemEvent{Name: name, Type: t.kind}
		if w.entries {
			ev.Entry, _ = w.m.info(path.Join(w.path, name))
		}
		out = append(out, ev)
	}
	if w.recursive && e.Has(fsnotify.Create) {
		if i, err := os.Lstat(e.Name); err == nil && i.IsDir() {
			_ = w.add(e.Name)
		}
	}
	return out
}

func (s filesystemService) WatchDir(ctx context.Context, r *connect.Request[filesystempb.WatchDirRequest], out *connect.ServerStream[filesystempb.WatchDirResponse]) error {
	w, err := s.m.watch(s.path(r.Msg.GetPath(), r), r.Msg.GetRecursive(), r.Msg.GetIncludeEntry())
	if err != nil {
		return err
	}
	defer w.close()
	if err := out.Send(&filesystempb.WatchDirResponse{Event: &filesystempb.WatchDirResponse_Start{Start: &filesystempb.WatchDirResponse_StartEvent{}}}); err != nil {
		return err
	}
	tick := time.NewTicker(s.m.interval(r.Header()))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.m.closed:
			return errors.New("closed")
		case <-tick.C:
			err = out.Send(&filesystempb.WatchDirResponse{Event: &filesystempb.WatchDirResponse_Keepalive{Keepalive: &filesystempb.WatchDirResponse_KeepAlive{}}})
		case err = <-w.notify.Errors:
		case e, ok := <-w.notify.Events:
			if !ok {
				return nil
			}
			for _, ev := range w.translate(e) {
				if err = out.Send(&filesystempb.WatchDirResponse{Event: &filesystempb.WatchDirResponse_Filesystem{Filesystem: ev}}); err != nil {
					break
				}
			}
		}
		if err != nil {
			return failf(connect.CodeInternal, "%v", err)
		}
	}
}

func (s filesystemService) CreateWatcher(_ context.Context, r *connect.Request[filesystempb.CreateWatcherRequest]) (*connect.Response[filesystempb.CreateWatcherResponse], error) {
	w, err := s.m.watch(s.path(r.Msg.GetPath(), r), r.Msg.GetRecursive(), r.Msg.GetIncludeEntry())
	if err != nil {
		return nil, err
	}
	s.m.mu.Lock()
	id := fmt.Sprintf("w%d", len(s.m.watchers)+1)
	s.m.watchers[id] = w
	s.m.mu.Unlock()
	s.m.wg.Go(func() {
		for {
			select {
			case e, ok := <-w.notify.Events:
				if !ok {
					return
				}
				more := w.translate(e)
				w.mu.Lock()
				w.events = append(w.events, more...)
				w.mu.Unlock()
			case <-w.notify.Errors: // taken, or the watcher would wait for somebody to
			}
		}
	})
	return connect.NewResponse(&filesystempb.CreateWatcherResponse{WatcherId: id}), nil
}

func (s filesystemService) watcher(id string) (*watcher, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if w := s.m.watchers[id]; w != nil {
		return w, nil
	}
	return nil, failf(connect.CodeNotFound, "watcher with id %s not found", id)
}

func (s filesystemService) GetWatcherEvents(_ context.Context, r *connect.Request[filesystempb.GetWatcherEventsRequest]) (*connect.Response[filesystempb.GetWatcherEventsResponse], error) {
	w, err := s.watcher(r.Msg.GetWatcherId())
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	res := &filesystempb.GetWatcherEventsResponse{Events: w.events}
	w.events = nil
	return connect.NewResponse(res), nil
}

func (s filesystemService) RemoveWatcher(_ context.Context, r *connect.Request[filesystempb.RemoveWatcherRequest]) (*connect.Response[filesystempb.RemoveWatcherResponse], error) {
	w, err := s.watcher(r.Msg.GetWatcherId())
	if err != nil {
		return nil, err
	}
	w.close()
	s.m.mu.Lock()
	delete(s.m.watchers, r.Msg.GetWatcherId())
	s.m.mu.Unlock()
	return connect.NewResponse(&filesystempb.RemoveWatcherResponse{}), nil
}
