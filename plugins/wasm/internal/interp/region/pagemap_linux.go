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
// was mapped or given back. It is safe for concurrent use. A nil Pagemap knows
// nothing.
type Pagemap struct {
	file *os.File
	mu   sync.Mutex
	buf  []byte
}

// Bits of an entry and its size, in
// https://www.kernel.org/doc/html/latest/admin-guide/mm/pagemap.html.
const (
	entryBytes   = 8
	entryTouched = 1<<63 | 1<<62 // present, swapped
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
	p := &Pagemap{file: f, buf: make([]byte, entriesAtOnce*entryBytes)}
	// It has to tell a page that was touched from one that was not.
	probe, err := New(PageBytes)
	if err == nil {
		defer probe.Unmap()
		probe.b[0] = 1
		n := 0
		if !p.touched(probe.b[:1], func(b []byte) { n += len(b) }) || n != 1 {
			err = fmt.Errorf("see which memory was touched: the kernel does not tell")
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the table.
func (p *Pagemap) Close() error {
	if p == nil {
		return nil
	}
	return p.file.Close()
}

// touched calls f with the parts of b whose pages were touched; ok is false, and f
// may have been called, if that is not known of all.
func (p *Pagemap) touched(b []byte, f func([]byte)) (ok bool) {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	page := uintptr(os.Getpagesize())
	start := uintptr(unsafe.Pointer(&b[0]))
	first, last := start/page, (start+uintptr(len(b))-1)/page
	// part is the touched part that is being gathered.
	from, to := 0, 0
	for at := first; at <= last; {
		n := min(last-at+1, entriesAtOnce)
		buf := p.buf[:n*entryBytes]
		if _, err := p.file.ReadAt(buf, int64(at)*entryBytes); err != nil {
			return false
		}
		for i := range n {
			if binary.NativeEndian.Uint64(buf[i*entryBytes:])&entryTouched == 0 {
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
