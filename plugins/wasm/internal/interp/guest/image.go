package guest

import (
	"bytes"

	"github.com/tetratelabs/wazero/api"
)

// Image is what a booted interpreter has in its memory beyond what a new
// instance has by itself. A run that starts from it does not boot.
type Image struct {
	pages []imagePage
	bytes uint32
}

type imagePage struct {
	offset uint32
	data   []byte
}

// NewImage compares the memory of a booted instance with that of a new one. It
// keeps copies.
func NewImage(fresh, booted []byte) *Image {
	zero := make([]byte, pageBytes)
	i := &Image{bytes: uint32(len(booted))}
	for off := 0; off < len(booted); off += pageBytes {
		p, was := booted[off:off+pageBytes], zero
		if off < len(fresh) {
			was = fresh[off : off+pageBytes]
		}
		if !bytes.Equal(p, was) {
			i.pages = append(i.pages, imagePage{uint32(off), bytes.Clone(p)})
		}
	}
	return i
}

// Bytes is the size of the memory, KeptBytes how much of it is copied for each run.
func (i *Image) Bytes() int64     { return int64(i.bytes) }
func (i *Image) KeptBytes() int64 { return int64(len(i.pages)) * pageBytes }

// Restore gives the memory of a new instance the image's content. It is false
// when the memory's limit is below the image.
func (i *Image) Restore(mem api.Memory) bool {
	if size := mem.Size(); size < i.bytes {
		if _, ok := mem.Grow((i.bytes - size) / pageBytes); !ok {
			return false
		}
	}
	for _, p := range i.pages {
		if !mem.Write(p.offset, p.data) {
			return false
		}
	}
	return true
}
