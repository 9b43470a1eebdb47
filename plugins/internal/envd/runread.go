package envd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// read follows a run's script to its end. began becomes when the program did.
func (r *run) read(ctx context.Context, began *time.Time) error {
	stdout := newMarks(r.nonce, r.stdout, func(verb, rest string) error { return r.mark(ctx, verb, rest, began) })
	over := false // stderr's end of the program
	stderr := newMarks(r.nonce, func(p []byte) error {
		switch {
		case over:
			return r.after.digests.write(p)
		case !r.before.digests.ended && !r.collect.Skip:
			return r.before.digests.write(p)
		}
		r.start(began)
		return r.out.Stderr(p)
	}, func(verb, rest string) error {
		switch {
		case verb == "E":
			over = true
		case over:
			return r.after.digests.mark(verb, rest)
		default:
			return r.before.digests.mark(verb, rest)
		}
		return nil
	})
	for {
		done, err := r.next(stdout, stderr)
		if err != nil || done {
			if r.state == running {
				err = errors.Join(err, stdout.finish(), stderr.finish())
			}
			return err
		}
	}
}

// stdout takes what lies between marks.
func (r *run) stdout(p []byte) error {
	switch r.state {
	case preparing:
		return r.before.listing.write(p)
	case running:
		return r.listened(r.out.Stdout(p))
	}
	return r.after.listing.write(p)
}

// listened stops the program when nobody listens: its context has ended then, and the
// killer does the rest. What is still read is dropped.
func (r *run) listened(error) error { return nil }

// start tells once that the program runs, and begins its time.
func (r *run) start(began *time.Time) {
	if r.out.WasStarted() {
		return
	}
	*began = time.Now()
	_ = r.listened(r.out.Started())
}

func (r *run) mark(ctx context.Context, verb, rest string, began *time.Time) error {
	switch verb {
	case "M":
		i, err := strconv.Atoi(rest)
		if err != nil || i < 0 || i >= len(r.spec.Inputs) || !r.spec.Inputs[i].Optional {
			return r.c.fail(r.op, backend.KindInternal, "the script of the run named an input that is none")
		}
		r.result.MissingInputs = append(r.result.MissingInputs, r.spec.Inputs[i].Path)
	case "F":
		if r.state != preparing {
			return nil
		}
		r.failed = r.c.failure(r.op, rest)
		return errEnded
	case "S":
		pid, err := strconv.ParseUint(rest, 10, 32)
		if err != nil || r.state == ended || pid < 2 {
			return nil // the program's own joke
		}
		r.step(ctx, uint32(pid), began)
	case "T":
		r.times = append(r.times, rest)
	case "E":
		return r.end(ctx, rest, *began)
	case "B", "b":
		if r.state == preparing {
			return r.before.listing.mark(verb, rest)
		}
		if r.state == ended {
			return r.after.listing.mark(verb, rest)
		}
	}
	return nil
}

// step notes that a step's program runs.
func (r *run) step(ctx context.Context, pid uint32, began *time.Time) {
	r.pid = pid
	r.start(began)
	if r.state == preparing {
		r.state = running
		r.killer.end()
		left := max(r.limits.Wall-time.Since(*began), time.Millisecond)
		r.killer = newKiller(ctx, r.f, left, cleanupTime, r.stop)
		return
	}
	if r.killer.why() != "" { // too late for the signal that ended the step before
		_ = r.f.kill(r.f.pid, pid)
	}
}

// stop ends the step's whole session and lets the script go on.
func (r *run) stop(backend.StopReason) error { return r.f.kill(r.f.pid, r.pid) }

// hurry ends a script that nobody waits for, and otherwise only makes it give up
// looking at files.
func (r *run) hurry(why backend.StopReason) error {
	if why == backend.StopCanceled {
		return r.f.kill(0, r.f.pid)
	}
	return r.f.interrupt()
}

// end notes how the steps ended.
func (r *run) end(ctx context.Context, rest string, began time.Time) error {
	if r.state != running {
		return nil
	}
	res := &r.result
	if _, err := fmt.Sscan(rest, &res.ExitCode, &res.Step); err != nil || res.Step < 0 || res.Step >= len(r.spec.Steps) {
		return r.c.fail(r.op, backend.KindInternal, "the script of the run did not say how it ended")
	}
	r.state = ended
	r.killer.end()
	r.why = r.killer.why()
	// What comes now is done whether or not the caller is still there.
	r.killer = newKiller(context.WithoutCancel(ctx), r.f, cleanupTime, drainTime, r.hurry)
	res.Stop = backend.StopExit
	res.Usage.Wall = time.Since(began)
	if len(r.times) == 2 {
		res.Usage.CPU = max(cpuTime(r.times[1])-cpuTime(r.times[0]), 0)
	}
	res.Signal = signalOf(res.ExitCode)
	if r.limits.CPU > 0 && (res.Signal == "SIGXCPU" || res.Signal == "SIGKILL" && res.Usage.CPU >= r.limits.CPU) {
		res.Stop, res.ExitCode, res.Signal = backend.StopCPU, -1, ""
	}
	return nil
}

// cpuTime reads user and system time as a shell prints them: "0m0.010s 0m0.002s". It
// is 0 for anything else.
func cpuTime(text string) time.Duration {
	var sum time.Duration
	for _, f := range strings.Fields(text) {
		d, err := time.ParseDuration(strings.ReplaceAll(f, ",", "."))
		if err != nil || d < 0 || d > 1000*time.Hour {
			return 0
		}
		sum += d
	}
	return sum
}
