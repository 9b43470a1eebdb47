package wasm

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// bombs are modules that are meant to cost whoever loads them: each with what Load
// says, or nothing if it is loaded.
func bombs() map[string]struct {
	module []byte
	says   string
	reason error
} {
	type bomb = struct {
		module []byte
		says   string
		reason error
	}
	in := func(parts ...any) []byte { return newGuest(code(parts...)).build() }
	many := func(n int, body []byte) []byte {
		g := newGuest(nil)
		t := g.typ(nil, nil)
		for range n {
			g.funcs = append(g.funcs, asmFunc{t, body})
		}
		return g.build()
	}
	times := func(n int, b ...byte) []byte { return []byte(strings.Repeat(string(b), n)) }
	nested := func(op byte, n int) []byte { return in(times(n, op, blockVoid), times(n, opEnd)) }
	// section adds a section to a good module, or a lie about how much is in one.
	section := func(id byte, content ...byte) []byte {
		return code([]byte("\x00asm\x01\x00\x00\x00"), int(id), uleb(uint64(len(content))), content)
	}
	data := func(n int) []byte {
		g := newGuest(nil)
		g.segments = n
		return g.build()
	}
	targets := func(n int) []byte {
		return in(0x02, blockVoid, i32Const(0), 0x0e, uleb(uint64(n)), times(n+1, 0), opEnd)
	}
	return map[string]bomb{
		"100,000 functions":               {many(100_000, nil), "", nil},
		"20,000 functions that loop":      {many(20_000, forever()), "", nil},
		"a million locals in functions":   {withLocals(20, 50_000), "", nil},
		"a thousand million locals":       {withLocals(20_000, 50_000), "locals of all functions are more than 2000000", meter.ErrLimit},
		"a few locals behind ifs":         {joins(200, 200), "", nil},
		"many locals behind ifs":          {joins(1000, 1000), "more than 250000 local variables are live where ways of control meet", meter.ErrLimit},
		"many more locals behind an if":   {joins(1, 30_000), "more than 250000 local variables are live", meter.ErrLimit},
		"locals behind nested loops":      {loops(80, 1000), "more than 250000 local variables are live", meter.ErrLimit},
		"a few wide calls":                {wide(10), "", nil},
		"many wide calls":                 {wide(100), "have more than 100000 operands", meter.ErrLimit},
		"many blocks":                     {in(bytes.Repeat(code(0x02, blockVoid, i32Const(0), 0x0d, 0, opEnd), 20_000)), "control parts in more than 5000 ways", meter.ErrLimit},
		"50,000 locals":                   {withLocals(1, 50_000), "", nil},
		"50,001 locals":                   {withLocals(1, 50_001), "50001 locals are more than 50000", meter.ErrLimit},
		"four thousand million locals":    {withLocals(1, 1<<32-1), "4294967295 locals are more than 50000", meter.ErrLimit},
		"blocks nested 900 deep":          {nested(0x02, 900), "", nil},
		"blocks nested 100,000 deep":      {nested(0x02, 100_000), "blocks nested deeper than 1000", meter.ErrLimit},
		"loops nested 90 deep":            {nested(opLoop, 90), "", nil},
		"loops nested 100,000 deep":       {nested(opLoop, 100_000), "loops nested deeper than 100", meter.ErrLimit},
		"ifs nested 100,000 deep":         {in(times(100_000, opI32Const, 1, opIf, blockVoid), times(100_000, opEnd)), "blocks nested deeper than 1000", meter.ErrLimit},
		"branch table of 4,000":           {targets(4000), "", nil},
		"branch table of 400,000":         {targets(400_000), "400000 more branch targets are more than 4096", meter.ErrLimit},
		"branch table that lies":          {in(i32Const(0), 0x0e, uleb(4000), 0), "4000 more branch targets do not fit", meter.ErrMalformed},
		"table of four thousand million":  {section(sectionTable, code(1, 0x70, 0, uleb(1<<32-1))...), "table of 4294967295 elements is larger than 131072", nil},
		"a thousand tables":               {section(sectionTable, code(uleb(1000), times(1000, 0x70, 0, 0))...), "1000 tables are more than 8", nil},
		"100,000 data segments":           {data(100_000), "", nil},
		"a million data segments":         {data(1_000_000), "1000000 data segments are more than 100000", meter.ErrLimit},
		"data segments that lie":          {section(11, uleb(90_000)...), "90000 data segments do not fit", meter.ErrMalformed},
		"element segments that lie":       {section(9, uleb(900_000)...), "900000 element segments do not fit", meter.ErrMalformed},
		"types that lie":                  {section(1, uleb(1<<32-1)...), "4294967295 types are more than", meter.ErrLimit},
		"exports that lie":                {section(7, uleb(90_000)...), "90000 exports do not fit", meter.ErrMalformed},
		"functions that lie":              {section(3, uleb(900_000)...), "900000 functions do not fit", meter.ErrMalformed},
		"imports that lie":                {section(sectionImport, uleb(1<<32-1)...), "module is truncated", nil},
		"a body of 3 MB":                  {in(times(1_500_000, opI32Const, 0x1a)), "are more than 524288", meter.ErrLimit},
		"20,000 custom sections":          {code(newGuest(nil).build(), times(20_000, 0, 2, 1, 'x')), "more than 10000 custom sections", meter.ErrLimit},
		"a name section that lies":        {code(newGuest(nil).build(), 0, 12, name("name"), 1, 5, uleb(1<<32-1)), "", nil},
		"a memory of four thousand pages": {section(sectionMemory, code(1, 0, uleb(65_536))...), "module needs 4294967296 bytes of memory to start", nil},
	}
}

// withLocals has n functions with as many locals as are said, in one group.
func withLocals(n int, locals uint64) []byte {
	g := newGuest(nil)
	t := g.typ(nil, nil)
	for range n {
		g.funcs = append(g.funcs, asmFunc{t, nil})
	}
	g.locals = code(1, uleb(locals), tI64)
	return g.build()
}

// joins has many locals that are read behind as many ifs, which makes a value of
// each at each.
func joins(ifs, locals int) []byte {
	g := newGuest(nil)
	body := bytes.Repeat(code(i32Const(0), opIf, blockVoid, opEnd), ifs)
	for i := range locals {
		body = append(body, code(opLocalGet, uleb(uint64(i)), opDrop)...)
	}
	g.fn(nil, nil, body)
	g.locals = code(1, uleb(uint64(locals)), tI32)
	return g.build()
}

// loops does the same with loops in loops.
func loops(deep, locals int) []byte {
	g := newGuest(nil)
	body := bytes.Repeat(code(opLoop, blockVoid), deep)
	for i := range locals {
		body = append(body, code(opLocalGet, uleb(uint64(i)), opDrop)...)
	}
	g.fn(nil, nil, append(body, bytes.Repeat(code(i32Const(0), 0x0d, 0, opEnd), deep)...))
	g.locals = code(1, uleb(uint64(locals)), tI32)
	return g.build()
}

// wide calls functions that take and return a thousand values.
func wide(calls int) []byte {
	g := newGuest(nil)
	values := bytes.Repeat([]byte{tI32}, 1000)
	var body []byte
	for i := range values {
		body = append(body, code(opLocalGet, uleb(uint64(i)))...)
	}
	f := g.fn(values, values, body)
	g.fn(values, values, append(bytes.Clone(body), bytes.Repeat(call(f), calls)...))
	return g.build()
}

// TestBombs loads each or has it refused, and bounds the memory that it costs.
func TestBombs(t *testing.T) {
	for name, tc := range bombs() {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && tc.says == "" && len(tc.module) > 100_000 {
				t.Skip("takes seconds to compile, and minutes with the race detector")
			}
			spec := Spec{Name: "bomb", Module: tc.module, Limits: Limits{Instances: 1, Timeout: time.Minute, StartTimeout: time.Minute}}
			var before, after runtime.MemStats
			for _, way := range []struct {
				name string
				do   func() error
			}{
				{"Check", func() error { _, err := Check(t.Context(), spec); return err }},
				{"Load", func() error {
					m, err := Load(t.Context(), spec)
					if err != nil {
						return err
					}
					defer mustClose(t, m)
					_, err = m.Call(context.Background(), opEcho, nil, nil)
					return err
				}},
			} {
				runtime.ReadMemStats(&before)
				began := time.Now()
				err := way.do()
				took := time.Since(began)
				runtime.ReadMemStats(&after)
				allocated := after.TotalAlloc - before.TotalAlloc
				t.Logf("%s of %d bytes: %v, %d KiB allocated: %v", way.name, len(tc.module), took.Round(time.Millisecond), allocated>>10, err)
				switch {
				case tc.says == "" && err != nil:
					t.Errorf("%s: %v", way.name, err)
				case tc.says != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.says)):
					t.Errorf("%s: got %v, want %s", way.name, err, tc.says)
				case tc.reason != nil && !errors.Is(err, tc.reason):
					t.Errorf("%s: got %v, want %v", way.name, err, tc.reason)
				}
				if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 300) {
					t.Errorf("%s: the error is no line: %v", way.name, err)
				}
				// What is refused is refused before it is paid for.
				if most := uint64(len(tc.module))*10 + 4<<20; tc.says != "" && allocated > most {
					t.Errorf("%s: %d bytes allocated to refuse %d", way.name, allocated, len(tc.module))
				}
			}
		})
	}
}

// TestCompilationEnds has a small module that takes minutes to compile: Load comes
// back when its context ends, and leaves nobody working.
func TestCompilationEnds(t *testing.T) {
	g := newGuest(nil)
	body := bytes.Repeat(code(i32Const(0), opIf, blockVoid, opEnd), 200)
	for i := range 300 {
		body = append(body, code(opLocalGet, uleb(uint64(i)), opDrop)...)
	}
	for range 2000 {
		g.fn(nil, nil, body)
	}
	g.locals = code(1, uleb(300), tI32)
	spec := Spec{Name: "bomb", Module: g.build()}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errors.New("the operator left"))
	defer cancel()
	began := time.Now()
	m, err := Load(ctx, spec)
	if err == nil {
		mustClose(t, m)
	}
	t.Logf("%d bytes: %v after %v", len(spec.Module), err, time.Since(began).Round(time.Millisecond))
	if err == nil || err.Error() != `wasm module "bomb": the operator left` || errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}
