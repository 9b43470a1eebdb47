package interp

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestJavaScriptBigOutput(t *testing.T) {
	s := newSandbox(t)
	o := s.node("process.stdout.write(Buffer.alloc(10 << 20, 'x'))")
	if o.Code != 0 || o.stdout != strings.Repeat("x", 10<<20) {
		t.Errorf("one write: code %d, %d bytes, %s", o.Code, len(o.stdout), o.stderr)
	}
	o = s.node("const l = 'y'.repeat(99); for (let i = 0; i < 20000; i++) console.log(l)")
	if o.Code != 0 || o.stdout != strings.Repeat(strings.Repeat("y", 99)+"\n", 20000) {
		t.Errorf("many lines: code %d, %d bytes", o.Code, len(o.stdout))
	}
}

func TestJavaScriptOutputError(t *testing.T) {
	s := newSandbox(t)
	need(t, "node")
	p := s.program("node", "main.js", "console.log('x'); console.log('y'); console.error('still here')")
	gone := errors.New("the caller is gone")
	calls := 0
	p.Stdout = writerFunc(func([]byte) (int, error) { calls++; return 0, gone })
	var stderr bytes.Buffer
	p.Stderr = &stderr
	o := s.run(context.Background(), p)
	if o.Code != 0 || o.OutputErr != gone || calls != 1 || stderr.String() != "still here\n" {
		t.Errorf("%+v after %d calls, stderr %q", o.Result, calls, stderr.String())
	}
}

func TestJavaScriptMemory(t *testing.T) {
	s := newSandbox(t)
	need(t, "node")
	for name, source := range map[string]string{
		"buffers":      "const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1))",
		"one array":    "new Array(1e9).fill(0)",
		"file":         "const fs = require('fs'); fs.writeFileSync('big', Buffer.alloc(30 << 20)); const a = []; for (;;) a.push(fs.readFileSync('big'))",
		"conversions":  "const a = [], b = Buffer.alloc(4 << 20, 0xff); for (;;) a.push(b.toString('hex'), b.toString(), b.toString('latin1'))",
		"random bytes": "const a = []; for (;;) a.push(require('crypto').randomBytes(4 << 20))",
		"rejection":    "(async () => { const a = []; for (;;) { a.push(Buffer.alloc(1 << 20)); await null } })().catch(() => {})",
	} {
		t.Run(name, func(t *testing.T) {
			p := s.program("node", "main.js", source)
			p.MemoryBytes = 64 << 20
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			o := s.run(ctx, p)
			if o.Code != 1 || o.Reason != ReasonExit || !strings.Contains(o.stderr, "InternalError: out of memory\n    at ") {
				t.Errorf("code %d, %s, %v, stderr: %s", o.Code, o.Reason, o.Err, o.stderr)
			}
			if o.PeakMemoryBytes > 64<<20 {
				t.Errorf("peak is %d", o.PeakMemoryBytes)
			}
		})
	}
	p := s.program("node", "main.js", "")
	p.MemoryBytes = 1 << 20
	if _, err := shared.Run(context.Background(), p); !errors.Is(err, ErrBadProgram) {
		t.Errorf("a limit below the interpreter's own needs: %v", err)
	}
}

// Recursions end with the RangeError that programs expect, whatever they
// recurse through: never with a crash of the instance.
func TestJavaScriptRecursion(t *testing.T) {
	if testing.Short() {
		t.Skip("one program at a time, for a long time")
	}
	s := newSandbox(t)
	need(t, "node")
	for name, source := range map[string]string{
		"function":    "const f = () => f(); f()",
		"arguments":   "const f = (a, b, c) => f(a + 1, b, c) + 1; f(1, 2, 3)",
		"array map":   "const f = () => [1].map(f); f()",
		"getter":      "const o = { get x() { return o.x } }; o.x",
		"to string":   "const o = { toString() { return `${o}` } }; `${o}`",
		"proxy":       "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
		"class":       "class A { constructor() { new A() } } new A()",
		"super":       "class A {} class B extends A { constructor() { super(new B()) } } new B()",
		"apply":       "const f = () => Reflect.apply(f, null, []); f()",
		"sort":        "const f = () => { [1, 2].sort(f); return 0 }; f()",
		"replace":     "const f = () => 'a'.replace(/a/, f); f()",
		"generator":   "function* g() { yield* g() } g().next()",
		"async":       "async function f() { await f() } f()",
		"toJSON":      "const o = { toJSON() { return JSON.stringify(o) } }; JSON.stringify(o)",
		"parentheses": "eval('('.repeat(1e5) + '1' + ')'.repeat(1e5))",
		"brackets":    "eval('['.repeat(1e5))",
		"functions":   "eval('()=>{'.repeat(3e4) + '}'.repeat(3e4))",
		"eval":        "globalThis.f = () => eval('f()'); f()",
		"flat":        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity)",
		"join":        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; String(a)",
		"emit":        "const e = new (require('events'))(); e.on('x', () => e.emit('x')); e.emit('x')",
		"inspect":     "let o = {}; for (let i = 0; i < 5000; i++) o = { o }; require('util').inspect(o, { depth: Infinity })",
		"clone":       "let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; structuredClone(o)",
		"modules": `const fs = require('fs');
			for (let i = 0; i < 1500; i++) fs.writeFileSync('/tmp/m' + i + '.mjs',
				"import { createRequire } from 'module'; createRequire(import.meta.url)('./m" + (i + 1) + ".mjs')");
			require('/tmp/m0.mjs')`,
		"cause": "const f = () => { try { f() } catch (e) { throw new RangeError(e.message, { cause: e }) } }; f()",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			o := s.run(ctx, s.program("node", "main.js", source))
			if o.Code != 1 || o.Err != nil || !strings.Contains(o.stderr, "RangeError: Maximum call stack size exceeded") {
				t.Errorf("code %d, %v, stderr: %.300s", o.Code, o.Err, o.stderr)
			}
		})
	}
	s.expect(s.node("const f = (n) => n === 0 ? 0 : 1 + f(n - 1); console.log(f(10000))"), 0, "10000\n", "")
	s.expect(s.node("const f = () => f(); try { f() } catch (e) { console.log(e instanceof RangeError) }"), 0, "true\n", "")
}
