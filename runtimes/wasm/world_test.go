package wasm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// Operations of testdata/guests/probe.
const (
	probeEcho = uint32(abi.OpPrivate) + iota
	probePanic
	probeExit
	probeSpin
	probeSleep
	probeMemory
	probeWorld
	probeClocks
	probeLog
	probeBlock
	probeRefuse
	probeLong
)

// TestGoGuestFailures has the ways a Go program ends, and an echo after each.
func TestGoGuestFailures(t *testing.T) {
	spec := probeSpec(t)
	spec.Limits = Limits{Instances: 1, Timeout: 5 * time.Second, Fuel: maxFuel, Wait: time.Minute, MemoryBytes: 32 << 20, OutputBytes: 1000}
	m := mustLoad(t, spec, fuelStop{})
	for _, tc := range []struct {
		name   string
		op     uint32
		reason Reason
		detail string
		keeps  bool
	}{
		{"panic", probePanic, ReasonGuest, "guest: panic: a deep reason", true},
		{"refusal", probeRefuse, ReasonGuest, "guest: no: no", true},
		{"exit", probeExit, ReasonTrap, "trap: exited with code 7", false},
		{"spin", probeSpin, ReasonTimeout, "timeout: guest code ran longer than 5s", false},
		{"memory", probeMemory, ReasonMemory, "memory: after it was refused more than 33554432 bytes: unreachable: runtime: out of memory", false},
		{"deadlock", probeBlock, ReasonTrap, "trap: unreachable: fatal error: all goroutines are asleep - deadlock!", false},
		{"long reply", probeLong, ReasonBadOutput, "reply of 1048576 bytes is longer than 1000", false},
		{"unserved", OpAdmit, ReasonGuest, "unsupported_op: this module does not serve admit", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := m.Stats().Discards
			_, err := m.Call(context.Background(), tc.op, nil, nil)
			if !errors.Is(err, tc.reason) || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("got %v, want %v %s", err, tc.reason, tc.detail)
			}
			t.Log(err)
			if got := mustCall(t, m, probeEcho, "well"); got != "well" {
				t.Errorf("echo: %q", got)
			}
			if kept := m.Stats().Discards == before; kept != tc.keeps {
				t.Errorf("instance kept: %v", kept)
			}
		})
	}
}

func TestGoGuestSelftestAndDescribe(t *testing.T) {
	m := mustLoad(t, probeSpec(t), fuelStop{})
	if got := mustCall(t, m, OpSelftest, ""); got != "" {
		t.Errorf("selftest %q", got)
	}
	if got := mustCall(t, m, OpDescribe, ""); !strings.HasPrefix(got, `{"built_with":"go1.`) || !strings.Contains(got, `"op 1024"`) {
		t.Errorf("describe %s", got)
	}
}

// TestWorldIsEmpty asks a guest what it can see. The variable is set in the host,
// and the files exist there.
func TestWorldIsEmpty(t *testing.T) {
	t.Setenv("CAISSON_TEST_SECRET", "x")
	for _, deterministic := range []bool{false, true} {
		spec := probeSpec(t)
		spec.Deterministic = deterministic
		m := mustLoad(t, spec, fuelStop{})
		want := "args 0 env 0 file true dir true stdin 0 EOF"
		if got := mustCall(t, m, probeWorld, ""); got != want {
			t.Errorf("deterministic %v: got %s", deterministic, got)
		}
	}
}

// TestNoDescriptors calls what could have the host make room for two thousand million
// descriptors, and the like.
func TestNoDescriptors(t *testing.T) {
	i := func(n int) []byte { return bytes.Repeat([]byte{tI32}, n) }
	for name, tc := range map[string]struct {
		params []byte
		args   []byte
	}{
		"fd_renumber":             {i(2), code(i32Const(1), i32Const(0x7ffffff0))},
		"fd_allocate":             {[]byte{tI32, tI64, tI64}, code(i32Const(1), i64Const(0), i64Const(1<<40))},
		"fd_readdir":              {[]byte{tI32, tI32, tI32, tI64, tI32}, code(i32Const(3), i32Const(0), i32Const(60000), i64Const(0), i32Const(0))},
		"path_filestat_get":       {i(5), code(i32Const(3), i32Const(0), i32Const(0), i32Const(60000), i32Const(0))},
		"sock_accept":             {i(3), code(i32Const(3), i32Const(0), i32Const(0))},
		"path_create_directory":   {i(3), code(i32Const(3), i32Const(0), i32Const(60000))},
		"fd_filestat_set_size":    {[]byte{tI32, tI64}, code(i32Const(1), i64Const(1<<40))},
		"fd_pwrite":               {[]byte{tI32, tI32, tI32, tI64, tI32}, code(i32Const(1), i32Const(0), i32Const(8000), i64Const(0), i32Const(0))},
		"proc_raise":              {i(1), code(i32Const(9))},
		"fd_fdstat_set_rights":    {[]byte{tI32, tI64, tI64}, code(i32Const(1), i64Const(-1), i64Const(-1))},
		"fd_datasync":             {i(1), code(i32Const(1))},
		"path_filestat_set_times": {[]byte{tI32, tI32, tI32, tI32, tI64, tI64, tI32}, code(i32Const(3), i32Const(0), i32Const(0), i32Const(9), i64Const(0), i64Const(0), i32Const(0))},
	} {
		g := newGuest(nil)
		f := g.importFunc(wasiModule, name, tc.params, []byte{tI32})
		g.body = code(tc.args, call(f), i32Const(8), 0x47, opIf, blockVoid, opUnreachable, opEnd)
		m := mustLoad(t, Spec{Name: name, Module: g.build(), WASI: true, Limits: Limits{Instances: 1}}, fuelStop{})
		if _, err := m.Call(t.Context(), opEcho, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestDeterministicWorld(t *testing.T) {
	spec := probeSpec(t)
	spec.Deterministic = true
	m := mustLoad(t, spec, fuelStop{})
	const want = "2000-01-01T00:00:00Z 946684800000 0000000000000000 0000000000000000"
	for range 3 {
		if got := mustCall(t, m, probeClocks, ""); got != want {
			t.Errorf("got %s", got)
		}
	}
	// Sleeping passes without time passing.
	began := time.Now()
	mustCall(t, m, probeSleep, "1h")
	if d := time.Since(began); d > time.Minute {
		t.Errorf("an hour took %v", d)
	}
	if got := mustCall(t, m, probeClocks, ""); got != want {
		t.Errorf("got %s", got)
	}
}

func TestLiveWorld(t *testing.T) {
	m := mustLoad(t, probeSpec(t), fuelStop{})
	a, b := strings.Fields(mustCall(t, m, probeClocks, "")), strings.Fields(mustCall(t, m, probeClocks, ""))
	at, err := time.Parse(time.RFC3339, a[0])
	if err != nil || time.Since(at).Abs() > time.Hour {
		t.Errorf("clock %s: %v", a[0], err)
	}
	if a[2] == b[2] || a[3] == b[3] || a[2] == a[3] {
		t.Errorf("randomness repeats: %q %q", a, b)
	}
}

// TestSleepIsBounded: a guest that sleeps for an hour is stopped at its time limit
// like one that spins.
func TestSleepIsBounded(t *testing.T) {
	spec := probeSpec(t)
	spec.Limits = Limits{Instances: 1, Timeout: 500 * time.Millisecond, Wait: time.Minute}
	m := mustLoad(t, spec, fuelStop{})
	_, err := m.Call(context.Background(), probeSleep, []byte("1h"), nil)
	if !errors.Is(err, ReasonTimeout) {
		t.Errorf("got %v", err)
	}
	if _, err := m.Call(context.Background(), probeSleep, []byte("1ms"), nil); err != nil {
		t.Errorf("a short sleep: %v", err)
	}
}

func TestLog(t *testing.T) {
	var b bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &b, Level: hclog.Info, DisableTime: true, JSONFormat: false})
	spec := probeSpec(t)
	spec.Log = log
	spec.Limits.Instances = 1
	m := mustLoad(t, spec, fuelStop{})
	mustCall(t, m, probeLog, "first\nsecond \x1b[31mred\xff")
	if got, want := b.String(), "[WARN]  first second  [31mred\uFFFD\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	mustCall(t, m, probeLog, strings.Repeat("é", maxLogBytes))
	if got := strings.TrimPrefix(b.String(), "[WARN]  "); len(got) > maxLogBytes+10 || !strings.HasSuffix(got, "é …\n") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-8:])
	}
	b.Reset()
	for range 2 * logBurst {
		mustCall(t, m, probeLog, "flood")
	}
	lines := strings.Count(b.String(), "flood")
	if s := m.Stats(); lines+int(s.LogDropped) != 2*logBurst || s.LogDropped == 0 {
		t.Errorf("%d lines, %d dropped", lines, s.LogDropped)
	}
}

func TestLogSaysWhatWasDropped(t *testing.T) {
	var b bytes.Buffer
	g := newGuestLog(hclog.New(&hclog.LoggerOptions{Output: &b, Level: hclog.Info, DisableTime: true}))
	g.limit.SetBurst(1)
	for range 4 {
		g.write(uint32(hclog.Info), []byte("x"), false)
	}
	g.write(uint32(hclog.Debug), []byte("below the level, not counted"), false)
	g.limit.SetLimit(1e9)
	for g.limit.Tokens() < 1 {
		// A billion tokens a second.
	}
	g.write(99, []byte("y"), true)
	want := "[INFO]  x\n[WARN]  module logs too much, messages were dropped: dropped=3\n[INFO]  y …\n"
	if b.String() != want || g.dropped.Load() != 3 {
		t.Errorf("got %q", b.String())
	}
}

func TestHead(t *testing.T) {
	var h head
	all := ""
	for _, s := range []string{"", "abc", strings.Repeat("x", stderrBytes-5), "yzw", strings.Repeat("v", 3*stderrBytes)} {
		all += s
		if n, err := h.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if string(h.buf) != all[:min(len(all), stderrBytes)] {
			t.Errorf("after %d bytes: %q", len(all), h.buf)
		}
	}
}
