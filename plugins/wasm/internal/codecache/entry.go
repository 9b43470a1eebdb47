package codecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"

	"github.com/caisson-run/caisson/plugins/wasm/internal/cachedir"
)

// entry is the locked place of one module in the cache.
type entry struct {
	dir    string // holds wazero's directory and nothing else
	module string // file with the rewritten module
	sum    string // file with our digests
	lock   *os.File
}

// sums is the content of the sum file.
type sums struct {
	Code   digest `json:"code"`
	Module digest `json:"module"`
}

// digest is that of a file.
type digest struct {
	File   string `json:"file"` // below entry.dir; empty for the module
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// openEntry prepares the directory and takes the entry's lock.
func openEntry(ctx context.Context, dir, key string) (*entry, error) {
	if err := cachedir.Open(dir); err != nil {
		return nil, err
	}
	base := cachedir.Base(dir, key, Generation())
	lock, err := cachedir.Lock(ctx, base)
	if err != nil {
		return nil, err
	}
	return &entry{dir: base + ".d", module: base + ".wasm", sum: base + ".sum", lock: lock}, nil
}

func (e *entry) close() { _ = e.lock.Close() } // and the lock with it

// load uses the entry if it is sound; if it is not, it compiles and fills it, or
// returns nil if that is not wanted.
func (e *entry) load(ctx context.Context, j job, compile bool) (*Module, error) {
	rw, cached := e.verify()
	var err error
	if !cached && !compile {
		return nil, nil
	}
	if !cached {
		if rw, err = j.rewrite(); err != nil {
			return nil, err
		}
		if err := e.wipe(); err != nil {
			return j.withoutCache(ctx, err)
		}
	}
	cache, err := wazero.NewCompilationCacheWithDir(e.dir)
	if err != nil {
		return j.withoutCache(ctx, fmt.Errorf("code cache: %w", err))
	}
	m, err := j.compile(ctx, rw, cache)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// Whatever the digest says, this entry does not work.
		return j.withoutCache(ctx, errors.Join(err, e.wipe()))
	}
	m.Cached = cached
	if !cached {
		m.CacheErr = e.seal(rw)
	}
	return m, nil
}

// verify reads the rewritten module; ok tells that it and the directory are what
// was sealed.
func (e *entry) verify() (rw rewritten, ok bool) {
	raw, err := os.ReadFile(e.sum)
	if err != nil {
		return rw, false
	}
	var want sums
	if json.Unmarshal(raw, &want) != nil || want.Code.File == "" {
		return rw, false
	}
	if code, err := e.digest(); err != nil || code != want.Code {
		return rw, false
	}
	raw, err = os.ReadFile(e.module)
	if err != nil || digestOf(raw) != want.Module {
		return rw, false
	}
	return decode(raw)
}

func digestOf(b []byte) digest {
	sum := sha256.Sum256(b)
	return digest{Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}

// wipe deletes the entry.
func (e *entry) wipe() error {
	if err := errors.Join(os.RemoveAll(e.sum), os.RemoveAll(e.dir), os.RemoveAll(e.module)); err != nil {
		return fmt.Errorf("code cache: delete entry: %w", err)
	}
	return nil
}

// seal keeps the rewritten module and records the digests, of it and of what
// wazero has written.
func (e *entry) seal(rw rewritten) error {
	code, err := e.digest()
	if err != nil {
		return errors.Join(fmt.Errorf("code cache: %w", err), e.wipe())
	}
	module := rw.encode()
	raw, err := json.Marshal(sums{code, digestOf(module)})
	if err == nil {
		err = errors.Join(cachedir.Replace(e.module, module), cachedir.Replace(e.sum, raw))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("code cache: record digest: %w", err), e.wipe())
	}
	return nil
}

// digest reads the single file of the entry.
func (e *entry) digest() (digest, error) {
	var d digest
	err := filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if d.File != "" || !entry.Type().IsRegular() {
			return errors.New("entry has more than one file")
		}
		if d.File, err = filepath.Rel(e.dir, path); err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		h := sha256.New()
		if d.Bytes, err = io.Copy(h, f); err != nil {
			return err
		}
		d.SHA256 = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	if err == nil && d.File == "" {
		err = errors.New("entry has no file")
	}
	if strings.HasSuffix(d.File, ".tmp") {
		err = errors.New("entry is unfinished")
	}
	return d, err
}
