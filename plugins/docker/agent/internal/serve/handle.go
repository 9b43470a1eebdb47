//go:build linux

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/tree"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// handle answers one request.
func (s *Server) handle(st *agentwire.Stream) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-st.Canceled():
			cancel()
		case <-ctx.Done():
		}
	}()
	if st.Op() != agentwire.OpStatus {
		s.Host.Touch()
	}
	st.End(s.answer(ctx, st))
}

func (s *Server) answer(ctx context.Context, st *agentwire.Stream) []byte {
	switch st.Op() {
	case agentwire.OpStatus:
		return s.status()
	case agentwire.OpRetire:
		return s.retire(st)
	case agentwire.OpListen:
		return s.listen(st)
	case agentwire.OpStat, agentwire.OpList, agentwire.OpMakeDir, agentwire.OpRemove, agentwire.OpRead:
		var p agentwire.Path
		if err := st.Request(&p); err != nil {
			return fault(invalid(err))
		}
		if err := files.CheckPath(p.Path); err != nil {
			return fault(invalid(err))
		}
		return s.path(ctx, st, p.Path)
	case agentwire.OpWalk:
		return s.walk(ctx, st)
	case agentwire.OpWrite:
		return s.write(ctx, st)
	case agentwire.OpRun:
		return s.run(ctx, st)
	case agentwire.OpAttach:
		return s.attach(ctx, st)
	case agentwire.OpKill:
		return s.kill(ctx, st)
	case agentwire.OpTerminal:
		return s.terminal(ctx, st)
	case agentwire.OpDial:
		return s.dial(ctx, st)
	case agentwire.OpWatch:
		return s.watch(ctx, st)
	case agentwire.OpControl:
		return s.control(ctx, st)
	}
	return fault(&agentwire.Fault{Kind: "unsupported", Text: fmt.Sprintf("the agent knows no operation %d", st.Op())})
}

func fault(err error) []byte { return agentwire.Answer(nil, work.Fault(err)) }

func invalid(err error) error {
	return &agentwire.Fault{Kind: "invalid_request", Text: err.Error()}
}

// done is the answer that holds nothing, unless err is something.
func done(err error) []byte {
	if err != nil {
		return fault(err)
	}
	return agentwire.Answer(&agentwire.Empty{}, nil)
}

func (s *Server) status() []byte {
	facts, err := kernel.ReadFacts()
	if err != nil {
		return fault(err)
	}
	m := agentwire.Status{
		Started: s.started, UID: s.Host.FS.UID, GID: s.Host.FS.GID,
		Caps: facts.Caps, Bounding: facts.Bounding, NoNewPrivs: facts.NoNewPrivs, Seccomp: facts.Seccomp,
		MemoryLimit: kernel.MemoryLimit(), PidsLimit: kernel.PidsLimit(),
		Goroutines: runtime.NumGoroutine(), Descriptors: descriptors(), Children: kernel.Children(),
	}
	m.Busy, m.Idle = s.Host.Busy()
	return agentwire.Answer(&m, nil)
}

func descriptors() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list) - 1
}

func (s *Server) retire(st *agentwire.Stream) []byte {
	var m agentwire.Retire
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	if n, _ := s.Host.Busy(); n > 0 && !m.Force {
		return fault(&agentwire.Fault{Kind: "conflict", Text: fmt.Sprintf("%d programs are under way", n)})
	}
	s.mu.Lock()
	for _, l := range s.paths {
		_ = l.Close()
	}
	s.mu.Unlock()
	s.Host.EndAll()
	time.AfterFunc(50*time.Millisecond, s.Exit) // the answer goes first
	return done(nil)
}

func (s *Server) listen(st *agentwire.Stream) []byte {
	var m agentwire.Listen
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	if err := files.CheckPath(m.Path); err != nil {
		return fault(invalid(err))
	}
	if work.IsProgram(m.UID) || m.UID < 0 {
		return fault(invalid(fmt.Errorf("user %d is one that programs have", m.UID)))
	}
	return done(s.Listen(m.Path, m.UID))
}

func (s *Server) path(ctx context.Context, st *agentwire.Stream, p string) []byte {
	fs := s.Host.FS
	switch st.Op() {
	case agentwire.OpStat:
		e, err := fs.Stat(ctx, p)
		return listing(err, e)
	case agentwire.OpList:
		list, err := fs.List(ctx, p)
		return sendListing(ctx, st, list, false, err)
	case agentwire.OpMakeDir:
		return done(fs.MakeDir(ctx, p))
	case agentwire.OpRemove:
		return done(fs.Remove(ctx, p))
	}
	return s.read(ctx, st, p)
}

func listing(err error, entries ...files.Entry) []byte {
	if err != nil {
		return fault(err)
	}
	return agentwire.Answer(&agentwire.Listing{Entries: entries}, nil)
}

// sendListing answers with entries, those that do not fit into one frame before it.
func sendListing(ctx context.Context, st *agentwire.Stream, list []files.Entry, truncated bool, err error) []byte {
	if err == nil {
		list, err = sendEntries(ctx, st, list)
	}
	if err != nil {
		return fault(err)
	}
	return agentwire.Answer(&agentwire.Listing{Entries: list, Truncated: truncated}, nil)
}

// portion is how much of a list is put into one message: paths have at most 4 KiB.
const portion = agentwire.MaxData - 8<<10

// sendEntries sends all but the last portion of a list.
func sendEntries(ctx context.Context, st *agentwire.Stream, list []files.Entry) ([]files.Entry, error) {
	begin, size := 0, 0
	for i := range list {
		if size += len(list[i].Path) + 128; size > portion {
			if err := st.SendMessage(ctx, agentwire.ChanEntries, &agentwire.Listing{Entries: list[begin:i]}); err != nil {
				return nil, err
			}
			begin, size = i, len(list[i].Path)+128
		}
	}
	return list[begin:], nil
}

func (s *Server) walk(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Walk
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	if err := files.CheckPath(m.Root); err != nil {
		return fault(invalid(err))
	}
	list, truncated, err := s.Host.FS.Walk(ctx, m.Root, tree.WalkOptions{
		MaxEntries: m.MaxEntries, MaxDepth: m.MaxDepth, Digests: m.Digests, MaxDigestBytes: m.MaxDigestBytes, Exclude: m.Exclude,
	}, s.Host.Index)
	return sendListing(ctx, st, list, truncated, err)
}

// inline is how much content goes into the answer itself.
const inline = 60 << 10

func (s *Server) read(ctx context.Context, st *agentwire.Stream, p string) []byte {
	f, e, err := s.Host.FS.Open(ctx, p)
	if err != nil {
		return fault(err)
	}
	defer f.Close()
	if e.Size <= inline {
		b, err := io.ReadAll(io.LimitReader(f, e.Size))
		if err != nil {
			return fault(err)
		}
		e.Size = int64(len(b)) // it may have shrunk
		return agentwire.Answer(&agentwire.Content{Entry: e, Inline: true, Data: b}, nil)
	}
	if err := st.SendMessage(ctx, agentwire.ChanStarted, &agentwire.Content{Entry: e}); err != nil {
		return fault(err)
	}
	buf := make([]byte, agentwire.MaxData)
	for left := e.Size; left > 0; {
		n, err := f.Read(buf[:min(int64(len(buf)), left)])
		if n > 0 {
			if err := st.Send(ctx, agentwire.ChanContent, buf[:n]); err != nil {
				return fault(err)
			}
			left -= int64(n)
		}
		if errors.Is(err, io.EOF) {
			return fault(&agentwire.Fault{Kind: "conflict", Subject: "file", Text: "the file became shorter while it was read"})
		}
		if err != nil {
			return fault(err)
		}
	}
	return agentwire.Answer(&agentwire.Content{Entry: e}, nil)
}

func (s *Server) write(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Write
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	if err := files.CheckPath(m.Path); err != nil {
		return fault(invalid(err))
	}
	w, err := s.Host.FS.Create(ctx, m.Path, tree.WriteOptions{Mode: m.Mode, MaxBytes: m.MaxBytes, Exclusive: m.Exclusive})
	if err != nil {
		return fault(err)
	}
	defer w.Abort()
	if m.Inline {
		_, err = w.Write(m.Data)
	} else {
		err = receiveContent(ctx, st, w)
	}
	if err != nil {
		return fault(err)
	}
	e, err := w.Commit(ctx)
	return listing(err, e)
}

// receiveContent writes what comes on ChanContent to w, to its end.
func receiveContent(ctx context.Context, st *agentwire.Stream, w io.Writer) error {
	for {
		it, err := st.Recv(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return context.Canceled
		case err != nil:
			return err
		case it.Channel != agentwire.ChanContent:
			return &agentwire.Fault{Kind: "invalid_request", Text: "something else in the content"}
		case !it.Message:
			if _, err := w.Write(it.Data); err != nil {
				return err
			}
			continue
		}
		var end agentwire.ContentEnd
		if err := agentwire.Decode(it.Data, &end); err != nil {
			return err
		}
		if end.Failed {
			return context.Canceled
		}
		return nil
	}
}
