package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Files is a session's file store. Paths are absolute or relative to the layout's
// root, and have to be where their use allows (package workspace). That no link
// leads out of there is the backend's part.
//
// Only writing makes a sandbox. Looking around neither makes nor wakes one: a
// paused sandbox is ErrPaused. Reading a file may wake it.
type Files struct{ m *Manager }

// Files returns the file store, or ErrUnsupported where the backend cannot list
// files.
func (m *Manager) Files(ctx context.Context) (*Files, error) {
	if _, err := m.begin("-"); err != nil {
		return nil, err
	}
	t, err := m.target(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Release()
	if !t.Info.Has(backend.CapFSEnum) {
		return nil, fmt.Errorf("session files: %w", ErrUnsupported)
	}
	return &Files{m}, nil
}

// File is one file to write.
type File struct {
	Path string
	// Content is read to its end.
	Content io.Reader
	backend.WriteOptions
}

// List returns the regular files and directories below dir, recursively, as
// backend.Backend.Walk does; truncated says that there are more. A session without
// a sandbox has none.
func (f *Files) List(ctx context.Context, session, dir string) (entries []backend.Entry, truncated bool, err error) {
	root, err := f.m.o.Layout.Read(dir)
	if err != nil {
		return nil, false, err
	}
	var res backend.WalkResult
	err = f.look(ctx, session, func(t Target, ref backend.Ref) (err error) {
		res, err = t.Backend.Walk(ctx, backend.WalkRequest{Ref: ref, Root: root})
		return err
	})
	if err != nil {
		if absent(err) || isFile(err) {
			err = nil
		}
		return nil, false, err
	}
	for _, e := range res.Entries {
		if e.Type != backend.EntryOther {
			entries = append(entries, e)
		}
	}
	return entries, res.Truncated, nil
}

// Stat describes a file or directory. Without a sandbox it is ErrNoSandbox.
func (f *Files) Stat(ctx context.Context, session, path string) (e backend.Entry, err error) {
	abs, err := f.m.o.Layout.Read(path)
	if err != nil {
		return e, err
	}
	err = f.look(ctx, session, func(t Target, ref backend.Ref) (err error) {
		e, err = t.Backend.Stat(ctx, ref, abs)
		return err
	})
	return e, err
}

// Read opens a regular file, waking a paused sandbox. Without a sandbox it is
// ErrNoSandbox. The caller closes the reader, which holds the plugin until then.
func (f *Files) Read(ctx context.Context, session, path string) (io.ReadCloser, backend.Entry, error) {
	abs, err := f.m.o.Layout.Read(path)
	if err != nil {
		return nil, backend.Entry{}, err
	}
	t, b, err := f.m.lookup(ctx, session)
	if err != nil {
		return nil, backend.Entry{}, err
	}
	sb, err := f.m.connect(ctx, t, b)
	if err == nil {
		var r io.ReadCloser
		var e backend.Entry
		if r, e, err = t.Backend.ReadFile(ctx, sb.Ref, abs); err == nil {
			return &reader{r, t.Release}, e, nil
		}
	}
	t.Release()
	return nil, backend.Entry{}, gone(err)
}

type reader struct {
	io.ReadCloser
	release func()
}

func (r *reader) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}

// EnsureDir makes a directory where a sandbox is bound. Without one there is
// nothing to do: writing makes what it needs.
func (f *Files) EnsureDir(ctx context.Context, session, dir string) error {
	abs, err := f.m.o.Layout.Write(dir)
	if err != nil {
		return err
	}
	err = f.look(ctx, session, func(t Target, ref backend.Ref) error { return t.Backend.MakeDir(ctx, ref, abs) })
	if absent(err) {
		return nil
	}
	return err
}

// RemoveInput deletes an attachment. Without a sandbox there is none.
func (f *Files) RemoveInput(ctx context.Context, session, path string) error {
	abs, err := f.m.o.Layout.WriteInput(path)
	if err != nil {
		return err
	}
	err = f.look(ctx, session, func(t Target, ref backend.Ref) error { return t.Backend.Remove(ctx, ref, abs) })
	if absent(err) {
		return nil
	}
	return err
}

// WriteInput writes attachments, which programs are to read and not to change.
func (f *Files) WriteInput(ctx context.Context, session string, files ...File) error {
	return f.write(ctx, session, f.m.o.Layout.WriteInput, files)
}

// Write writes files into the work tree, Input excepted.
func (f *Files) Write(ctx context.Context, session string, files ...File) error {
	return f.write(ctx, session, f.m.o.Layout.Write, files)
}

// Install writes files of an installation. Never offer it to a model.
func (f *Files) Install(ctx context.Context, session string, files ...File) error {
	return f.write(ctx, session, f.m.o.Layout.Install, files)
}

// write checks every path before anything is made, resolves the session once and
// writes in order. What came before a failure stays.
func (f *Files) write(ctx context.Context, session string, rule func(string) (string, error), files []File) error {
	abs := make([]string, len(files))
	for i, file := range files {
		var err error
		if abs[i], err = rule(file.Path); err != nil {
			return fmt.Errorf("files[%d]: %w", i, err)
		}
		if file.Content == nil {
			return fmt.Errorf("files[%d]: no content", i)
		}
	}
	if len(files) == 0 {
		return nil
	}
	x, err := f.m.resolve(ctx, session)
	if err != nil {
		return err
	}
	defer x.Release()
	if err := x.Backend.MakeDir(ctx, x.sb.Ref, f.m.o.Layout.Output); err != nil {
		return fmt.Errorf("prepare the workspace: %w", err)
	}
	for i, file := range files {
		if _, err := x.Backend.WriteFile(ctx, x.sb.Ref, abs[i], file.WriteOptions, file.Content); err != nil {
			return fmt.Errorf("write %q: %w", file.Path, err)
		}
	}
	return nil
}

// look does something in the bound sandbox as it is.
func (f *Files) look(ctx context.Context, session string, do func(Target, backend.Ref) error) error {
	t, b, err := f.m.lookup(ctx, session)
	if err != nil {
		return err
	}
	defer t.Release()
	ref := backend.Ref{Config: t.Config, ID: b.Sandbox}
	err = do(t, ref)
	if backend.KindOf(err) == backend.KindConflict {
		// A sandbox that is asleep says so in its own words.
		if asleep := running(ctx, t, ref); errors.Is(asleep, ErrPaused) {
			return asleep
		}
	}
	return gone(err)
}

// gone adds ErrNoSandbox to proof that the sandbox is gone.
func gone(err error) error {
	if err != nil && backend.ProvesGone(err) {
		return fmt.Errorf("%w: %w", ErrNoSandbox, err)
	}
	return err
}

// isFile reports whether err is about a file that is not there.
func isFile(err error) bool {
	var e *backend.Error
	return errors.As(err, &e) && e.Kind == backend.KindNotFound && e.Subject == backend.SubjectFile
}
