package clang

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Where the tools find their headers and libraries.
const (
	sysrootDir   = "/sys"
	resourceDir  = sysrootDir + "/lib/clang/8.0.1"
	librariesDir = sysrootDir + "/lib/wasm32-wasi"
	builtins     = resourceDir + "/lib/wasi/libclang_rt.builtins-wasm32.a"

	headersDir    = "include"        // below the sysroot
	cppHeadersDir = "include/c++/v1" // below the sysroot
	archivePrefix = "sys/"           // of every name in the archive
)

// Bounds of the archive, several times what is in the pinned one.
const (
	maxArchiveFiles = 2_000
	maxArchiveBytes = 64 << 20
)

// extraHeaders are headers of our own, for what other compilers have besides the
// standard.
//
//go:embed sysroot/stdc++.h
var extraHeaders embed.FS

// allHeaders is the header that includes all others of C++.
const allHeaders = "bits/stdc++.h"

// newSysroot unpacks the archive of headers and libraries into memory.
func newSysroot(archive []byte) (*tree, error) {
	files, err := unpack(archive)
	if err != nil {
		return nil, fmt.Errorf("clang: headers and libraries: %w", err)
	}
	text, err := extraHeaders.ReadFile("sysroot/stdc++.h")
	if err != nil {
		return nil, fmt.Errorf("clang: %w", err)
	}
	files[cppHeadersDir+"/"+allHeaders] = text
	return newTree(1, files), nil
}

// unpack reads a compressed archive of plain files below "sys". Although its digest
// is pinned it is taken for hostile: nothing of it reaches the disk, links and other
// kinds of files are refused, and so are names that are not plain paths.
func unpack(archive []byte) (map[string][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	left := int64(maxArchiveBytes)
	files := map[string][]byte{}
	r := tar.NewReader(io.LimitReader(z, 2*maxArchiveBytes))
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if n == maxArchiveFiles {
			return nil, fmt.Errorf("more than %d files", maxArchiveFiles)
		}
		if h.Typeflag == tar.TypeDir && fs.ValidPath(strings.TrimSuffix(h.Name, "/")) {
			continue // directories follow from files
		}
		name, ok := strings.CutPrefix(h.Name, archivePrefix)
		switch {
		case h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("%q is no plain file", h.Name)
		case !ok || !fs.ValidPath(name) || name == ".":
			return nil, fmt.Errorf("%q is no path below %q", h.Name, archivePrefix)
		case files[name] != nil:
			return nil, fmt.Errorf("%q is there twice", h.Name)
		case h.Size < 0 || h.Size > left:
			return nil, fmt.Errorf("more than %d bytes", int64(maxArchiveBytes))
		}
		left -= h.Size
		b := make([]byte, h.Size)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("%q: %w", h.Name, err)
		}
		files[name] = b
	}
}
