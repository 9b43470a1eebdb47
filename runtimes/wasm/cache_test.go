package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// cacheTest loads the same module again and again over one directory.
type cacheTest struct {
	t    *testing.T
	dir  string
	logs bytes.Buffer
}

// load loads, calls and closes, and returns what was logged.
func (c *cacheTest) load() string {
	c.t.Helper()
	c.logs.Reset()
	log := hclog.New(&hclog.LoggerOptions{Output: &c.logs, Level: hclog.Info})
	m, err := Load(context.Background(), Spec{Name: "as", Module: asGuest(c.t), Imports: []string{"log"}, CacheDir: c.dir, Log: log, Limits: Limits{Instances: 1}})
	if err != nil {
		c.t.Fatal(err)
	}
	if got := mustCall(c.t, m, opEcho, "hello"); got != "hello" {
		c.t.Errorf("got %q", got)
	}
	mustClose(c.t, m)
	return c.logs.String()
}

// entry returns the one entry, and fails if there is anything else.
func (c *cacheTest) entry() string {
	c.t.Helper()
	files, err := os.ReadDir(c.dir)
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0].Name(), ".bin") {
		c.t.Fatalf("cache directory holds %v, %v", files, err)
	}
	return filepath.Join(c.dir, files[0].Name())
}

func (c *cacheTest) stat() os.FileInfo {
	c.t.Helper()
	st, err := os.Stat(c.entry())
	if err != nil {
		c.t.Fatal(err)
	}
	return st
}

func TestCacheIsUsed(t *testing.T) {
	c := &cacheTest{t: t, dir: filepath.Join(t.TempDir(), "a", "b")}
	if said := c.load(); said != "" {
		t.Error(said)
	}
	before := c.stat()
	if said := c.load(); said != "" {
		t.Error(said)
	}
	if !os.SameFile(before, c.stat()) {
		t.Error("the entry was written again")
	}
	if st, err := os.Stat(c.dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory is %v, %v", st.Mode(), err)
	}
}

// What no load has used for a month goes, but for what is not the cache's. What is used
// stays.
func TestUnusedEntriesGo(t *testing.T) {
	c := &cacheTest{t: t, dir: t.TempDir()}
	c.load()
	own := c.entry()
	aged := func(name string, days int) string {
		path := filepath.Join(c.dir, name)
		if path != own {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now().AddDate(0, 0, -days)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := []string{aged(strings.Repeat("ab", 32)+".bin", 31), aged("load-1", 1)}
	kept := []string{
		aged(filepath.Base(own), 29), aged(strings.Repeat("cd", 32)+".bin", 29),
		aged(strings.Repeat("ab", 31)+".bin", 400), aged("notes", 400), aged("x.bin", 400),
	}
	c.load()
	for _, path := range gone {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", filepath.Base(path))
		}
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if st, err := os.Stat(own); err != nil || time.Since(st.ModTime()) > time.Hour {
		t.Errorf("the entry that was used is of %v, %v", st.ModTime(), err)
	}
}

// TestDamagedEntries damages the entry in every way a disk does, and in the way
// somebody does who knows the format. Each load must succeed and repair it.
func TestDamagedEntries(t *testing.T) {
	c := &cacheTest{t: t, dir: t.TempDir()}
	c.load()
	good, err := os.ReadFile(c.entry())
	if err != nil {
		t.Fatal(err)
	}
	signed := func(rest []byte) []byte {
		sum := sha256.Sum256(rest)
		return append(append([]byte(entryMagic), sum[:]...), rest...)
	}
	header := len(entryMagic) + sha256.Size
	file, _, _ := bytes.Cut(good[header:], []byte("\n"))
	for name, tc := range map[string]struct {
		data []byte
		says string
	}{
		"empty":            {nil, "no header"},
		"short":            {good[:header-1], "no header"},
		"other version":    {bytes.Replace(good, []byte("module 1"), []byte("module 2"), 1), "no header"},
		"truncated":        {good[:len(good)-1], "does not match its digest"},
		"first byte":       {flip(good, header), "does not match its digest"},
		"last byte":        {flip(good, len(good)-1), "does not match its digest"},
		"digest":           {flip(good, header-1), "does not match its digest"},
		"no name":          {signed([]byte("x")), "has no name"},
		"traversal":        {signed([]byte("../../x\ncode")), "has no name"},
		"signed empty":     {signed(append(bytes.Clone(file), '\n')), "unusable"},
		"signed truncated": {signed(good[header : len(good)-200]), "unusable"},
	} {
		t.Run(name, func(t *testing.T) {
			c.t = t
			if err := os.WriteFile(c.entry(), tc.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if said := c.load(); !strings.Contains(said, tc.says) || !strings.Contains(said, "compiling again") {
				t.Errorf("said %q, want %q", said, tc.says)
			}
			c.load() // after an unusable entry it is this one that keeps the code
			if said := c.load(); said != "" {
				t.Errorf("not repaired: %s", said)
			}
			now, err := os.ReadFile(c.entry())
			if err != nil || !bytes.Equal(now, good) {
				t.Errorf("entry is not what it was: %v", err)
			}
		})
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x10
	return b
}

// TestEntryOfAnotherVersion has an entry that verifies and that this wazero does
// not look for: it is compiled again and replaced.
func TestEntryOfAnotherVersion(t *testing.T) {
	c := &cacheTest{t: t, dir: t.TempDir()}
	c.load()
	rest := []byte(strings.Repeat("0", 64) + "\ncode for another processor")
	sum := sha256.Sum256(rest)
	if err := os.WriteFile(c.entry(), append(append([]byte(entryMagic), sum[:]...), rest...), 0o600); err != nil {
		t.Fatal(err)
	}
	before := c.stat()
	if said := c.load(); said != "" {
		t.Error(said)
	}
	if c.stat().Size() == before.Size() {
		t.Error("the entry was not replaced")
	}
}

func TestCacheOpenToOthersIsNotUsed(t *testing.T) {
	c := &cacheTest{t: t, dir: t.TempDir()}
	if err := os.Chmod(c.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if said := c.load(); !strings.Contains(said, "writable by others") {
		t.Errorf("said %q", said)
	}
	if files, err := os.ReadDir(c.dir); err != nil || len(files) != 0 {
		t.Errorf("directory holds %v, %v", files, err)
	}
}

func TestCacheThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cacheTest{t: t, dir: file}
	if said := c.load(); !strings.Contains(said, "compiled modules are not kept") {
		t.Errorf("said %q", said)
	}
}

func TestConcurrentLoadsShareACache(t *testing.T) {
	c := &cacheTest{t: t, dir: t.TempDir()}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			m, err := Load(context.Background(), Spec{Name: "as", Module: asGuest(t), Imports: []string{"log"}, CacheDir: c.dir, Limits: Limits{Instances: 1}})
			if err != nil {
				t.Error(err)
				return
			}
			if got := mustCall(t, m, opEcho, "x"); got != "x" {
				t.Errorf("got %q", got)
			}
			mustClose(t, m)
		})
	}
	wg.Wait()
	c.entry()
	if said := c.load(); said != "" {
		t.Error(said)
	}
}
