package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
)

// wazero keeps compiled code on disk, and trusts what it finds there: a truncated
// entry makes every later compilation fail, a flipped bit ends the process. So it
// never sees the cache directory. Each load gives it an empty directory of its
// own, into which the entry is copied only after its digest was verified, and
// takes a new entry out of it. Entries appear by rename, so loads need no lock.
//
// Loads note when they used an entry, and remove those that none has for a month.
//
// An entry is entryMagic, the SHA-256 of what follows, the name wazero gave the
// file, a newline, and the file.

const (
	entryMagic = "caisson compiled module 1\n"
	// maxEntryBytes bounds what is read: compiled code is some ten times its module.
	maxEntryBytes = 1 << 30
	// loadPrefix names the directories of loads in progress, staleLoad says when
	// one was left by a process that died.
	loadPrefix = "load-"
	staleLoad  = time.Hour
	// entryExt ends the names of entries, staleEntry is how long one is kept that no
	// load uses.
	entryExt   = ".bin"
	staleEntry = 30 * 24 * time.Hour
)

// compileCached runs once with a cache. Whatever is wrong with the cache, it costs
// a compilation and not the module.
func (m *Module) compileCached(config wazero.RuntimeConfig, code []byte, once func(wazero.RuntimeConfig) error) error {
	work, err := loadDir(m.spec.CacheDir)
	if err != nil {
		m.spec.Log.Warn("compiled modules are not kept", "module", m.spec.Name, "error", err)
		return once(config)
	}
	defer func() { _ = os.RemoveAll(work) }() // swept later if it fails now
	cache, dir, err := emptyCache(work)
	if err != nil {
		m.spec.Log.Warn("compiled modules are not kept", "module", m.spec.Name, "error", err)
		return once(config)
	}
	m.cache = cache
	key := sha256.Sum256(append(append([]byte(m.stop.key()), 0), code...))
	entry := filepath.Join(m.spec.CacheDir, hex.EncodeToString(key[:])+entryExt)
	restored, err := restore(entry, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.spec.Log.Warn("compiled module is damaged, compiling again", "module", m.spec.Name, "error", err)
	}
	err = once(config.WithCompilationCache(cache))
	if errors.Is(err, ErrRefused) && restored != "" {
		// The entry is what somebody wrote, and no good all the same. The next load
		// makes a new one.
		m.spec.Log.Warn("compiled module is unusable, compiling again", "module", m.spec.Name, "error", err)
		_ = os.Remove(entry)
		m.free()
		m.cache = nil
		return once(config)
	}
	if err != nil {
		return err
	}
	if err := save(dir, restored, entry); err != nil {
		m.spec.Log.Warn("compiled module is not kept", "module", m.spec.Name, "error", err)
	}
	return nil
}

// emptyCache makes a cache in dir, and returns the directory that wazero keeps its
// files in, which it names after its version.
func emptyCache(dir string) (wazero.CompilationCache, string, error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, "", err
	}
	dirs, err := os.ReadDir(dir)
	if err == nil && len(dirs) != 1 {
		err = fmt.Errorf("cache has %d directories, want 1", len(dirs))
	}
	if err != nil {
		return nil, "", errors.Join(err, cache.Close(context.Background()))
	}
	return cache, filepath.Join(dir, dirs[0].Name()), nil
}

// loadDir makes a directory for one load below dir.
func loadDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if st.Mode().Perm()&0o022 != 0 {
		return "", errors.New("cache directory is writable by others, who could put code into this process: chmod go-w it")
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil && stale(e.Name(), time.Since(info.ModTime())) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // tried again next time
		}
	}
	return os.MkdirTemp(dir, loadPrefix)
}

// stale reports whether something in the cache directory is of no use any more at an
// age. What has another name is not ours.
func stale(name string, age time.Duration) bool {
	if strings.HasPrefix(name, loadPrefix) {
		return age > staleLoad
	}
	key, ok := strings.CutSuffix(name, entryExt)
	if sum, err := hex.DecodeString(key); !ok || err != nil || len(sum) != sha256.Size {
		return false
	}
	return age > staleEntry
}

// restore copies a verified entry into dir and returns its file's name there.
func restore(entry, dir string) (string, error) {
	f, err := os.Open(entry)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || st.Size() > maxEntryBytes {
		return "", errors.New("cache entry is not a file of sensible size")
	}
	data := make([]byte, st.Size())
	if n, err := f.ReadAt(data, 0); n < len(data) {
		return "", err
	}
	rest, ok := bytes.CutPrefix(data, []byte(entryMagic))
	if !ok || len(rest) < sha256.Size {
		return "", errors.New("cache entry has no header")
	}
	sum, rest := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(rest); !bytes.Equal(got[:], sum) {
		return "", errors.New("cache entry does not match its digest")
	}
	name, file, ok := strings.Cut(string(rest), "\n")
	if !ok || filepath.Base(name) != name {
		return "", errors.New("cache entry has no name")
	}
	now := time.Now()
	_ = os.Chtimes(entry, now, now) // else it is made again in a month
	return name, os.WriteFile(filepath.Join(dir, name), []byte(file), 0o600)
}

// save makes an entry of the file in dir that is not restored, if there is one:
// wazero did not use a restored file that another version or processor left.
func save(dir, restored, entry string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Name() == restored {
			continue
		}
		file, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		rest := append([]byte(f.Name()+"\n"), file...)
		sum := sha256.Sum256(rest)
		return publish(entry, []byte(entryMagic), sum[:], rest)
	}
	return nil
}

// publish writes parts to a file that appears whole or not at all.
func publish(path string, parts ...[]byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), loadPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	for _, p := range parts {
		if _, err := f.Write(p); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
