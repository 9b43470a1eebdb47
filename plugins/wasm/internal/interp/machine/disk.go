package machine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/cachedir"
	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
)

// format is that of the file and part of each key: raise it when either changes, or
// what a boot does.
const format = "caisson-image-1\n"

// key stands for everything that made the image.
func (m *Machine) key() string {
	h := sha256.New()
	for _, part := range []any{m.cfg.Module.Key, codecache.Generation(), m.cfg.Argv, m.cfg.Env, m.cfg.Globals, m.cfg.Identity} {
		text, err := json.Marshal(part)
		if err != nil {
			panic("machine: " + err.Error()) // strings, and lists and maps of them
		}
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
		h.Write(text)
	}
	h.Write([]byte(format))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// prepare gets the image from the disk, or boots it and keeps it there.
func (m *Machine) prepare(ctx context.Context) (err error) {
	if m.cfg.Cache.Dir == "" {
		m.image, err = m.boot(ctx)
		return err
	}
	path, lock, err := m.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.cacheErr = err
		m.image, err = m.boot(ctx)
		return err
	}
	defer func() { _ = lock.Close() }()
	if m.image = m.load(path); m.image != nil {
		m.cached = true
		return nil
	}
	if m.image, err = m.boot(ctx); err != nil {
		return err
	}
	if b, err := m.image.encode(m.key()); err != nil {
		m.cacheErr = err
	} else {
		m.cacheErr = cachedir.Replace(path, b)
	}
	return nil
}

// open finds the image's file and takes its lock.
func (m *Machine) open(ctx context.Context) (path string, lock *os.File, err error) {
	if err := cachedir.Open(m.cfg.Cache.Dir); err != nil {
		return "", nil, err
	}
	base := cachedir.Base(m.cfg.Cache.Dir, m.key(), codecache.Generation())
	lock, err = cachedir.Lock(ctx, base)
	return base + ".image", lock, err
}

// load reads the image, nil if there is none or something about it is not right.
func (m *Machine) load(path string) *image {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil
	}
	i, err := decode(b, m.key())
	if err != nil || len(i.globals) != len(m.cfg.Globals) {
		return nil
	}
	return i
}

// maxFile bounds a file that is read as an image.
const maxFile = region.MaxBytes + 1<<20

// header is what precedes the memory's content in the file.
type header struct {
	Key     string   `json:"key"`
	Globals []uint64 `json:"globals"`
	State   []byte   `json:"state"`
	// Memory describes what follows.
	Memory region.Shape `json:"memory"`
}

// encode writes the format's name, the length of the header in 32 bits,
// little-endian, the header as JSON, the content of the memory, and a digest of all
// of that.
func (i *image) encode(key string) ([]byte, error) {
	shape, content := i.memory.Parts()
	head, err := json.Marshal(header{key, i.globals, i.state, shape})
	if err != nil {
		return nil, fmt.Errorf("machine: encode an image: %w", err)
	}
	b := make([]byte, 0, len(format)+4+len(head)+len(content)+sha256.Size)
	b = append(b, format...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	return sealed(append(append(b, head...), content...)), nil
}

// sealed appends the digest.
func sealed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decode reads what encode wrote for the same key.
func decode(b []byte, key string) (*image, error) {
	const prefix = len(format) + 4
	if len(b) < prefix+sha256.Size || string(b[:len(format)]) != format {
		return nil, errors.New("no image")
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if sha256.Sum256(b) != [sha256.Size]byte(sum) {
		return nil, errors.New("damaged image")
	}
	n := binary.LittleEndian.Uint32(b[len(format):])
	if uint64(n) > uint64(len(b)-prefix) {
		return nil, errors.New("damaged image")
	}
	var h header
	if err := json.Unmarshal(b[prefix:prefix+int(n)], &h); err != nil {
		return nil, fmt.Errorf("damaged image: %w", err)
	}
	if h.Key != key {
		return nil, errors.New("image of something else")
	}
	mem, err := region.FromParts(h.Memory, b[prefix+int(n):])
	if err != nil {
		return nil, err
	}
	return &image{mem, h.Globals, h.State}, nil
}
