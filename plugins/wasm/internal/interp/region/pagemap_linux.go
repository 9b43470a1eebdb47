package region

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// Pagemap tells which pages of the process were touched. A page of anonymous memory
// that is neither present nor swapped out is zero: nobody has written to it since it
// was mapped or given back. A page of a private mapping that is not swapped out, and
// not present or still the file's, was not written to either. It is safe for
// concurrent use. A nil Pagemap knows nothing.
type Pagemap struct {
	file    *os.File
	buffers sync.Pool // of *[entriesAtOnce * entryBytes]byte
}

// Bits of an entry and its size, in
// https://www.kernel.org/doc/html/latest/admin-guide/mm/pagemap.html.
const (
	entryBytes   = 8
	entryPresent = 1 << 63
	entrySwapped = 1 << 62
	entryFile    = 1 << 61 // of a file, or anonymous and shared
)

// entriesAtOnce is how many entries are read at a time.
const entriesAtOnce = 8192

// OpenPagemap opens the kernel's table for this process. It fails where /proc is
// not what it is elsewhere.
func OpenPagemap() (*Pagemap, error) {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, fmt.Errorf("see which memory was touched: %w", err)
	}
	p := &Pagemap{file: f}
	p.buffers.New = func() any { return new([entriesAtOnce * entryBytes]byte) }
	if err := p.probe(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return p, nil
}

// probe checks that the kernel tells pages that were written to from others.
func (p *Pagemap) probe() error {
	r, err := New(PageBytes)
	if err != nil {
		return err
	}
	defer r.Unmap()
	page := os.Getpagesize()
	r.b[page] = 1
	var found []byte
	see := func(part []byte) { found = append(found, part...) }
	// With huge pages everything was touched.
	ok := p.touched(r.b, see) && len(found) >= page
	if ok {
		i := NewImage(r.b)
		defer func() { _ = i.Close() }()
		if r.Clean(nil, nil); i.mapInto(r.b) == nil {
			found = nil
			_ = r.b[0]
			r.b[page] = 2
			ok = p.copied(r.b, see) && len(found) == page && found[0] == 2
		}
	}
	if !ok {
		return fmt.Errorf("see which memory was touched: the kernel does not tell")
	}
	return nil
}

// Close closes the table.
func (p *Pagemap) Close() error {
	if p == nil {
		return nil
	}
	return p.file.Close()
}

// touched calls f with the parts of b, which is anonymous, whose pages were touched;
// ok is false, and f may have been called, if that is not known of all.
func (p *Pagemap) touched(b []byte, f func([]byte)) (ok bool) {
	return p.scan(b, f, func(entry uint64) bool { return entry&(entryPresent|entrySwapped) != 0 })
}

// copied is touched for the pages of a private mapping that were written to, and are
// copies since then.
func (p *Pagemap) copied(b []byte, f func([]byte)) (ok bool) {
	return p.scan(b, f, func(entry uint64) bool {
		return entry&entrySwapped != 0 || entry&(entryPresent|entryFile) == entryPresent
	})
}

func (p *Pagemap) scan(b []byte, f func([]byte), match func(entry uint64) bool) (ok bool) {
	if p == nil {
		return false
	}
	buffer := p.buffers.Get().(*[entriesAtOnce * entryBytes]byte)
	defer p.buffers.Put(buffer)
	page := uintptr(os.Getpagesize())
	start := uintptr(unsafe.Pointer(&b[0]))
	first, last := start/page, (start+uintptr(len(b))-1)/page
	// part is the touched part that is being gathered.
	from, to := 0, 0
	for at := first; at <= last; {
		n := min(last-at+1, entriesAtOnce)
		buf := buffer[:n*entryBytes]
		if _, err := p.file.ReadAt(buf, int64(at)*entryBytes); err != nil {
			return false
		}
		for i := range n {
			if !match(binary.NativeEndian.Uint64(buf[i*entryBytes:])) {
				continue
			}
			lo := max(int((at+i)*page)-int(start), 0)
			if lo != to {
				if to > from {
					f(b[from:to])
				}
				from = lo
			}
			to = min(int((at+i+1)*page)-int(start), len(b))
		}
		at += n
	}
	if to > from {
		f(b[from:to])
	}
	return true
}
