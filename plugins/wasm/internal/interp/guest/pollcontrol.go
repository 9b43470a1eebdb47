package guest

import (
	"context"
	"encoding/binary"
	"math"
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
		return len(ready) > 0 || others
	}
	if !timed {
		wait = math.MaxInt64
	}
	r.await(look, wait)
	slices.Sort(ready)
	return ready
}

// awaitControl waits until a control file can be read, or false after a while.
func (r *Run) awaitControl(f *controlFile, wait time.Duration) bool {
	return r.await(f.conn.Readable, wait)
}

// await waits until something holds that changes with the run's channel, or false
// after a while.
func (r *Run) await(holds func() bool, wait time.Duration) bool {
	t := time.NewTimer(max(wait, 0))
	defer t.Stop()
	over := wait <= 0
	for {
		_, changed := r.Program.Control.Suspended()
		if holds() {
			return true
		}
		if over {
			return false
		}
		r.aside(func(ctx context.Context) bool {
			select {
			case <-changed:
			case <-t.C:
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
