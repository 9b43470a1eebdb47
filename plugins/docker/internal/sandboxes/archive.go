package sandboxes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// archive is what the backend puts into a container before it starts. Every name in
// it is ours. The engine unpacks it within the container's root.
type archive struct {
	b  bytes.Buffer
	w  *tar.Writer
	at time.Time
}

func newArchive(now time.Time) *archive {
	a := &archive{at: now}
	a.w = tar.NewWriter(&a.b)
	return a
}

func (a *archive) dir(name string, mode int64, uid, gid int) {
	_ = a.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: strings.TrimPrefix(name, "/") + "/", Mode: mode, Uid: uid, Gid: gid, ModTime: a.at,
	})
}

func (a *archive) file(name string, mode int64, content []byte) {
	_ = a.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: mode, Size: int64(len(content)), ModTime: a.at,
	})
	_, _ = a.w.Write(content)
}

func (a *archive) reader() io.Reader {
	_ = a.w.Close() // to memory: it does not fail
	return &a.b
}

// furnish puts into a container what it needs before it starts: the directories of
// programs, scratch space, and the agent. A snapshot keeps the files it was made with.
func (b *Backend) furnish(ctx context.Context, c *config, id string, s shape) error {
	uid, gid, err := c.set.IDs()
	if err != nil {
		return err
	}
	a := newArchive(b.o.Now())
	a.dir(ownDir, 0o755, 0, 0)
	if !s.Bare {
		a.dir(path.Dir(backend.DataDir), 0o755, 0, 0)
		a.dir(backend.DataDir, 0o2775, uid, gid)
		a.dir(backend.TmpDir, 0o1777, 0, 0)
	}
	for _, v := range s.Volumes {
		if !v.ReadOnly {
			a.dir(v.Path, 0o2775, uid, gid) // a new one is root's
		}
	}
	a.dir(programDir, 0o2770, uid, gid)
	if s.Agent != "" {
		info, err := c.eng.Info(ctx)
		if err != nil {
			return err
		}
		digest, program, err := b.agents.find(info.Architecture)
		if err != nil || digest != s.Agent {
			return errAgent
		}
		a.file(agentclient.ProgramPath(digest), 0o755, program)
	}
	if s.Network == settings.NetworkNone {
		a.file("/etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	}
	return c.eng.Client(ctx).CopyToContainer(ctx, id, "/", a.reader(), container.CopyToContainerOptions{})
}

// putRecord writes a record into its container, where only root can read it.
func (b *Backend) putRecord(ctx context.Context, c *config, r record) error {
	a := newArchive(b.o.Now())
	a.dir(ownDir, 0o755, 0, 0)
	a.file(recordFile, 0o600, r.encode())
	return c.eng.Client(ctx).CopyToContainer(ctx, r.Container, "/", a.reader(), container.CopyToContainerOptions{})
}

// maxRecord bounds a record that is read from a container.
const maxRecord = 1 << 20

// readRecord reads a record out of a container, running or not. It has to be a
// plain file of root's that nobody else can write, and nothing else: this is the one
// archive that the backend reads.
func readRecord(ctx context.Context, c *config, id string) (record, error) {
	body, _, err := c.eng.Client(ctx).CopyFromContainer(ctx, id, recordFile)
	if err != nil {
		return record{}, err
	}
	defer body.Close()
	return parseRecordArchive(body, id)
}

var errRecord = errors.New("the container's record is damaged")

func parseRecordArchive(r io.Reader, container string) (record, error) {
	t := tar.NewReader(io.LimitReader(r, maxRecord+8<<10))
	h, err := t.Next()
	if err != nil {
		return record{}, errRecord
	}
	if h.Typeflag != tar.TypeReg || h.Name != path.Base(recordFile) || h.Uid != 0 || h.Mode&0o077 != 0 || h.Size > maxRecord {
		return record{}, errRecord
	}
	b, err := io.ReadAll(io.LimitReader(t, maxRecord))
	if err != nil {
		return record{}, errRecord
	}
	got, ok := decodeRecord(b, container)
	if !ok {
		return record{}, errRecord
	}
	return got, nil
}
