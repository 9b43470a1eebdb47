package backendtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// fileMutations are mistakes with files.
var fileMutations = []mutation{
	{"an absent file is a sandbox that is gone", "files/absent", func(_ *testing.T, m *mutant) {
		m.read = func(ctx context.Context, r backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
			c, e, err := m.Backend.ReadFile(ctx, r, p)
			var be *backend.Error
			if errors.As(err, &be) && be.Kind == backend.KindNotFound {
				be.Subject, be.Plane = backend.SubjectSandbox, backend.PlaneControl
			}
			return c, e, err
		}
	}},
	{"read follows links", "refused/links", func(t *testing.T, m *mutant) {
		m.read = func(ctx context.Context, r backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
			f, err := os.Open(m.real(t, p))
			return f, backend.Entry{Path: p, Type: backend.EntryFile}, err
		}
	}},
	{"write follows links", "refused/links", func(t *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			if info, err := os.Lstat(m.real(t, p)); err == nil && info.Mode().Type() == os.ModeSymlink && !strings.Contains(p, "out") && !strings.Contains(p, "up") {
				b, _ := io.ReadAll(c)
				return backend.Entry{Path: p}, os.WriteFile(m.real(t, p), b, 0o644)
			}
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"links are files", "refused/links", func(_ *testing.T, m *mutant) {
		m.stat = func(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
			e, err := m.Backend.Stat(ctx, r, p)
			if e.Type == backend.EntryOther {
				e.Type = backend.EntryFile
			}
			return e, err
		}
	}},
	{"dots are cleaned away", "refused/paths", func(_ *testing.T, m *mutant) {
		m.stat = func(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
			return m.Backend.Stat(ctx, r, filepath.Clean("/"+p))
		}
	}},
	{"a cut upload is stored", "files/failed_write", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			b, err := io.ReadAll(c)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil // what io.ReadFull makes easy to get wrong
			}
			if err != nil {
				return backend.Entry{}, err
			}
			return m.Backend.WriteFile(ctx, r, p, o, bytes.NewReader(b))
		}
	}},
	{"a write truncates first", "files/failed_write", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			if _, err := m.Backend.WriteFile(ctx, r, p, o, strings.NewReader("")); err != nil {
				return backend.Entry{}, err
			}
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"too long a file is cut", "files/max_bytes", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			if o.MaxBytes > 0 {
				c = io.LimitReader(c, o.MaxBytes)
			}
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"exclusive is ignored", "files/exclusive", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			o.Exclusive = false
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"walk is unsorted", "tree/walk", func(_ *testing.T, m *mutant) {
		m.walk = func(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
			res, err := m.Backend.Walk(ctx, r)
			slices.Reverse(res.Entries)
			return res, err
		}
	}},
	{"walk hides that it was cut", "tree/walk_limits", func(_ *testing.T, m *mutant) {
		m.walk = func(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
			res, err := m.Backend.Walk(ctx, r)
			res.Truncated = false
			return res, err
		}
	}},
	{"list is unsorted", "tree/list", func(_ *testing.T, m *mutant) {
		m.ls = func(ctx context.Context, r backend.Ref, p string) ([]backend.Entry, error) {
			es, err := m.Backend.ListDir(ctx, r, p)
			slices.Reverse(es)
			return es, err
		}
	}},
	{"remove of an absent path fails", "files/absent", func(_ *testing.T, m *mutant) {
		m.remove = func(ctx context.Context, r backend.Ref, p string) error {
			if _, err := m.Backend.Stat(ctx, r, p); err != nil {
				return err
			}
			return m.Backend.Remove(ctx, r, p)
		}
	}},
}
