package host

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
	"github.com/hashicorp/go-hclog"
)

// slowly is a clock on which the calls take what they are told to.
type slowly struct{ at time.Time }

func (s *slowly) now() time.Time { return s.at }

func (s *slowly) call(took time.Duration) func() error {
	return func() error {
		s.at = s.at.Add(took)
		return nil
	}
}

func TestPace(t *testing.T) {
	const timeout = 100 * time.Millisecond
	t.Run("the same call", func(t *testing.T) {
		for tries := range paceTries + 1 {
			clock := &slowly{at: time.Unix(1, 0)}
			p := pace{timeout: timeout, now: clock.now}
			made := 0
			err := p.best(func() error {
				made++
				if made <= tries {
					return clock.call(timeout + time.Duration(made)*time.Millisecond)()
				}
				return clock.call(timeout)()
			})
			if late := tries == paceTries; (err != nil) != late || late && !strings.Contains(err.Error(), "took 101ms or longer 5 times") {
				t.Errorf("%d times too slow: %v", tries, err)
			}
		}
	})
	t.Run("one of a million", func(t *testing.T) {
		clock := &slowly{at: time.Unix(1, 0)}
		p := pace{timeout: timeout, now: clock.now}
		for i := range 10_000 {
			took := time.Microsecond
			if i%200 == 0 { // more often than any machine does
				took = time.Second
			}
			if err := p.one(clock.call(took)); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if r := p.remark(); !strings.Contains(r, "50 took longer") {
			t.Errorf("remark %q", r)
		}
	})
	t.Run("from some call on", func(t *testing.T) {
		clock := &slowly{at: time.Unix(1, 0)}
		p := pace{timeout: timeout, now: clock.now}
		made := 0
		for ; made < 20_000; made++ {
			took := time.Microsecond
			if made >= 5000 {
				took = time.Second
			}
			if err := p.one(clock.call(took)); err != nil {
				break
			}
		}
		if made != 5000+slowCalls {
			t.Errorf("stopped after %d calls", made)
		}
	})
	t.Run("errors", func(t *testing.T) {
		wrong := errors.New("no verdict")
		p := pace{timeout: timeout, now: time.Now}
		for _, f := range []func(func() error) error{p.best, p.one} {
			if err := f(func() error { return wrong }); !errors.Is(err, wrong) {
				t.Error(err)
			}
		}
	})
}

// What is verified is held to the fuel that it would have in service, and to time only
// so that it comes back.
func TestVerifyIsHeldToFuel(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]int64{
		"limits: {timeout: 1ms}\n":               meter.UnitsPerSecond / 1000,
		"limits: {timeout: 1ms, fuel: 500000}\n": 500_000,
		"":                                       meter.UnitsPerSecond,
	} {
		v := &verification{o: VerifyOptions{Log: hclog.NewNullLogger()}, found: inspect(policyVersion(t, t.TempDir(), "1.0.0", more, code), "", Trust{}), cache: t.TempDir()}
		m, err := v.fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l := m.Info().Limits; l.Fuel != want || l.Timeout != hangTimeout {
			t.Errorf("%q: %d units and %v, want %d", more, l.Fuel, l.Timeout, want)
		}
		v.close(t.Context())
	}
}
