package memory

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(testing.TB) bindingtest.Fixture {
	c := bindingtest.NewClock()
	e := NewEngine(Options{Now: c.Now})
	return bindingtest.Fixture{Replicas: []binding.Engine{e, e}, Advance: c.Advance}
}

func TestSuite(t *testing.T) { bindingtest.Run(t, open) }

// Nothing is kept of sessions of which nothing is left.
func TestForgetsSessions(t *testing.T) {
	c := bindingtest.NewClock()
	e := NewEngine(Options{Now: c.Now})
	k := binding.Key{Tenant: "t", Session: "s"}
	_, _, err := e.Lock(t.Context(), k, "h", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.BeginTurn(t.Context(), k, "h", time.Second, binding.Keep); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	if _, err := e.State(t.Context(), k, binding.Keep); err != nil {
		t.Fatal(err)
	}
	if len(e.sessions) != 0 {
		t.Errorf("%d sessions are kept", len(e.sessions))
	}
}

func TestModel(t *testing.T) { bindingtest.CheckModel(t, open) }

func TestLinearizable(t *testing.T) { bindingtest.CheckLinearizable(t, open) }
