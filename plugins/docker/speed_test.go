package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// TestFasterThanTheEngine holds, very generously, what the agent is for: a tenth of
// what it gains on a machine that does other things as well.
func TestFasterThanTheEngine(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	back := openBackend(t, shortDir(t), true, nil)
	t.Cleanup(func() { closeBackend(t, back) })
	if err := back.OpenConfig(t.Context(), "speed", testConfig(t, nil)); err != nil {
		t.Fatal(err)
	}
	s := create(t, back, cl, "speed", "speed")
	least := func(op func() error) time.Duration {
		best := time.Hour
		for range 6 {
			began := time.Now()
			if err := op(); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	agent := least(func() error { return s.exec(t.Context(), "true") })
	engine := least(func() error { return s.dockerExec(t.Context(), cl, "true") })
	if agent*3 > engine {
		t.Errorf("true takes %v, and %v by the engine", agent, engine)
	}
	agent = least(func() error {
		_, err := back.WriteFile(t.Context(), s.ref, backend.DataDir+"/f", backend.WriteOptions{}, bytes.NewReader(make([]byte, 1024)))
		return err
	})
	engine = least(func() error {
		r, _, err := cl.CopyFromContainer(t.Context(), s.id, backend.DataDir+"/f")
		if err == nil {
			err = r.Close()
		}
		return err
	})
	if agent*10 > engine {
		t.Errorf("writing a file takes %v, and fetching one %v by the engine", agent, engine)
	}
}
