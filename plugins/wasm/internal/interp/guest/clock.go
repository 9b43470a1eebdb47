package guest

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// Sleep waits until d has passed or ctx ends and tells whether d passed.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// SleepAdvice is the length argument that turns fd_advise into a sleep of
// "offset" nanoseconds. The C library of some interpreters refuses to sleep
// before it asks the host; posix_fadvise passes through.
const SleepAdvice = 0x7E57

// WaitAdvice is the length argument that turns fd_advise into waiting until the
// descriptor can be read, for at most "offset" nanoseconds: EAGAIN then.
const WaitAdvice = 0x7E58

// fdAdvise implements fd_advise: a sleep or a wait when asked for by SleepAdvice and
// WaitAdvice, else nothing, since advice may be ignored.
func fdAdvise(ctx context.Context, _ api.Module, stack []uint64) {
	d := time.Duration(min(stack[1], math.MaxInt64))
	var errno uint64
	switch stack[2] {
	case SleepAdvice:
		MustSleep(ctx, d)
	case WaitAdvice:
		r := stateOf(ctx)
		if r == nil {
			break
		}
		if f := r.controls[uint32(stack[0])]; f != nil && !r.awaitControl(f, d) {
			errno = wasiAgain
		}
	}
	stack[0] = errno
}

// Sizes and offsets of subscription and event in WASI preview 1.
const (
	subBytes, eventBytes = 48, 32
	subTag, subClock     = 8, 16
	subTimeout, subFlags = 24, 40
	eventTag             = 10
	tagClock             = 0
	clockRealtime        = 0
	subDescriptor        = 16
	tagRead, tagWrite    = 1, 2
	flagAbsolute         = 1
	maxSubscriptions     = 1024
)

// pollOneoff implements poll_oneoff for clocks, relative and absolute, and control
// files, until the run's context ends. Other files, pipes and standard streams count
// as ready, which is what poll says of regular files; a later read may then wait.
func pollOneoff(ctx context.Context, m api.Module, stack []uint64) {
	stack[0] = uint64(poll(ctx, m.Memory(), uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])))
}

func poll(ctx context.Context, mem api.Memory, in, out, n, count uint32) uint32 {
	if n == 0 || n > maxSubscriptions {
		return wasiInval
	}
	subs, ok := mem.Read(in, n*subBytes)
	if !ok {
		return wasiFault
	}
	// The lists may overlap in a hostile guest: decide first, write after.
	subs = append([]byte(nil), subs...)
	wait := time.Duration(math.MaxInt64)
	var ready []int
	clock := -1
	controls := map[int]*controlFile{} // subscriptions of such
	r := stateOf(ctx)
	for i := range int(n) {
		sub := subs[i*subBytes:]
		if f := r.control(sub); f != nil {
			controls[i] = f
			continue
		}
		if sub[subTag] != tagClock {
			ready = append(ready, i)
			continue
		}
		if d := clockWait(ctx, sub); d < wait || clock < 0 {
			wait, clock = d, i
		}
	}
	switch {
	case len(controls) > 0:
		ready = append(ready, r.pollControls(controls, subs, len(ready) > 0, clock >= 0, wait)...)
		if len(ready) == 0 {
			ready = []int{clock}
		}
	case len(ready) == 0:
		MustSleep(ctx, wait)
		ready = []int{clock}
	}
	events, ok := mem.Read(out, n*eventBytes)
	if !ok {
		return wasiFault
	}
	clear(events)
	for i, s := range ready {
		copy(events[i*eventBytes:], subs[s*subBytes:s*subBytes+8])
		events[i*eventBytes+eventTag] = subs[s*subBytes+subTag]
	}
	if !mem.WriteUint32Le(count, uint32(len(ready))) {
		return wasiFault
	}
	return 0
}

// clockWait returns how long a clock subscription asks to wait.
func clockWait(ctx context.Context, sub []byte) time.Duration {
	t := time.Duration(min(binary.LittleEndian.Uint64(sub[subTimeout:]), math.MaxInt64))
	if binary.LittleEndian.Uint16(sub[subFlags:])&flagAbsolute == 0 {
		return t
	}
	if binary.LittleEndian.Uint32(sub[subClock:]) == clockRealtime {
		return time.Until(time.Unix(0, int64(t)))
	}
	if s := stateOf(ctx); s != nil {
		return t - time.Duration(s.nanotime())
	}
	return 0
}

// MustSleep is Sleep for host functions: when ctx ends first, it ends the guest
// and does not return.
// Who sleeps while calls are open has no need of the run's place.
func MustSleep(ctx context.Context, d time.Duration) {
	if r := stateOf(ctx); r.suspended() && d > 0 {
		r.aside(func(ctx context.Context) bool { return Sleep(ctx, d) })
	} else if !Sleep(ctx, d) {
		interrupt()
	}
}
