package programmatic

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgramsThatEndBesideTheirCalls(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		body := func(ctx context.Context, p *Program[string]) string {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go ask(ctx, p, "a")
			time.Sleep(time.Second)
			return "end"
		}
		p := r.begin(acme, "", body)
		round := r.round(p)
		time.Sleep(2 * time.Second)
		if all, waiting := r.Live(); all != 1 || waiting != 1 {
			t.Errorf("%d live, %d wait: nobody was told", all, waiting)
		}
		c, err := r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], "1")})
		if err != nil || !c.Over() {
			t.Fatal(err)
		}
		if _, err := r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], "1")}); !errors.Is(err, ErrInFlight) {
			t.Errorf("at the same time: %v", err)
		}
		c.Resume(r.slot())
		r.over(p, "end")

		// Canceled, or expired, before anybody asks.
		for _, end := range []func(){func() { r.Cancel(acme, "x") }, func() { time.Sleep(11 * time.Minute) }} {
			p = r.begin(acme, "x", body)
			round = r.round(p)
			time.Sleep(2 * time.Second)
			end()
			synctest.Wait()
			if _, err := r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], "1")}); !errors.Is(err, ErrNotFound) {
				t.Errorf("%v", err)
			}
			if all, _ := r.Live(); all != 0 {
				t.Errorf("%d live", all)
			}
		}
		// Canceled while a continuation is under way.
		p = r.begin(acme, "y", body)
		round = r.round(p)
		time.Sleep(2 * time.Second)
		if c, err = r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], "1")}); err != nil {
			t.Fatal(err)
		}
		r.Cancel(acme, "y")
		c.Resume(r.slot())
		r.over(p, "end")
	})
}

// A program may end while its continuation waits for room to run.
func TestProgramsThatEndBeforeTheyGoOn(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		body := func(ctx context.Context, p *Program[string]) string {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go ask(ctx, p, "a")
			time.Sleep(time.Second)
			return "end"
		}
		begin := func() (*Program[string], *Round, *Continuation[string]) {
			t.Helper()
			p := r.begin(acme, "", body)
			round := r.round(p)
			c, err := r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], "1")})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.live) != 1 || !p.unread || r.tenants["acme"] != 1 {
				t.Errorf("%d live, tenants %v, unread %v: nobody was told", len(r.live), r.tenants, p.unread)
			}
			return p, round, c
		}
		none := func(kept int) {
			t.Helper()
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.live) != 0 || len(r.tenants) != 0 || len(r.kept) != kept {
				t.Errorf("%d live, tenants %v, %d kept", len(r.live), r.tenants, len(r.kept))
			}
		}
		p, _, c := begin()
		c.Resume(r.slot())
		r.over(p, "end")
		none(1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		none(0)
		// No room: the token is good until the ttl.
		p, round, c := begin()
		c.Abandon()
		r.answer(round, value(round.Calls[0], "1"))
		r.over(p, "end")
		none(1)
		_, _, c = begin()
		c.Abandon()
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		none(0)
	})
}

// What gets no room once nobody may go on is over.
func TestCloseBeforeProgramsGoOn(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			ask(ctx, p, "a")
			<-ctx.Done()
			return context.Cause(ctx).Error()
		})
		round := r.round(p)
		c, err := r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], "1")})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		c.Abandon()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Wait(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestCancel(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		body := func(ctx context.Context, p *Program[string]) string {
			ask(ctx, p, "a")
			<-ctx.Done()
			return context.Cause(ctx).Error()
		}
		// Before.
		r.Cancel(acme, "early")
		r.Cancel(Owner{Tenant: "acme", User: "bob"}, "other")
		if _, err := r.Begin(acme, "early", nil, r.slot()); !errors.Is(err, ErrCanceled) {
			t.Errorf("%v", err)
		}
		p := r.begin(acme, "early", body) // remembered once
		p.Stop()
		r.over(p, ErrCanceled.Error())
		p = r.begin(acme, "other", body) // not by that user
		p.Stop()
		r.over(p, ErrCanceled.Error())
		r.Cancel(acme, "late")
		time.Sleep(61 * time.Second)
		p = r.begin(acme, "late", body)
		p.Stop()
		r.over(p, ErrCanceled.Error())
		synctest.Wait()
		if n := len(r.canceled.tenants); n != 0 {
			t.Errorf("cancellations of %d tenants are kept", n)
		}
		// While it runs, while it is suspended, and while it is being continued.
		p = r.begin(acme, "r", func(ctx context.Context, _ *Program[string]) string { <-ctx.Done(); return "stopped" })
		synctest.Wait()
		r.Cancel(acme, "r")
		r.over(p, "stopped")
		p = r.begin(acme, "s", body)
		round := r.round(p)
		r.Cancel(acme, "s")
		synctest.Wait()
		if _, err := r.Read(acme, round.Token); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
		p = r.begin(acme, "c", body)
		round = r.round(p)
		c, err := r.Continue(acme, "d", round.Token, []Result{value(round.Calls[0], "1")})
		if err != nil {
			t.Fatal(err)
		}
		r.Cancel(acme, "d")
		c.Resume(r.slot())
		r.over(p, ErrCanceled.Error())
		if all, _ := r.Live(); all != 0 {
			t.Errorf("%d live", all)
		}
		// However many there are.
		for i := range 3 * maxRemembered {
			r.Cancel(acme, fmt.Sprint("many", i))
		}
		if n := len(r.canceled.tenants["acme"]); n > maxRemembered {
			t.Errorf("%d are remembered", n)
		}
	})
}

func TestCallersThatGoAway(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, _ *Program[string]) string { <-ctx.Done(); return "gone" })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Next(ctx, nil, nil); err == nil {
			t.Error("no error")
		}
		r.over(p, "gone")
	})
}

func TestClose(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		body := func(ctx context.Context, p *Program[string]) string {
			ask(ctx, p, "a")
			if ctx.Err() == nil {
				time.Sleep(time.Minute)
			}
			ask(ctx, p, "a")
			return "end"
		}
		suspended := r.begin(acme, "", body)
		r.round(suspended)
		goes := r.begin(acme, "", body)
		round := r.round(goes)
		r.answer(round, value(round.Calls[0], "1"))
		r.Close()
		synctest.Wait()
		if all, waiting := r.Live(); all != 1 || waiting != 0 {
			t.Errorf("%d live, %d wait", all, waiting)
		}
		if _, err := r.Begin(acme, "", nil, r.slot()); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		r.over(goes, "end") // its next round ended it
		if goes.Stopped() != ErrClosed {
			t.Errorf("stopped by %v", goes.Stopped())
		}
	})
}

// What one tenant's programs leave to be asked for again never costs another tenant its own.
func TestRepliesOfOthersStay(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		ends := func(owner Owner, calls bool) (again func() error) {
			p := r.begin(owner, "", func(ctx context.Context, p *Program[string]) string {
				if calls {
					ask(ctx, p, "a")
				}
				return "end"
			})
			if !calls {
				r.over(p, "end")
				return nil
			}
			round := r.round(p)
			results := []Result{value(round.Calls[0], "1")}
			c, err := r.Continue(owner, "", round.Token, results)
			if err != nil {
				t.Fatal(err)
			}
			c.Resume(r.slot())
			r.over(p, "end")
			c.Answered([]byte("reply"))
			return func() error {
				_, err := r.Continue(owner, "", round.Token, results)
				return err
			}
		}
		mine := ends(acme, true)
		flood := Owner{Tenant: "flood"}
		var theirs []func() error
		for range 10 {
			ends(flood, false) // nobody could ask for its end again
			theirs = append(theirs, ends(flood, true))
		}
		if err := mine(); err != nil {
			t.Errorf("after a flood of another tenant: %v", err)
		}
		for i, again := range theirs {
			if err := again(); (err == nil) != (i >= len(theirs)-3) {
				t.Errorf("the flood's program %d: %v, want the last three", i, err)
			}
		}
	})
}
