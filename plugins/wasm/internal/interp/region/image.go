package region

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
)

// blockBytes is the unit in which an image is compared and kept.
const blockBytes = 4 << 10

// joinBlocks is how many zero blocks between two others are kept as well, rather
// than cleared apart from them.
const joinBlocks = 2

// Image is the content of a memory. What of it is zero is not kept. It is safe for
// concurrent use; Close it when no region has it any more.
type Image struct {
	size    int64
	extents []extent
	content []byte   // of the extents, one after another
	starts  []uint64 // where each extent begins in content

	mapped sync.Once
	file   *os.File // the memory as a file, for mappings
	err    error
}

// extent is a part of the memory that is not all zero.
type extent struct{ offset, bytes uint64 }

// NewImage copies what is in a memory, whose size is a multiple of PageBytes.
func NewImage(memory []byte) *Image {
	i := &Image{size: int64(len(memory))}
	zero := make([]byte, blockBytes)
	for off := 0; off < len(memory); off += blockBytes {
		if bytes.Equal(memory[off:off+blockBytes], zero) {
			continue
		}
		if n := len(i.extents); n > 0 {
			if e := &i.extents[n-1]; uint64(off)-(e.offset+e.bytes) <= joinBlocks*blockBytes {
				e.bytes = uint64(off) + blockBytes - e.offset
				continue
			}
		}
		i.extents = append(i.extents, extent{uint64(off), blockBytes})
	}
	for _, e := range i.extents {
		i.starts = append(i.starts, uint64(len(i.content)))
		i.content = append(i.content, memory[e.offset:e.offset+e.bytes]...)
	}
	return i
}

// Bytes is the size of the memory, KeptBytes how much of it is kept.
func (i *Image) Bytes() int64     { return i.size }
func (i *Image) KeptBytes() int64 { return int64(len(i.content)) }

// mapInto maps the image over the start of b.
func (i *Image) mapInto(b []byte) error {
	i.mapped.Do(func() { i.file, i.err = i.toFile() })
	if i.err != nil {
		return fmt.Errorf("map an image: %w", i.err)
	}
	if err := remap(b[:i.size], int(i.file.Fd()), 0); err != nil {
		return fmt.Errorf("map an image: %w", err)
	}
	return nil
}

// copyTo gives b the content that the image has at an offset.
func (i *Image) copyTo(b []byte, offset uintptr) {
	from, end := uint64(offset), uint64(offset)+uint64(len(b))
	n := sort.Search(len(i.extents), func(n int) bool { return i.extents[n].offset+i.extents[n].bytes > from })
	for ; from < end; n++ {
		if n == len(i.extents) || i.extents[n].offset >= end {
			wipe(b[from-uint64(offset):])
			return
		}
		e := i.extents[n]
		if e.offset > from {
			wipe(b[from-uint64(offset) : e.offset-uint64(offset)])
			from = e.offset
		}
		to := min(end, e.offset+e.bytes)
		at := i.starts[n] + from - e.offset
		copy(b[from-uint64(offset):to-uint64(offset)], i.content[at:])
		from = to
	}
}

// toFile writes the memory to a file of the kernel's.
func (i *Image) toFile() (_ *os.File, err error) {
	f, err := memfd()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := f.Truncate(i.size); err != nil {
		return nil, err
	}
	at := uint64(0)
	for _, e := range i.extents {
		if _, err := f.WriteAt(i.content[at:at+e.bytes], int64(e.offset)); err != nil {
			return nil, err
		}
		at += e.bytes
	}
	return f, seal(f)
}

// Close releases the file. Mappings of it live on.
func (i *Image) Close() error {
	i.mapped.Do(func() { i.err = os.ErrClosed })
	if i.file == nil {
		return nil
	}
	return i.file.Close()
}
