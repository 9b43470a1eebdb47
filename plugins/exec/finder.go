package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/sdk/backend"
)

// finder answers for the length of one call which sessions there are and what is
// in them, asking about each at most once. It is not safe for concurrent use.
type finder struct {
	i     *Interpreter
	owner session.Owner
	found map[string]*finding
	// foreign is a session that turned out to be somebody else's.
	foreign string
}

// finding is one session as this call sees it.
type finding struct {
	session.Session
	err    error // of looking it up
	opened bool
	// index leaves caches out, whole does not: the first is nearly always enough.
	index, whole *index
}

func (i *Interpreter) finder(owner session.Owner) *finder {
	return &finder{i: i, owner: owner, found: make(map[string]*finding)}
}

// release gives every session back.
func (f *finder) release() {
	for _, x := range f.found {
		if x.err == nil {
			x.Release()
		}
	}
}

// lookup finds a session without waking it.
func (f *finder) lookup(ctx context.Context, id string) (*finding, error) {
	x := f.found[id]
	if x == nil {
		x = &finding{err: session.ErrNotFound}
		if identity.Syntax(id) {
			x.Session, x.err = f.i.host.Sessions().Lookup(ctx, f.owner, id)
		}
		f.found[id] = x
	}
	return x, x.err
}

// add makes a session known that this call created.
func (f *finder) add(x session.Session) *finding {
	n := &finding{Session: x, opened: true}
	f.found[x.ID] = n
	return n
}

// open makes a session ready for work, waking it if need be.
func (x *finding) open(ctx context.Context) error {
	if x.opened {
		return nil
	}
	sb, err := x.Connect(ctx, x.Sandbox.Ref, x.Sandbox.Token)
	if err != nil {
		if backend.ProvesGone(err) {
			return session.ErrNotFound
		}
		return fmt.Errorf("connect session: %w", err)
	}
	x.Sandbox, x.opened = sb, true
	return nil
}

// contents lists the regular files of an open or running session.
func (f *finder) contents(ctx context.Context, x *finding, exclude []string) ([]backend.Entry, error) {
	res, err := f.i.looks.walk(ctx, f.owner.Tenant, x, exclude)
	if err != nil {
		if backend.ProvesGone(err) {
			return nil, session.ErrNotFound
		}
		return nil, fmt.Errorf("list files of a session: %w", err)
	}
	files := res.Entries[:0]
	for _, e := range res.Entries {
		if _, ok := names.Relative(e.Path); ok && e.Type == backend.EntryFile {
			files = append(files, e)
		}
	}
	return files, nil
}

// index finds the files of a session by id and by name.
type index struct {
	byID   map[string]backend.Entry
	byName map[string]backend.Entry
}

func (f *finder) indexOf(id string, files []backend.Entry) *index {
	ix := &index{byID: make(map[string]backend.Entry, len(files)), byName: make(map[string]backend.Entry, len(files))}
	for _, e := range files {
		name, _ := names.Relative(e.Path)
		ix.byName[name] = e
		for _, fid := range f.i.host.Keys().FileIDs(id, name, version(e)) {
			ix.byID[fid] = e
		}
	}
	return ix
}

// find resolves a file id, or the path that stands for one.
func (ix *index) find(id string) (backend.Entry, bool) {
	if e, ok := ix.byID[id]; ok {
		return e, true
	}
	// As it is first: a program may give a file any name, and the index holds
	// nothing but what is there.
	if e, ok := ix.byName[id]; ok {
		return e, true
	}
	name, err := names.Ref(id)
	if err != nil {
		return backend.Entry{}, false
	}
	e, ok := ix.byName[name]
	return e, ok
}

// files opens a session and indexes it, once.
func (f *finder) files(ctx context.Context, x *finding) (*index, error) {
	if x.index != nil {
		return x.index, nil
	}
	if err := x.open(ctx); err != nil {
		return nil, err
	}
	files, err := f.contents(ctx, x, caches)
	if err != nil {
		return nil, err
	}
	x.index = f.indexOf(x.ID, files)
	return x.index, nil
}

// file resolves one file of a session. It returns session.ErrNotFound for a file
// or session that does not exist.
func (f *finder) file(ctx context.Context, x *finding, id string) (backend.Entry, error) {
	ix, err := f.files(ctx, x)
	if err != nil {
		return backend.Entry{}, err
	}
	if e, ok := ix.find(id); ok {
		return e, nil
	}
	// Rarely, somebody's file does lie in one of the caches.
	if x.whole == nil {
		all, err := f.contents(ctx, x, nil)
		if err != nil {
			return backend.Entry{}, err
		}
		x.whole = f.indexOf(x.ID, all)
	}
	if e, ok := x.whole.find(id); ok {
		return e, nil
	}
	return backend.Entry{}, session.ErrNotFound
}

// named finds the file of a name among those that were listed for this call.
func (x *finding) named(name string) (e backend.Entry, ok bool) {
	for _, ix := range []*index{x.index, x.whole} {
		if ix != nil && !ok {
			e, ok = ix.byName[name]
		}
	}
	return e, ok
}

// version is what of a file's content goes into its id.
func version(e backend.Entry) string {
	if e.SHA256 != "" {
		return e.SHA256
	}
	return fmt.Sprintf("%d bytes at %d", e.Size, e.Modified.UnixNano())
}

func (i *Interpreter) fileID(session, name string, e backend.Entry) string {
	return i.host.Keys().FileID(session, name, version(e))
}

func gone(err error) bool { return errors.Is(err, session.ErrNotFound) }
