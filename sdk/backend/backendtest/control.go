package backendtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

func (k *kit) controlChecks() []check {
	return []check{
		{"one", k.calling(CommandCalls, k.controlOne)},
		{"error", k.calling(CommandCalls, k.controlError)},
		{"together", k.calling(CommandCalls, k.controlTogether)},
		{"one_after_another", k.calling(CommandCalls, k.controlRounds)},
		{"large", k.calling(CommandCalls, k.controlLarge)},
		{"large_input", k.calling(ChannelCalls, k.controlLargeInput)},
		{"two_connections", k.calling(CommandCalls, k.controlPair)},
		{"most_at_once", k.calling(ChannelCalls, k.controlMost)},
		{"environment", k.calling(CommandCalls, k.controlEnvironment)},
		{"not_asked_for", k.calling(CommandCalls, k.controlAbsent)},
		{"of_another_run", k.calling(CommandCalls, k.controlOthers)},
		{"malformed", k.calling(ChannelCalls, k.controlMalformed)},
		{"withdrawn", k.calling(ChannelCalls, k.controlWithdrawn)},
		{"left_open", k.calling(CommandCalls, k.controlLeftOpen)},
		{"clock", k.calling(CommandCalls, k.controlClock)},
		{"beside", k.calling(CommandCalls, k.controlBeside)},
		{"cancel", k.calling(CommandCalls, k.controlCancel)},
		{"listener_gone", k.calling(CommandCalls, k.controlGone)},
	}
}

// calling leaves a check out where there are no calls, or where the probe cannot make
// them in that way.
func (k *kit) calling(needs Calls, run func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		if !k.info.Has(backend.CapControl) {
			t.Skip("the backend does not declare it")
		}
		if k.Probe.Calls < needs {
			t.Skip("the probe cannot call in that way")
		}
		run(t)
	}
}

type answerer func(ctx context.Context, call backend.ControlCall) (backend.ControlReply, error)

// callSpec is a run of the probe that may call.
func (k *kit) callSpec(ref backend.Ref, ops ...string) backend.RunSpec {
	spec := k.runSpec(ref, ops...)
	spec.Control = true
	return spec
}

// ask runs the probe, which must end by itself with status 0.
func (k *kit) ask(t *testing.T, ref backend.Ref, answer answerer, ops ...string) outcome {
	t.Helper()
	o := k.do(t, k.callSpec(ref, ops...), &recorder{onCall: answer})
	if o.Stop != backend.StopExit || o.ExitCode != 0 {
		t.Fatalf("the probe ended with %s, status %d %s; stdout %s, stderr %s", o.Stop, o.ExitCode, o.Message, show(o.stdout), show(o.stderr))
	}
	return o
}

// echo answers with the input.
func echo(_ context.Context, c backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{Result: c.Input}, nil
}

// same compares JSON.
func same(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

// controlOne: what is asked arrives as it was, and so does the answer.
func (k *kit) controlOne(t *testing.T) {
	const input, result = `{"city":"Bergen \"ø\" 🌧","n":[1,2.5,null,true,{}]}`, `{"celsius":9,"text":"a\nb ü","list":[]}`
	var got backend.ControlCall
	o := k.ask(t, k.sandbox(t), func(_ context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		got = c
		return backend.ControlReply{Result: []byte("{\n" + result[1:])}, nil // laid out in lines
	}, "out", "before\n", "call", "get-weather", input, "out", "after")
	if got.ID == "" || got.Name != "get-weather" || !same(string(got.Input), input) {
		t.Errorf("the call is %q %q with %s", got.ID, got.Name, got.Input)
	}
	text, ok := strings.CutPrefix(o.stdout, "before\n")
	text, end := strings.CutSuffix(text, "\nafter")
	if !ok || !end || !same(text, result) || strings.Contains(text, "\n") {
		t.Errorf("stdout %q, want %s in one line", o.stdout, result)
	}
}

func (k *kit) controlError(t *testing.T) {
	o := k.ask(t, k.sandbox(t), func(context.Context, backend.ControlCall) (backend.ControlReply, error) {
		return backend.ControlReply{Error: `no such city: "ü"`}, nil
	}, "call", "x", "{}", "out", "on")
	if want := "error: no such city: \"ü\"\non"; o.stdout != want {
		t.Errorf("stdout %q, want %q", o.stdout, want)
	}
}

// controlTogether: calls are open at the same time and answered in any order.
func (k *kit) controlTogether(t *testing.T) {
	const n = 10
	var mu sync.Mutex
	turn := make([]chan struct{}, n)
	for i := range turn {
		turn[i] = make(chan struct{})
	}
	ids := map[string]bool{}
	o := k.ask(t, k.sandbox(t), func(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		var in struct{ N int }
		if err := json.Unmarshal(c.Input, &in); err != nil || in.N < 0 || in.N >= n {
			return backend.ControlReply{}, fmt.Errorf("input %s: %w", c.Input, err)
		}
		mu.Lock()
		ids[c.ID] = true
		if len(ids) == n {
			close(turn[n-1]) // all are here: the last one is first
		}
		mu.Unlock()
		select {
		case <-turn[in.N]:
		case <-ctx.Done():
			return backend.ControlReply{}, ctx.Err()
		}
		if in.N > 0 {
			defer close(turn[in.N-1])
		}
		return backend.ControlReply{Result: fmt.Appendf(nil, "%d", in.N*in.N)}, nil
	}, "gather", fmt.Sprint(n), "square")
	if want := "0\n1\n4\n9\n16\n25\n36\n49\n64\n81\n"; o.stdout != want || len(ids) != n {
		t.Errorf("stdout %q with %d ids", o.stdout, len(ids))
	}
}

func (k *kit) controlRounds(t *testing.T) {
	var ops []string
	want, rounds := "", 20
	if k.Probe.Calls == CommandCalls { // each of which may be a process
		rounds = 5
	}
	for i := range rounds {
		in := fmt.Sprintf(`{"round":%d}`, i)
		ops, want = append(ops, "call", "next", in), want+in+"\n"
	}
	if o := k.ask(t, k.sandbox(t), echo, ops...); o.stdout != want {
		t.Errorf("stdout %q", o.stdout)
	}
}

// controlLarge: a result as large as it may be, and one that is larger.
func (k *kit) controlLarge(t *testing.T) {
	ref := k.sandbox(t)
	sized := func(n int) answerer {
		return func(context.Context, backend.ControlCall) (backend.ControlReply, error) {
			return backend.ControlReply{Result: []byte(`"` + strings.Repeat("x", n-2) + `"`)}, nil
		}
	}
	if o := k.ask(t, ref, sized(control.MaxValue), "size", "big"); o.stdout != fmt.Sprint(control.MaxValue) {
		t.Errorf("of %d bytes %s arrived", control.MaxValue, o.stdout)
	}
	if o := k.ask(t, ref, sized(control.MaxValue+1), "call", "big", "{}"); !strings.HasPrefix(o.stdout, "error: ") || len(o.stdout) > 1000 {
		t.Errorf("a result that is too large came as %s", show(o.stdout))
	}
}

func (k *kit) controlLargeInput(t *testing.T) {
	got := 0
	k.ask(t, k.sandbox(t), func(_ context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		got = len(c.Input)
		return backend.ControlReply{Result: []byte("null")}, nil
	}, "give", "big", fmt.Sprint(control.MaxValue))
	if got != control.MaxValue {
		t.Errorf("of %d bytes %d arrived", control.MaxValue, got)
	}
}

// controlPair: connections know nothing of each other.
func (k *kit) controlPair(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	o := k.ask(t, k.sandbox(t), func(_ context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		both.Done()
		both.Wait()
		return backend.ControlReply{Result: c.Input}, nil
	}, "pair", "x")
	if want := "{\"who\":\"a\"}\n{\"who\":\"b\"}\n"; o.stdout != want {
		t.Errorf("stdout %q", o.stdout)
	}
}

// controlMost: what is more than may be open waits and is not lost.
func (k *kit) controlMost(t *testing.T) {
	const n = control.MaxOpen + 20
	var open, most atomic.Int64
	full := make(chan struct{})
	enough := sync.OnceFunc(func() { close(full) })
	o := k.ask(t, k.sandbox(t), func(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		now := open.Add(1)
		defer open.Add(-1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		if now == control.MaxOpen {
			time.AfterFunc(300*time.Millisecond, enough)
		}
		select {
		case <-full:
		case <-ctx.Done():
		}
		return backend.ControlReply{Result: c.Input}, nil
	}, "gather", fmt.Sprint(n), "x")
	if got := strings.Count(o.stdout, "\n"); got != n || most.Load() != control.MaxOpen {
		t.Errorf("%d of %d were answered, at most %d at once, want %d", got, n, most.Load(), control.MaxOpen)
	}
}

// controlEnvironment: the last step is told where to call, and no other.
func (k *kit) controlEnvironment(t *testing.T) {
	spec := k.callSpec(k.sandbox(t))
	step := func(ops ...string) backend.Step { return backend.Step{Argv: k.Probe.Argv, Args: ops} }
	look := []string{"env", control.EnvPath, "out", "|", "env", control.EnvCall, "out", "\n"}
	spec.Steps = []backend.Step{step(look...), step(look...)}
	o := k.do(t, spec, nil)
	lines := strings.Split(o.stdout, "\n")
	if len(lines) != 3 || lines[0] != "(unset)|(unset)" {
		t.Fatalf("stdout %q", o.stdout)
	}
	path, word, _ := strings.Cut(lines[1], "|")
	if !strings.HasPrefix(path, "/") || backend.Within(backend.DataDir, path) || word == "" || strings.ContainsAny(word, " \t$'\"") {
		t.Errorf("in the last step: %q", lines[1])
	}
}

func (k *kit) controlAbsent(t *testing.T) {
	ref := k.sandbox(t)
	o := k.run(t, ref, "env", control.EnvPath, "out", "|", "env", control.EnvCall)
	if o.stdout != "(unset)|(unset)" {
		t.Errorf("without calls the environment has %q", o.stdout)
	}
	// Neither where another run of the sandbox had it.
	o = k.ask(t, ref, echo, "env", control.EnvPath)
	if got := k.run(t, ref, "dial", o.stdout).stdout; got != "refused" {
		t.Errorf("a run without calls could open what an earlier one had: %s", got)
	}
}

// controlOthers: nobody else can open the channel of a run.
func (k *kit) controlOthers(t *testing.T) {
	k.seesPaths(t)
	var said atomic.Value // output may come after a call that was made later
	said.Store("")
	other := k.sandbox(t)
	rec := &recorder{onStdout: func(all string) error {
		said.Store(all)
		return nil
	}}
	rec.onCall = func(_ context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		if c.Name == "intruder" {
			t.Error("a call of another run arrived")
		}
		var path string
		k.await(t, "path of the channel", func() (ok bool) {
			path, ok = strings.CutSuffix(said.Load().(string), "\n")
			return ok
		})
		if got := k.run(t, other, "dial", path).stdout; got != "refused" {
			t.Errorf("another sandbox opened the channel: %s", got)
		}
		return backend.ControlReply{Result: []byte("{}")}, nil
	}
	k.do(t, k.callSpec(k.sandbox(t), "env", control.EnvPath, "out", "\n", "call", "x", "{}"), rec)
}

// controlMalformed: what is no frame ends the connection, and nothing else.
func (k *kit) controlMalformed(t *testing.T) {
	ops := []string{}
	bad := []string{
		"", "x", "[]", `{"id":"1","name":"n"}`, `{"id":1,"name":"n","input":{}}`, `{"id":"","name":"n","input":{}}`,
		`{"id":"1","name":"n","input":{},"more":1}`, `{"id":"1","name":"n","input":}`,
		fmt.Sprintf(`{"id":%q,"name":"n","input":{}}`, strings.Repeat("i", control.MaxID+1)),
		"{\"id\":\"1\",\"name\":\"held\",\"input\":{}}\n{\"id\":\"1\",\"name\":\"held\",\"input\":{}}",
	}
	for _, b := range bad {
		ops = append(ops, "raw", b, "out", "\n")
	}
	o := k.ask(t, k.sandbox(t), func(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		if c.Name == "held" { // the one before its double: withdrawn with the connection
			<-ctx.Done()
			return backend.ControlReply{}, ctx.Err()
		}
		return echo(ctx, c)
	}, append(ops, "call", "fine", `{"a":1}`)...)
	if want := strings.Repeat("eof\n", len(bad)) + "{\"a\":1}\n"; o.stdout != want {
		t.Errorf("stdout %q", o.stdout)
	}
}

// controlWithdrawn: who closes the connection wants no answer any more.
func (k *kit) controlWithdrawn(t *testing.T) {
	var withdrawn atomic.Bool
	began := make(chan struct{})
	o := k.ask(t, k.sandbox(t), func(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		if c.Name == "sync" {
			<-began
			return echo(ctx, c)
		}
		if c.Name == "check" {
			k.await(t, "end of the withdrawn call", withdrawn.Load)
			return echo(ctx, c)
		}
		close(began)
		<-ctx.Done()
		withdrawn.Store(true)
		return backend.ControlReply{}, ctx.Err()
	}, "open", "never", "call", "sync", "{}", "close", "call", "check", "{}")
	if o.stdout != "{}\n{}\n" {
		t.Errorf("stdout %q", o.stdout)
	}
}

// controlLeftOpen: a program that ends is not waited for on account of its calls.
func (k *kit) controlLeftOpen(t *testing.T) {
	var ended atomic.Bool
	began := make(chan struct{})
	k.ask(t, k.sandbox(t), func(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
		if c.Name == "sync" {
			<-began
			return echo(ctx, c)
		}
		close(began)
		<-ctx.Done()
		ended.Store(true)
		return backend.ControlReply{}, ctx.Err()
	}, "open", "never", "call", "sync", "{}")
	if !ended.Load() {
		t.Error("a call was open after the run")
	}
}
