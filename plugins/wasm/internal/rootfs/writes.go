package rootfs

// maxWritten bounds how many files the writes to are remembered one by one.
const maxWritten = 4096

// writes remembers when files were written that are closed by now, by inode: all
// are on one device. Quota.names guards it.
type writes struct {
	last  map[uint64]uint64
	floor uint64 // up to here anything may have been written
}

func (w *writes) put(ino, generation uint64) {
	if w.last == nil {
		w.last = make(map[uint64]uint64)
	}
	w.last[ino] = generation
	if len(w.last) > maxWritten {
		for _, g := range w.last {
			w.floor = max(w.floor, g)
		}
		clear(w.last)
	}
}

// Writes tells what guests wrote, as package changes asks for it.
func (q *Quota) Writes() Writes { return Writes{q} }

// Writes is the content side of a Quota: which files were written since when. What
// the host does with names, a Tree, is none: it puts other files there.
type Writes struct{ quota *Quota }

// Now returns a moment before every write that has not happened yet, and never 0.
func (w Writes) Now() uint64 { return w.quota.changes.Load() + 1 }

// Since reports whether a guest may have written the file of an inode after a
// moment.
func (w Writes) Since(moment, inode uint64) bool {
	q := w.quota
	q.names.Lock()
	defer q.names.Unlock()
	if q.written.floor >= moment || q.written.last[inode] >= moment {
		return true
	}
	for id, n := range q.open {
		if id.ino == inode && n.wrote.Load() >= moment {
			return true
		}
	}
	return false
}
