package guest

import (
	"context"
	"encoding/binary"
	"slices"
	"time"
)

// control returns the control file that a subscription is about, nil if it is about
// anything else.
func (r *Run) control(sub []byte) *controlFile {
	if tag := sub[subTag]; r == nil || tag != tagRead && tag != tagWrite {
		return nil
	}
	return r.controls[binary.LittleEndian.Uint32(sub[subDescriptor:])]
}

// pollControls returns the subscriptions of control files that are ready, in order. It
// waits for one, or for the clock if there is one, unless others are ready already.
func (r *Run) pollControls(files map[int]*controlFile, subs []byte, others, timed bool, wait time.Duration) []int {
	var ready []int
	look := func() bool {
		for i, f := range files {
			if subs[i*subBytes+subTag] == tagRead && f.conn.Readable() || subs[i*subBytes+subTag] == tagWrite && f.conn.Writable() {
				ready = append(ready, i)
			}
		}
		return len(ready) > 0
	}
	var clock <-chan time.Time
	if timed {
		t := time.NewTimer(wait)
		defer t.Stop()
		clock = t.C
	}
	over := false
	for {
		_, changed := r.Program.Control.Suspended()
		if look() || others || over || timed && wait <= 0 {
			slices.Sort(ready)
			return ready
		}
		r.aside(func(ctx context.Context) bool {
			select {
			case <-changed:
			case <-clock:
				over = true
			case <-ctx.Done():
				return false
			}
			return true
		})
	}
}

// opens notes the descriptor of a control file that path_open has opened.
func (r *Run) opens(fd uint32) {
	if r.controls == nil {
		r.controls = map[uint32]*controlFile{}
	}
	r.controls[fd] = r.opened
}
