package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// prober is a backend that answers Probe alone, after wait.
type prober struct {
	backend.Backend
	wait time.Duration

	mu     sync.Mutex
	asked  int
	report backend.ProbeReport
	err    error
}

func (p *prober) Probe(ctx context.Context, config json.RawMessage) (backend.ProbeReport, error) {
	if string(config) != `{"image":"x"}` {
		return backend.ProbeReport{}, errors.New("not the config")
	}
	select {
	case <-time.After(p.wait):
	case <-ctx.Done():
		return backend.ProbeReport{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return p.report, p.err
}

func (p *prober) answer(ok bool, err error, ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report, p.err = backend.ProbeReport{OK: ok, Languages: support(ids...)}, err
}

func support(ids ...string) (out []backend.LanguageSupport) {
	for _, id := range ids {
		out = append(out, backend.LanguageSupport{ID: id, Toolchain: "t"})
	}
	return out
}

func offeringOf(p *prober) *offering {
	return &offering{backend: p, config: json.RawMessage(`{"image":"x"}`), now: time.Now, presumed: support("best")}
}

func TestOfferingFollowsItsConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{}
		o := offeringOf(p)
		expect := func(asked int, ids ...string) {
			t.Helper()
			if got := o.languages(t.Context()); !slices.Equal(got, support(ids...)) || p.asked != asked {
				t.Errorf("%v after %d questions, want %v after %d", got, p.asked, ids, asked)
			}
		}
		p.answer(false, errors.New("engine is down"))
		expect(1, "best")
		expect(1, "best") // it is left alone for a moment
		p.answer(true, nil, "py", "js")
		time.Sleep(offerRetry)
		expect(2, "py", "js")
		p.answer(true, nil, "py")
		time.Sleep(offerKept - time.Nanosecond)
		expect(2, "py", "js")
		time.Sleep(time.Nanosecond)
		expect(3, "py")
		// What was known stays while the backend does not say.
		p.answer(false, errors.New("engine is down"))
		time.Sleep(offerKept)
		expect(4, "py")
		p.answer(false, nil)
		time.Sleep(offerRetry)
		expect(5, "py")
	})
}

func TestOfferingAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{wait: time.Second}
		p.answer(true, nil, "py")
		o := offeringOf(p)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if got := o.languages(t.Context()); !slices.Equal(got, support("py")) {
					t.Errorf("the first answer was not waited for: %v", got)
				}
			})
		}
		wg.Wait()
		if p.asked != 1 {
			t.Errorf("asked %d times", p.asked)
		}
		// A later question keeps nobody but who asks it.
		p.answer(true, nil, "js")
		time.Sleep(offerKept)
		wg.Go(func() { o.languages(t.Context()) })
		synctest.Wait()
		began := time.Now()
		if got := o.languages(t.Context()); !slices.Equal(got, support("py")) || time.Since(began) != 0 {
			t.Errorf("%v after %v", got, time.Since(began))
		}
		wg.Wait()
	})
}

func TestOfferingIsAskedAgainAfterACallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{wait: time.Second}
		p.answer(true, nil, "py")
		o := offeringOf(p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if got := o.languages(ctx); !slices.Equal(got, support("best")) {
			t.Errorf("got %v", got)
		}
		if got := o.languages(t.Context()); !slices.Equal(got, support("py")) {
			t.Errorf("the next caller got %v", got)
		}
	})
}
