package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// owner is the goroutine that decides. Nothing else writes its fields; launches,
// checks and stops run beside it, one at a time, and tell it how they went.
type owner[U Unit] struct {
	s *Supervisor[U]

	unit    U
	running bool
	readyAt time.Time
	strikes int
	pauses  pauses
	// changed is asked, in Failed, whether a start may succeed now.
	changed func() bool

	launched chan launchResult[U] // one is under way while not nil
	checked  chan checkResult     // likewise
	timer    *time.Timer          // of the next check, or of the next start
}

type launchResult[U Unit] struct {
	unit U
	err  error
}

type checkResult struct {
	health Health
	err    error
}

func newOwner[U Unit](s *Supervisor[U]) *owner[U] {
	return &owner[U]{
		s: s, timer: time.NewTimer(time.Hour),
		pauses: pauses{settings: s.o.Settings, jitter: s.o.Jitter},
	}
}

func (o *owner[U]) run() {
	defer close(o.s.gone)
	defer o.timer.Stop()
	o.launch()
	for {
		var done <-chan struct{}
		if o.running {
			done = o.unit.Done()
		}
		select {
		case <-o.s.life.Done():
			o.finish()
			return
		case r := <-o.launched:
			o.launched = nil
			o.started(r)
		case <-done:
			o.ended(o.unit.Ended())
		case r := <-o.checked:
			o.checked = nil
			o.judge(r)
		case <-o.timer.C:
			o.tick()
		case taken := <-o.s.reset:
			o.resetPauses()
			close(taken)
		case r := <-o.s.heard:
			if o.running && any(o.unit) == any(r.unit) {
				o.judge(checkResult{health: r.health})
			}
			close(r.taken)
		}
	}
}

// tick is the time of the next check, or of the next start.
func (o *owner[U]) tick() {
	switch {
	case o.running && o.checked == nil:
		o.check()
	case o.running || o.launched != nil:
	case o.s.View().State == Backoff, o.s.View().State == Failed && o.changed():
		o.launch()
	case o.s.View().State == Failed:
		o.timer.Reset(o.s.o.CheckEvery)
	}
}

func (o *owner[U]) launch() {
	o.publish(Starting, o.lastCause(), time.Time{})
	result := make(chan launchResult[U], 1)
	o.launched = result
	go func() {
		u, err := o.s.o.Launch(o.s.life)
		result <- launchResult[U]{u, err}
	}()
}

func (o *owner[U]) started(r launchResult[U]) {
	if r.err != nil {
		o.s.o.Log.Error("plugin did not start", "error", r.err)
		e := End{At: time.Now(), Ended: Ended{Cause: r.err.Error()}}
		if never, ok := errors.AsType[*ImpossibleError](r.err); ok {
			o.changed = never.Changed
			o.set(func(v *View) {
				v.State, v.LastEnd, v.Since, v.Cause, v.RetryAt = Failed, &e, e.At, e.Cause, time.Time{}
			})
			o.timer.Reset(o.s.o.CheckEvery)
			return
		}
		o.fell(e)
		return
	}
	o.unit, o.running, o.readyAt, o.strikes = r.unit, true, time.Now(), 0
	v := o.s.View()
	o.set(func(next *View) {
		next.State, next.Since, next.Cause, next.RetryAt = Ready, o.readyAt, o.lastCause(), time.Time{}
		next.Starts++
		next.Restarts = next.Starts - 1
	})
	o.s.o.Log.Debug("plugin is ready", "start", v.Starts+1)
	if o.checked == nil { // whether it says so too is asked at once
		o.check()
	}
}

// ended takes an ended unit out of service.
func (o *owner[U]) ended(how Ended) {
	u, up := o.unit, time.Since(o.readyAt)
	o.unit, o.running = *new(U), false
	o.set(func(v *View) { // no call may have it any more
		v.State, v.Since, v.Cause = Starting, time.Now(), how.Cause
	})
	o.s.o.Log.Warn("plugin ended", "exit", how.Cause, "uptime", up.Round(time.Millisecond))
	// It is over; this collects what it left.
	if err := o.put(u); err != nil {
		o.s.o.Log.Error("plugin left something behind", "error", err)
	}
	if up >= o.s.o.Steady {
		o.pauses.steady()
	}
	o.fell(End{At: time.Now(), Uptime: up, Ended: how})
}

// fell decides what follows an end that nobody asked for.
func (o *owner[U]) fell(e End) {
	pause, tooOften := o.pauses.after(e)
	o.set(func(v *View) {
		v.LastEnd, v.Since, v.Cause, v.RetryAt = &e, e.At, e.Cause, time.Time{}
		switch {
		case tooOften:
			v.State = Quarantined
			v.Cause = fmt.Sprintf("ended or failed to start %d times within %v, last: %s", o.s.o.Crashes, o.s.o.Window, e.Cause)
		case pause > 0:
			v.State, v.RetryAt = Backoff, e.At.Add(pause)
		default:
			v.State = Starting
		}
	})
	switch {
	case tooOften:
		o.s.o.Log.Error("plugin is quarantined", "cause", e.Cause)
	case pause > 0:
		o.timer.Reset(pause)
	default:
		o.launch()
	}
}

func (o *owner[U]) resetPauses() {
	o.pauses = pauses{settings: o.s.o.Settings, jitter: o.s.o.Jitter}
	if s := o.s.View().State; s == Backoff || s == Quarantined || s == Failed {
		o.launch()
	}
}

func (o *owner[U]) check() {
	result := make(chan checkResult, 1)
	o.checked = result
	u := o.unit
	go func() {
		ctx, cancel := context.WithTimeout(o.s.life, o.s.o.CheckTimeout)
		defer cancel()
		h, err := o.s.o.Check(ctx, u)
		result <- checkResult{h, err}
	}()
}

// judge takes the outcome of a check of the running unit: put waits for a check
// under way, so that none outlives the unit it is about.
func (o *owner[U]) judge(r checkResult) {
	if r.err == nil {
		o.strikes = 0
		if r.health.Ready {
			o.publish(Ready, o.lastCause(), time.Time{})
			o.timer.Reset(o.s.o.CheckEvery)
		} else {
			o.publish(Degraded, r.health.Reason, time.Time{})
			o.timer.Reset(o.s.o.UnreadyEvery) // people wait for it
		}
		return
	}
	o.timer.Reset(o.s.o.CheckEvery)
	select {
	case <-o.unit.Done():
		return // which explains the error, and comes next
	default:
	}
	o.strikes++
	if o.strikes < o.s.o.Strikes {
		o.publish(Degraded, "no answer to a health check: "+r.err.Error(), time.Time{})
		return
	}
	o.ended(Ended{Cause: fmt.Sprintf("no answer to %d health checks in a row: %v", o.strikes, r.err)})
}

// put stops a unit by force and waits for the check that may be using it.
func (o *owner[U]) put(u U) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := u.Stop(ctx)
	if o.checked != nil {
		<-o.checked
		o.checked = nil
	}
	return err
}

// finish is the end of supervision: nothing is left when it returns.
func (o *owner[U]) finish() {
	o.publish(Draining, "the host is closing", time.Time{})
	if o.launched != nil {
		if r := <-o.launched; r.err == nil {
			o.unit, o.running = r.unit, true
		}
	}
	if o.checked != nil {
		<-o.checked
	}
	if o.running {
		ctx, cancel := context.WithTimeout(o.s.stop, o.s.o.StopTimeout)
		defer cancel()
		o.s.err = o.unit.Stop(ctx)
		o.running = false
	}
	o.publish(Stopped, "", time.Time{})
}

func (o *owner[U]) lastCause() string {
	if e := o.s.View().LastEnd; e != nil {
		return e.Cause
	}
	return ""
}

// publish changes the state, or only why it is so.
func (o *owner[U]) publish(state State, cause string, retryAt time.Time) {
	v := o.s.View()
	if v.State == state && v.Cause == cause && v.RetryAt.Equal(retryAt) {
		return
	}
	o.set(func(next *View) {
		if next.State != state {
			next.State, next.Since = state, time.Now()
		}
		next.Cause, next.RetryAt = cause, retryAt
	})
}

func (o *owner[U]) set(change func(*View)) {
	old := o.s.view.Load()
	next := &snapshot[U]{View: old.View, unit: o.unit, running: o.running, next: make(chan struct{})}
	change(&next.View)
	o.s.view.Store(next)
	close(old.next)
	if o.s.o.Changed != nil && old.State != next.State {
		o.s.o.Changed(old.View, next.View)
	}
}
