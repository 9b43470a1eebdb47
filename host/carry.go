package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// carried is a run whose inputs come, in part, from sandboxes of another version of
// the plugin: the version that runs it cannot copy those itself, so the host carries
// them over.
type carried struct {
	backend.RunIO
	spec    backend.RunSpec
	missing []string // optional inputs that are not to be had
	// was is the index in the caller's inputs of each of spec.Inputs, open what
	// carries it over in its place.
	was  []int
	open map[int]func() (io.ReadCloser, error)

	mu  sync.Mutex
	all []io.Closer
}

// carry prepares a run on b.
func (r *routed) carry(ctx context.Context, b everything, spec backend.RunSpec, live backend.RunIO) (*carried, error) {
	c := &carried{RunIO: live, spec: spec, open: make(map[int]func() (io.ReadCloser, error))}
	c.spec.Inputs = nil
	for i, in := range spec.Inputs {
		if from := in.CopyFrom; from != nil {
			ref := backend.Ref{Config: spec.Config, ID: from.ID}
			source, _, err := r.to(ctx, ref)
			if err != nil {
				return nil, err
			}
			if source != b {
				if err := sourceHas(ctx, source, ref, *from); err != nil {
					if in.Optional && (backend.IsNotFound(err) || backend.KindOf(err) == backend.KindInvalidRequest) {
						c.missing = append(c.missing, in.Path)
						continue
					}
					return nil, err
				}
				in.CopyFrom, in.Chunked = nil, true
				c.open[len(c.was)] = func() (io.ReadCloser, error) {
					content, _, err := source.ReadFile(ctx, ref, from.Path)
					return content, err
				}
			}
		}
		c.was = append(c.was, i)
		c.spec.Inputs = append(c.spec.Inputs, in)
	}
	return c, nil
}

// sourceHas looks whether a file can be copied, before anything is spent.
func sourceHas(ctx context.Context, b everything, ref backend.Ref, from backend.CopySource) error {
	const op = "Run"
	content, e, err := b.ReadFile(ctx, ref, from.Path)
	if err != nil {
		return err
	}
	defer content.Close()
	got := e.SHA256
	if from.SHA256 == "" || got == from.SHA256 {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return err
	}
	if got = hex.EncodeToString(sum.Sum(nil)); got != from.SHA256 {
		err := backend.Errorf(backend.KindNotFound, op, "a file to copy has changed")
		err.Subject = backend.SubjectFile
		return err
	}
	return nil
}

// Input implements backend.RunIO.
func (c *carried) Input(i int) (io.Reader, error) {
	open, ok := c.open[i]
	if !ok {
		return c.RunIO.Input(c.was[i])
	}
	content, err := open()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, content)
	return content, nil
}

func (c *carried) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.all {
		_ = r.Close()
	}
}
