package interp

import (
	"context"
	"strings"
	"testing"
	"time"
)

// ts runs source as a TypeScript program.
func (s *sandbox) ts(source string, args ...string) out {
	s.t.Helper()
	need(s.t, "ts")
	return s.run(context.Background(), s.program("ts", "main.ts", source, args...))
}

func TestTypeScript(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.ts(`
interface Point { x: number; y?: number }
type Pair<T> = [T, T];
enum Color { Red = 1, Green, Blue = Red << 3 }
const enum Flag { On = 'on' }
namespace Geometry { export const origin: Point = { x: 0 }; }
abstract class Shape<T extends Point = Point> {
  constructor(protected readonly at: T, private name = 'shape') {}
  abstract area(): number;
  describe(this: Shape<T>): string { return this.name + ' at ' + this.at.x; }
}
class Square extends Shape { #side = 2; override area() { return this.#side ** 2; } }
function assertIsString(v: unknown): asserts v is string { if (typeof v !== 'string') throw new TypeError('no string'); }
const pair = ['a', 'b'] as const satisfies Pair<string>;
const s = new Square(Geometry.origin);
let maybe: string | undefined = pair[0]!;
assertIsString(maybe);
console.log(s.area(), s.describe(), Color.Blue, Color[2], Flag.On, pair, <string>maybe);
console.log(process.argv.slice(2), __filename);
`, "a b", "$(id)"), 0, "4 shape at 0 8 Green on [ 'a', 'b' ] a\n[ 'a b', '$(id)' ] /run/caisson/main.ts\n", "")

	s.file("lib.ts", "export interface I { n: number }\nexport const twice = (i: I): number => 2 * i.n;\nexport default class<T> { value?: T }")
	s.file("common.cts", "export = { kind: 'cts' as string };")
	s.file("view.tsx", "const React = { createElement: (...a: unknown[]) => a };\nexport const view = <b id=\"x\">{1 as number}</b>;")
	s.expect(s.ts(`
import { twice, type I } from './lib';
import Lib from './lib.js';
import type { Nothing } from './absent';
import fs from 'node:fs';
import { view } from './view';
const { kind } = (await import('./common.cts')).default;
const i: I = { n: 21 };
console.log(twice(i), new Lib<string>(), fs.existsSync('lib.ts'), view, kind);
export type { Nothing };
`), 0, "42 default { value: undefined } true [ 'b', { id: 'x' }, 1 ] cts\n", "")
	s.expect(s.node("console.log(require('./lib').twice({ n: 2 }), require('./common.cts'))"), 0, "4 { kind: 'cts' }\n", "")

	// What decides is the command, then the name.
	p := s.program("ts", "main.js", "const x: number = 1; console.log(x)")
	s.expect(s.run(context.Background(), p), 0, "1\n", "")
	p = s.program("node", "main.ts", "const x: number = 2; console.log(x)")
	s.expect(s.run(context.Background(), p), 0, "2\n", "")
	p = s.program("ts", "main.ts", "")
	p.Argv = []string{"ts", "-e", "const x: number = 3; console.log(x)"}
	s.expect(s.run(context.Background(), p), 0, "3\n", "")
}

func TestTypeScriptErrors(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.ts("const ok: number = 1;\nlet x: number = ;\n"), 1, "", `/run/caisson/main.ts:2:17 - error: Unexpected ";"

let x: number = ;
                ^
`)
	s.expect(s.ts(`interface Unused {
  removed: string;
}

/* a comment */
function fail(reason: string): never {
  // another

  throw new RangeError(reason);
}

type AlsoRemoved = string;
fail('from ts' as string);
`), 1, "", `/run/caisson/main.ts:9
  throw new RangeError(reason);
                       ^

RangeError: from ts
    at fail (/run/caisson/main.ts:9:24)
    at /run/caisson/main.ts:13:1
`)
	s.file("broken.ts", "export const x: = 1")
	o := s.ts("import { x } from './broken'; x;")
	if o.Code != 1 || !strings.HasPrefix(o.stderr, `/mnt/data/broken.ts:1:17 - error: Unexpected "="`) {
		t.Errorf("broken import: %+v", o)
	}
	s.expect(s.ts("try { require('./broken') } catch (e: any) { console.log(e.name, e.code) }"), 0, "SyntaxError ERR_INVALID_TYPESCRIPT_SYNTAX\n", "")
	o = s.ts("let x = '" + strings.Repeat("x", 5<<20) + "'")
	if o.Code != 1 || o.stderr != "/run/caisson/main.ts: the file is too large for the TypeScript compiler\n" {
		t.Errorf("large file: code %d, %.300s", o.Code, o.stderr)
	}
}

// A source that the compiler would work on for minutes ends with its run.
func TestTypeScriptIsKilled(t *testing.T) {
	need(t, "ts")
	s := newSandbox(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	o := s.run(ctx, s.program("ts", "main.ts", strings.Repeat("function f(){", 3000)+strings.Repeat("}", 3000)))
	if o.Reason != ReasonTimeout || o.Code != 137 {
		t.Errorf("reason %s, code %d, stderr %s", o.Reason, o.Code, o.stderr)
	}
	t.Logf("returned %v after the deadline", time.Since(deadline(ctx)))
}
