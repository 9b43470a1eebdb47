package main

import (
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/testcache"
	"github.com/caisson-run/caisson/sdk/backend"
)

// A limit of processor time is fuel at a fixed rate: it is reached at the same place
// on any machine, over all steps of a run together, and what is reported is the fuel.
func TestProcessorTimeIsFuel(t *testing.T) {
	needPacks(t)
	p := startWith(t, t.TempDir(), backend.EnvCache+"="+testcache.Dir(), envPacks+"="+onlyPython(t))
	b := p.Backend()
	awaitReady(t, b)
	ref := newSandbox(t, b, "cpu")
	run := func(limit time.Duration, steps ...string) backend.RunResult {
		t.Helper()
		spec := backend.RunSpec{
			Ref: ref, RunID: "r", Program: backend.Program{File: "main.py", Source: []byte("import sys\nn = 0\nwhile n < int(sys.argv[1]): n += 1\nprint(n)")},
			Limits: backend.Limits{Wall: time.Minute, CPU: limit},
		}
		for _, n := range steps {
			spec.Steps = append(spec.Steps, backend.Step{Name: "run", Argv: []string{"python3", "{dir}/main.py", n}})
		}
		r, err := b.Run(t.Context(), spec, &recorded{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const limit = 200 * time.Millisecond
	for range 2 {
		r := run(limit, "1000000000")
		if r.Stop != backend.StopCPU || r.ExitCode != -1 || r.Usage.CPU < limit || r.Usage.CPU > limit+limit/100 {
			t.Errorf("%+v", r)
		}
		if r.Usage.Fuel != run(limit, "1000000000").Usage.Fuel {
			t.Error("the same program used different fuel")
		}
	}
	one := run(0, "20000")
	if one.Stop != backend.StopExit || one.Usage.Fuel == 0 || one.Usage.CPU != time.Duration(one.Usage.Fuel/3) {
		t.Errorf("%+v", one)
	}
	// Two steps fit into twice what one needs, a third does not.
	two := run(0, "20000", "20000")
	if r := run(two.Usage.CPU+one.Usage.CPU/2, "20000", "20000", "20000"); r.Stop != backend.StopCPU || r.Step != 2 {
		t.Errorf("%+v", r)
	}
	if r := run(two.Usage.CPU+time.Millisecond, "20000", "20000"); r.Stop != backend.StopExit {
		t.Errorf("%+v", r)
	}
}
