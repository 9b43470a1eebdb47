package clang

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/caisson-run/caisson/plugins/wasm/internal/cachedir"
	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// headersMount is where the compiler finds precompiled headers.
const headersMount = "/pch"

// precompiled are the headers that take the compiler seconds to read, the largest
// first. A program that includes one in its first lines, as nearly all do that use
// it, is compiled with what the compiler made of it ahead of time.
var precompiled = []string{allHeaders, "iostream"}

// maxHeader bounds a precompiled header.
const maxHeader = 64 << 20

// headers are precompiled headers.
type headers struct {
	files *tree
	ready []string // a subset of precompiled, in its order
}

// headerFile is the name of the source of a precompiled header.
func headerFile(header string) string { return path.Base(header) + ".h" }

func headerSource(header string) []byte { return []byte("#include <" + header + ">\n") }

// headersFor returns the flags and the mount for a source that can be compiled with
// precompiled headers, nil if it cannot.
func (t *tools) headersFor(r *guest.Run, j *job, source string) ([]string, *tree) {
	h := t.headers.Load()
	if h == nil {
		return nil, nil
	}
	text, err := readFile(r, source, maxSource)
	if err != nil {
		return nil, nil
	}
	included := leadingIncludes(text)
	i := slices.IndexFunc(h.ready, func(header string) bool { return slices.Contains(included, header) })
	if i < 0 || slices.ContainsFunc(included, func(name string) bool { return !t.standardHeader(name) || shadowed(r, j, name) }) {
		return nil, nil
	}
	return []string{"-include-pch", headersMount + "/" + headerFile(h.ready[i]) + ".pch"}, h.files
}

// standardHeader reports whether a header is one of the toolchain's, whose order
// means nothing.
func (t *tools) standardHeader(name string) bool {
	return slices.ContainsFunc([]string{cppHeadersDir, headersDir, "lib/clang/8.0.1/include"}, func(dir string) bool {
		return fs.ValidPath(name) && t.sysroot.has(dir+"/"+name)
	})
}

// shadowed reports whether a directory of the command line has a header of the same
// name, which the compiler would find first.
func shadowed(r *guest.Run, j *job, name string) bool {
	for i, f := range j.flags {
		if (f == "-I" || f == "-isystem") && i+1 < len(j.flags) {
			if fs, p, ok := r.Lookup(j.flags[i+1] + "/" + name); ok {
				if _, errno := fs.Stat(p); errno == 0 {
					return true
				}
			}
		}
	}
	return false
}

// makeHeaders reads the precompiled headers from the cache or makes them. Without
// them programs are compiled all the same. ctx ends it.
func (t *tools) makeHeaders(ctx context.Context, cacheDir string) error {
	var errs []error
	files := map[string][]byte{}
	var ready []string
	for _, header := range slices.Backward(precompiled) {
		pch, err := t.header(ctx, cacheDir, header)
		errs = append(errs, err)
		if pch == nil {
			continue
		}
		files[headerFile(header)], files[headerFile(header)+".pch"] = headerSource(header), pch
		ready = slices.Insert(ready, 0, header)
		t.headers.Store(&headers{newTree(3, files), slices.Clone(ready)})
	}
	return errors.Join(errs...)
}

// header returns one precompiled header, from the cache or made. With an error it
// may be good all the same, but not in the cache.
func (t *tools) header(ctx context.Context, cacheDir, header string) ([]byte, error) {
	if cacheDir == "" || t.clang.CacheErr != nil {
		return t.makeHeader(ctx, header)
	}
	key := sha256.Sum256(fmt.Append(nil, t.clang.Key, headerArgv(header), string(headerSource(header)), t.sysrootDigest()))
	base := cachedir.Base(cacheDir, hex.EncodeToString(key[:16]), codecache.Generation())
	file := base + ".pch"
	lock, err := cachedir.Lock(ctx, base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()
	// The digest is in front, so that what is cut off or damaged is noticed.
	if b, err := os.ReadFile(file); err == nil && len(b) > sha256.Size {
		if sum := sha256.Sum256(b[sha256.Size:]); string(sum[:]) == string(b[:sha256.Size]) {
			return b[sha256.Size:], nil
		}
	}
	pch, err := t.makeHeader(ctx, header)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(pch)
	return pch, cachedir.Replace(file, append(sum[:], pch...))
}

func (t *tools) sysrootDigest() string {
	h := sha256.New()
	for _, p := range slices.Sorted(maps.Keys(t.sysroot.nodes)) {
		fmt.Fprintf(h, "%q %d ", p, len(t.sysroot.nodes[p].content))
		h.Write(t.sysroot.nodes[p].content)
	}
	return string(h.Sum(nil))
}

// headerArgv is the command line that precompiles a header. All that concerns the
// language has to be as it is for programs.
func headerArgv(header string) []string {
	return append(compiler("c++"), defaultLevel, defaultCPPStd, "-emit-pch", "-o", "-", "-x", "c++-header", headersMount+"/"+headerFile(header))
}

// makeHeader runs the compiler.
func (t *tools) makeHeader(ctx context.Context, header string) ([]byte, error) {
	files := newTree(3, map[string][]byte{headerFile(header): headerSource(header)})
	return t.make(ctx, headerArgv(header), mount{headersMount, files})
}
