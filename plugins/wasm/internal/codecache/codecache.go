// Package codecache compiles WebAssembly with a disk cache that cannot hurt.
//
// wazero's own cache trusts its files: a truncated entry makes compilation fail
// for ever and a flipped byte can end the process. Here each module has a
// directory of its own with exactly one entry and, beside it, our digest of
// that entry. An entry without a matching digest, or anything unexpected, is
// deleted and compiled anew; a directory that others may write to is not used
// at all, since its content is run as machine code. A broken cache costs time,
// never a failure.
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
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// scheme is part of each key; raise it when the layout or the options of the
// runtime change.
const scheme = "caisson-code-1"

// lockPoll is how often a lock held by another process is tried.
const lockPoll = 20 * time.Millisecond

// Module is a compiled module and the runtime it lives in, which nothing else
// shares.
type Module struct {
	Runtime wazero.Runtime
	Code    wazero.CompiledModule
	// Cached tells that the machine code came from the disk.
	Cached bool
	// CacheErr says why the cache was not used or not filled; the module is
	// good all the same. It is nil when no cache was asked for.
	CacheErr error

	cache wazero.CompilationCache
}

// Close releases the runtime with everything instantiated in it.
func (m *Module) Close(ctx context.Context) error {
	err := m.Runtime.Close(ctx)
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	return err
}

// Compile compiles wasm in a new runtime that stops guests when their context
// ends. dir is the cache directory, made if necessary, or "" for none.
//
// Concurrent calls for the same bytes, in this or other processes, compile once:
// the later ones wait for the first and read its result. The returned error is
// about wasm or ctx only.
func Compile(ctx context.Context, dir string, wasm []byte) (*Module, error) {
	if dir == "" {
		return compile(ctx, wasm, nil)
	}
	e, err := openEntry(ctx, dir, wasm)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m, compileErr := compile(ctx, wasm, nil)
		if m != nil {
			m.CacheErr = err
		}
		return m, compileErr
	}
	defer e.close()
	return e.compile(ctx, wasm)
}

// compile builds the runtime and the code. wazero has panicked on bad cache
// entries before, so a panic counts as an error.
func compile(ctx context.Context, wasm []byte, cache wazero.CompilationCache) (m *Module, err error) {
	// Without debug information reading an entry is ten times faster.
	cfg := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithDebugInfoEnabled(false)
	if cache != nil {
		cfg = cfg.WithCompilationCache(cache)
	}
	m = &Module{Runtime: wazero.NewRuntimeWithConfig(ctx, cfg), cache: cache}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("compile module: panic: %v", p)
		}
		if err != nil {
			err = errors.Join(err, m.Close(context.WithoutCancel(ctx)))
			m = nil
		}
	}()
	if m.Code, err = m.Runtime.CompileModule(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)), wasm); err != nil {
		return m, fmt.Errorf("compile module: %w", err)
	}
	return m, nil
}

// entry is the locked place of one module in the cache.
type entry struct {
	dir  string // holds wazero's directory and nothing else
	sum  string // file with our digest
	lock *os.File
}

// digest is the content of the sum file.
type digest struct {
	File   string `json:"file"` // below entry.dir
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// openEntry prepares the directory and takes the entry's lock.
func openEntry(ctx context.Context, dir string, wasm []byte) (*entry, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("code cache: %w", err)
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s %s\n", scheme, runtime.GOOS, runtime.GOARCH)
	h.Write(wasm)
	base := filepath.Join(dir, hex.EncodeToString(h.Sum(nil)[:16]))
	lock, err := os.OpenFile(base+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("code cache: %w", err)
	}
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &entry{dir: base + ".d", sum: base + ".sum", lock: lock}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = lock.Close()
			return nil, fmt.Errorf("code cache: lock: %w", err)
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			_ = lock.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// private refuses a directory whose content others may have written.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("code cache: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	ours := ok && int(st.Uid) == os.Geteuid()
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ours {
		return errors.New("code cache: the directory must be ours and closed to writing by others (chmod go-w)")
	}
	return nil
}

func (e *entry) close() { _ = e.lock.Close() } // and the lock with it

// compile uses the entry if it is sound, else compiles and fills it.
func (e *entry) compile(ctx context.Context, wasm []byte) (*Module, error) {
	cached := e.verify()
	if !cached {
		if err := e.wipe(); err != nil {
			return withoutCache(ctx, wasm, err)
		}
	}
	cache, err := wazero.NewCompilationCacheWithDir(e.dir)
	if err != nil {
		return withoutCache(ctx, wasm, fmt.Errorf("code cache: %w", err))
	}
	m, err := compile(ctx, wasm, cache)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// Whatever the digest says, this entry does not work.
		return withoutCache(ctx, wasm, errors.Join(err, e.wipe()))
	}
	m.Cached = cached
	if !cached {
		m.CacheErr = e.seal()
	}
	return m, nil
}

func withoutCache(ctx context.Context, wasm []byte, reason error) (*Module, error) {
	m, err := compile(ctx, wasm, nil)
	if m != nil {
		m.CacheErr = reason
	}
	return m, err
}

// verify tells whether the directory holds exactly the file that was sealed.
func (e *entry) verify() bool {
	raw, err := os.ReadFile(e.sum)
	if err != nil {
		return false
	}
	var want digest
	if json.Unmarshal(raw, &want) != nil || want.File == "" {
		return false
	}
	got, err := e.digest()
	return err == nil && got == want
}

// wipe deletes the entry.
func (e *entry) wipe() error {
	if err := errors.Join(os.RemoveAll(e.sum), os.RemoveAll(e.dir)); err != nil {
		return fmt.Errorf("code cache: delete entry: %w", err)
	}
	return nil
}

// seal records the digest of what wazero has written.
func (e *entry) seal() error {
	d, err := e.digest()
	if err != nil {
		return errors.Join(fmt.Errorf("code cache: %w", err), e.wipe())
	}
	raw, err := json.Marshal(d)
	if err == nil {
		tmp := e.sum + ".tmp"
		if err = os.WriteFile(tmp, raw, 0o600); err == nil {
			err = os.Rename(tmp, e.sum)
		}
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
