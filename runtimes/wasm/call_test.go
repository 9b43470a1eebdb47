package wasm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// guests are the same contract by three toolchains.
func guests(tb testing.TB) map[string]Spec {
	return map[string]Spec{
		"assembled":      {Name: "echo", Module: newGuest(nil).build()},
		"go":             probeSpec(tb),
		"assemblyscript": {Name: "as", Module: asGuest(tb), Imports: []string{"log"}},
	}
}

func TestEcho(t *testing.T) {
	for name, spec := range guests(t) {
		t.Run(name, func(t *testing.T) {
			spec.Limits.InputBytes = 256 << 10
			m := mustLoad(t, spec, fuelStop{})
			sizes := []int{0, 1, 300, 64 << 10, 256 << 10, 5}
			if name == "assembled" {
				sizes = []int{0, 1, 300, 60 << 10} // its buffer is in its only page
			}
			for _, n := range sizes {
				in := bytes.Repeat([]byte("x"), n)
				out, err := m.Call(context.Background(), opEcho, in, []byte("before "))
				if err != nil || string(out) != "before "+string(in) {
					t.Errorf("%d bytes: got %d bytes, %v", n, len(out), err)
				}
			}
			out, err := m.Call(context.Background(), opEcho, make([]byte, 256<<10+1), []byte("kept"))
			if !errors.Is(err, ReasonBadInput) || string(out) != "kept" {
				t.Errorf("got %q, %v", out, err)
			}
			if s := m.Stats(); s.Discards != 0 || s.Calls != uint64(len(sizes)+1) || s.Failures[ReasonBadInput] != 1 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// TestHostileReplies has one guest per lie. Each is asked to do it, and then to
// echo, which must work whatever it did before.
func TestHostileReplies(t *testing.T) {
	evil := func(parts ...any) func(*guestAsm) {
		return func(g *guestAsm) { g.body = whenOp(opEvil, code(parts...)) }
	}
	reply := func(ptr, n uint32, isError bool) func(*guestAsm) {
		return evil(packed(ptr, n, isError), opReturn)
	}
	object := func(text string) func(*guestAsm) {
		return func(g *guestAsm) {
			g.data = []byte(text)
			reply(dataAt, uint32(len(text)), true)(g)
		}
	}
	for name, tc := range map[string]struct {
		change func(*guestAsm)
		reason Reason
		detail string
		keeps  bool
	}{
		"reply beyond memory":       {reply(65530, 7, false), ReasonBadOutput, "reply of 7 bytes at 65530 is outside of the memory of 65536", false},
		"reply at the very end":     {reply(0xffffffff, 1, false), ReasonBadOutput, "reply of 1 bytes at 4294967295 is outside", false},
		"reply that wraps":          {reply(0xfffffff0, 0x20, false), ReasonBadOutput, "outside of the memory", false},
		"reply longer than allowed": {reply(0, 4097, false), ReasonBadOutput, "reply of 4097 bytes is longer than 4096", false},
		"longest length":            {reply(0, 0x7fffffff, false), ReasonBadOutput, "reply of 2147483647 bytes is longer", false},
		"error beyond memory":       {reply(65530, 100, true), ReasonBadOutput, "outside of the memory", false},
		"error too long":            {reply(0, abi.MaxErrorBytes+1, true), ReasonBadOutput, "is longer than 8192", false},
		"empty error":               {reply(0, 0, true), ReasonBadOutput, "error object", false},
		"error not JSON":            {object("oops"), ReasonBadOutput, "error object: json: want an object", false},
		"error without code":        {object(`{"message":"x"}`), ReasonBadOutput, "error object has no code", false},
		"error with more":           {object(`{"code":"a","message":"","x":1}`), ReasonBadOutput, "x: unknown member", false},
		"honest error":              {object(`{"code":"no_such_thing","message":"line\nbreak"}`), ReasonGuest, "no_such_thing: line break", true},
		"trap":                      {evil(opUnreachable), ReasonTrap, "unreachable", false},
		"division":                  {evil(i32Const(1), i32Const(0), 0x6d, opDrop), ReasonTrap, "integer divide by zero", false},
		"wild store":                {evil(i32Const(-1), i32Const(1), 0x36, 0, 0), ReasonTrap, "out of bounds memory access", false},
		"endless loop":              {evil(forever()), ReasonTimeout, "guest code ran longer than 300ms", false},
		"endless recursion": {func(g *guestAsm) {
			f := g.fn(nil, nil, nil)
			g.funcs[f].body = call(f)
			g.body = whenOp(opEvil, call(f))
		}, ReasonTrap, "stack overflow", false},
		"memory bomb": {func(g *guestAsm) {
			// Grow by a page until refused, then trap.
			g.body = whenOp(opEvil, code(opLoop, blockVoid, i32Const(1), opMemory, 0, i32Const(-1), opI32Eq, opIf, blockVoid, opUnreachable, opEnd, opBr, 0, opEnd))
		}, ReasonMemory, "after it was refused more than 1048576 bytes: unreachable", false},
		"greedy at once":   {evil(i32Const(60000), opMemory, 0, opDrop, opUnreachable), ReasonMemory, "refused more than 1048576", false},
		"refused and well": {evil(i32Const(60000), opMemory, 0, opDrop, packed(0, 0, false), opReturn), "", "", true},
		// table.grow until refused, then trap: the host's memory is at stake.
		"table bomb": {func(g *guestAsm) {
			g.tables = [][]byte{code(0x70, 0, 1)}
			g.body = whenOp(opEvil, code(opLoop, blockVoid, 0xd0, 0x70, i32Const(1000), 0xfc, 0x0f, 0, i32Const(-1), opI32Eq, opIf, blockVoid, opUnreachable, opEnd, opBr, 0, opEnd))
		}, ReasonTrap, "unreachable", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuest(nil)
			tc.change(g)
			limits := Limits{Instances: 1, MemoryBytes: 1 << 20, Timeout: time.Minute, Wait: time.Minute, OutputBytes: 4096}
			if tc.reason == ReasonTimeout {
				limits.Timeout = 300 * time.Millisecond // and still enough for an echo on a busy machine
			}
			m := mustLoad(t, Spec{Name: "evil", Module: g.build(), Limits: limits}, fuelStop{})
			for round := range 2 {
				out, err := m.Call(context.Background(), opEvil, []byte("in"), []byte("kept"))
				if string(out) != "kept" {
					t.Errorf("reply %q", out)
				}
				var call *CallError
				switch {
				case tc.reason == "" && err != nil:
					t.Errorf("round %d: %v", round, err)
				case tc.reason == "":
				case !errors.As(err, &call) || call.Reason != tc.reason || !errors.Is(err, tc.reason):
					t.Errorf("round %d: got %v, want %v", round, err, tc.reason)
				case !strings.Contains(err.Error(), tc.detail) || strings.Contains(err.Error(), "\n"):
					t.Errorf("round %d: got %v, want %s", round, err, tc.detail)
				case call.Op != opEvil || call.Module != "evil":
					t.Errorf("round %d: detail %+v", round, call)
				}
				if got := mustCall(t, m, opEcho, "hello"); got != "hello" {
					t.Errorf("round %d: echo %q", round, got)
				}
			}
			s := m.Stats()
			want := uint64(2)
			if tc.keeps {
				want = 0
			}
			if s.Discards != want || s.Refills != want || s.Calls != 4 {
				t.Errorf("stats %+v, want %d discards", s, want)
			}
			if tc.reason != "" && s.Failures[tc.reason] != 2 {
				t.Errorf("failures %v", s.Failures)
			}
			if s.MemoryHighBytes > 1<<20 {
				t.Errorf("memory grew to %d", s.MemoryHighBytes)
			}
		})
	}
}

func TestHostileAlloc(t *testing.T) {
	for name, tc := range map[string]struct {
		alloc  []byte
		reason Reason
		detail string
	}{
		"refuses":          {i32Const(0), ReasonMemory, "alloc refuses 5 bytes"},
		"beyond memory":    {i32Const(65533), ReasonBadOutput, "alloc puts 5 bytes at 65533, outside of the memory of 65536"},
		"negative":         {i32Const(-1), ReasonBadOutput, "alloc puts 5 bytes at 4294967295"},
		"traps":            {code(opUnreachable), ReasonTrap, "unreachable"},
		"never comes back": {code(forever(), i32Const(inputAt)), ReasonTimeout, "guest code ran longer"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuest(nil)
			g.alloc = tc.alloc
			m := mustLoad(t, Spec{Name: "evil", Module: g.build(), Limits: Limits{Instances: 1, Timeout: 300 * time.Millisecond, Wait: time.Minute}}, fuelStop{})
			_, err := m.Call(context.Background(), opEcho, []byte("hello"), nil)
			if !errors.Is(err, tc.reason) || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("got %v, want %v", err, tc.detail)
			}
			if got := mustCall(t, m, opEcho, ""); got != "" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestGuestErrorIsTyped(t *testing.T) {
	m := mustLoad(t, Spec{Name: "as", Module: asGuest(t), Imports: []string{"log"}}, fuelStop{})
	_, err := m.Call(context.Background(), OpPlan, nil, nil)
	var ge *GuestError
	if !errors.As(err, &ge) || ge.Code != "unsupported_op" || ge.Message != "this module does not serve that" {
		t.Errorf("got %v", err)
	}
	if want := `wasm module "as": plan: guest: unsupported_op: this module does not serve that`; err.Error() != want {
		t.Errorf("got %s", err)
	}
}

// TestBadPointersInHostFunctions calls them with memory that is not there.
func TestBadPointersInHostFunctions(t *testing.T) {
	for name, tc := range map[string]struct {
		field  string
		params []byte
		args   []byte
		want   string
	}{
		"log":       {"log", i32x3, code(i32Const(3), i32Const(65530), i32Const(10)), "log: 10 bytes at 65530 are outside of the memory"},
		"long log":  {"log", i32x3, code(i32Const(3), i32Const(65530), i32Const(-1)), "log: 4294967295 bytes at 65530"},
		"rand":      {"rand", []byte{tI32, tI32}, code(i32Const(-1), i32Const(1)), "rand: 1 bytes at 4294967295"},
		"much rand": {"rand", []byte{tI32, tI32}, code(i32Const(0), i32Const(65537)), "rand: 65537 bytes at 0 are outside of the memory or more than 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuest(nil)
			f := g.importFunc("host_v1", tc.field, tc.params, nil)
			g.body = whenOp(opEvil, code(tc.args, call(f)))
			m := mustLoad(t, Spec{Name: "evil", Module: g.build(), Imports: hostFunctions}, fuelStop{})
			_, err := m.Call(context.Background(), opEvil, nil, nil)
			if !errors.Is(err, ReasonTrap) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
