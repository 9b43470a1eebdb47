package packs

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Library is the library of a built pack: a file system in a zip file without
// compression, whose files are read from where they lie. It is safe for concurrent
// use.
type Library struct {
	file  *os.File
	zip   *zip.Reader
	files map[string]stored
}

// stored is a file of the library.
type stored struct {
	info   fs.FileInfo
	offset int64
}

// newLibrary takes the file over if it succeeds.
func newLibrary(f *os.File, size int64) (*Library, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("no zip file: %w", bare(err))
	}
	l := &Library{file: f, zip: z, files: map[string]stored{}}
	for _, e := range z.File {
		if !fs.ValidPath(e.Name) && !e.Mode().IsDir() {
			return nil, fmt.Errorf("%.100q is no path", e.Name)
		}
		if e.Mode().IsDir() {
			continue
		}
		offset, err := e.DataOffset()
		if err != nil {
			return nil, fmt.Errorf("%.100q: %w", e.Name, bare(err))
		}
		if e.Method != zip.Store || !e.Mode().IsRegular() || e.CompressedSize64 != e.UncompressedSize64 {
			return nil, fmt.Errorf("%.100q is no file without compression", e.Name)
		}
		if n := int64(e.UncompressedSize64); n < 0 || n > size || offset > size-n {
			return nil, fmt.Errorf("%.100q reaches beyond the end", e.Name)
		}
		l.files[e.Name] = stored{e.FileInfo(), offset}
	}
	return l, nil
}

// Open implements fs.FS. Files can also be read at any place, with io.Seeker and
// io.ReaderAt.
func (l *Library) Open(name string) (fs.File, error) {
	f, ok := l.files[name]
	if !ok {
		return l.zip.Open(name) // a directory, or nothing
	}
	return &storedFile{io.NewSectionReader(l.file, f.offset, f.info.Size()), f.info}, nil
}

// Close makes every further use fail.
func (l *Library) Close() error {
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close a library: %w", err)
	}
	return nil
}

type storedFile struct {
	*io.SectionReader
	info fs.FileInfo
}

func (f *storedFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *storedFile) Close() error               { return nil }
