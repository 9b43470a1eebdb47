package interp

import (
	"context"
	"strings"
	"testing"
	"time"
)

// node runs source as a CommonJS or, by what it contains, ECMAScript program.
func (s *sandbox) node(source string, args ...string) out {
	s.t.Helper()
	need(s.t, "node")
	return s.run(context.Background(), s.program("node", "main.js", source, args...))
}

func TestJavaScriptHello(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.node("console.log('hi', {a: [1, 'é✓😀']}); console.error('err')"), 0, "hi { a: [ 1, 'é✓😀' ] }\n", "err\n")
}

func TestJavaScriptErrors(t *testing.T) {
	s := newSandbox(t)
	for _, tc := range []struct{ name, source, stderr string }{
		{"uncaught", "function f() {\n  throw new Error('boom');\n}\nf();", `/run/caisson/main.js:2
  throw new Error('boom');
            ^

Error: boom
    at f (/run/caisson/main.js:2:13)
    at /run/caisson/main.js:4:1
`},
		{"syntax", "const ok = 1;\nlet x = = 2;", `/run/caisson/main.js:2
let x = = 2;
        ^

SyntaxError: unexpected token in expression: '='
    at /run/caisson/main.js:2:9
`},
		{"syntax of a module", "import fs from 'fs';\nlet x = = 2;", `/run/caisson/main.js:2
let x = = 2;
        ^

SyntaxError: unexpected token in expression: '='
    at /run/caisson/main.js:2:9
`},
		{"system", "require('fs').readFileSync('nope.txt')", `/run/caisson/main.js:1
require('fs').readFileSync('nope.txt')
             ^

Error: ENOENT: no such file or directory, open 'nope.txt'
    at /run/caisson/main.js:1:14 {
  errno: -2,
  code: 'ENOENT',
  syscall: 'open',
  path: 'nope.txt'
}
`},
		{"no error", "throw {a: 1}", "Uncaught { a: 1 }\n"},
		{"timer", "setTimeout(() => {\n  null.x;\n}, 1); setTimeout(() => console.log('never'), 50)", `/run/caisson/main.js:2
  null.x;
  ^

TypeError: cannot read property 'x' of null
    at /run/caisson/main.js:2:3
`},
		{"rejection", "async function f() {\n  await null;\n  throw new TypeError('later');\n}\nf();", `/run/caisson/main.js:3
  throw new TypeError('later');
            ^

TypeError: later
    at f (/run/caisson/main.js:3:13)
`},
		{"rejection without error", "Promise.reject(42)", `[UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). The promise rejected with the reason "42".] {
  code: 'ERR_UNHANDLED_REJECTION'
}
`},
		{"module", "import fs from 'fs';\n\nawait null;\nthrow new RangeError('top')", `/run/caisson/main.js:4
throw new RangeError('top')
          ^

RangeError: top
    at /run/caisson/main.js:4:11
`},
		{"cause and class", "class MyError extends Error { constructor(m, o) { super(m, o); this.name = 'MyError' } }\nthrow new MyError('m', {cause: 'c'})", `/run/caisson/main.js:2
throw new MyError('m', {cause: 'c'})
          ^

MyError: m
    at new MyError (/run/caisson/main.js:1:60)
    at /run/caisson/main.js:2:11 {
  [cause]: 'c'
}
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.expect(s.node(tc.source), 1, "", tc.stderr)
		})
	}
	p := s.program("node", "main.js", "")
	p.Argv[1] = EntryDir + "/absent.js"
	o := s.run(context.Background(), p)
	if o.Code != 1 || !strings.Contains(o.stderr, "Cannot find module '/run/caisson/absent.js'") {
		t.Errorf("absent file: %+v", o)
	}
}

func TestJavaScriptExitCodes(t *testing.T) {
	s := newSandbox(t)
	for _, tc := range []struct {
		source         string
		code           int
		stdout, stderr string
	}{
		{"process.exit(3)", 3, "", ""},
		{"process.exit()", 0, "", ""},
		{"process.exitCode = 4", 4, "", ""},
		{"process.exitCode = 4; process.exit()", 4, "", ""},
		{"process.exit(259)", 3, "", ""},
		{"setTimeout(() => process.exit(5), 1); setInterval(() => {}, 1000)", 5, "", ""},
		{"process.on('exit', c => console.log('bye', c)); process.exitCode = 6", 6, "bye 6\n", ""},
		{"process.on('exit', c => { process.exitCode = 7 }); process.exit(2)", 7, "", ""},
		{"process.on('exit', () => { setTimeout(() => console.log('never'), 1) })", 0, "", ""},
		{"process.on('uncaughtException', (e, o) => console.log(e.message, o)); setTimeout(() => console.log('on'), 1); throw new Error('x')", 0, "x uncaughtException\non\n", ""},
		{"process.on('unhandledRejection', (r, p) => console.log(r, p instanceof Promise)); Promise.reject(8)", 0, "8 true\n", ""},
		{"const p = Promise.reject(9); setTimeout(() => p.catch(() => {}), 1); process.on('unhandledRejection', () => process.exit(10))", 10, "", ""},
		{"Promise.reject(11).catch(() => console.log('handled'))", 0, "handled\n", ""},
		{"process.stdout.write('no newline')", 0, "no newline", ""},
		{"await new Promise(() => {})", 13, "", "Warning: Detected unsettled top-level await at /run/caisson/main.js\n"},
		{"try { process.exit('x') } catch (e) { console.log(e.code) }", 0, "ERR_INVALID_ARG_TYPE\n", ""},
		{"process.abort()", 134, "", ""},
	} {
		s.expect(s.node(tc.source), tc.code, tc.stdout, tc.stderr)
	}
}

func TestJavaScriptWorld(t *testing.T) {
	s := newSandbox(t)
	p := s.program("node", "main.js", `
console.log(__filename, __dirname, process.cwd());
console.log(process.argv);
console.log(Object.entries(process.env).sort());
console.log(require.main === module, module.id, process.argv0, process.execPath);
console.log(require('os').homedir(), require('os').tmpdir(), require('fs').readdirSync('/tmp'));
console.log(require('fs').readdirSync('/'), require('fs').readdirSync('/mnt'), require('fs').statSync('/mnt').isDirectory());
console.log([1, 2, 3].includes(2), Object.keys(globalThis), typeof require('node:fs').readFileSync);
`, "a b", `"q'`, "new\nline", "$(id)", "-x", "", "é✓😀")
	p.Env = map[string]string{"A": "b c", "ÜNI": "✓", "EMPTY": "", "__proto__": "p"}
	s.expect(s.run(context.Background(), p), 0, `/run/caisson/main.js /run/caisson /mnt/data
[
  '/usr/local/bin/node',
  '/run/caisson/main.js',
  'a b',
  `+"`\"q'`"+`,
  'new\nline',
  '$(id)',
  '-x',
  '',
  'é✓😀'
]
[
  [ 'A', 'b c' ],
  [ 'EMPTY', '' ],
  [ 'HOME', '/mnt/data' ],
  [ 'LANG', 'C.UTF-8' ],
  [ 'PATH', '/usr/local/bin:/usr/bin:/bin' ],
  [ 'PWD', '/mnt/data' ],
  [ 'TMPDIR', '/tmp' ],
  [ '__proto__', 'p' ],
  [ 'ÜNI', '✓' ]
]
true . node /usr/local/bin/node
/mnt/data /tmp []
[ 'mnt', 'run', 'tmp' ] [ 'data' ] true
true [] function
`, "")
	need(t, "node")
	for _, tc := range []struct {
		argv           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"node", "-e", "console.log(process.argv.slice(1), __filename, require('path').sep)", "x", "-y"}, 0, "[ 'x', '-y' ] [eval] /\n", ""},
		{[]string{"nodejs", "--eval", "throw new Error('e')"}, 1, "", "[eval]:1\nthrow new Error('e')\n          ^\n\nError: e\n    at [eval]:1:11\n"},
		{[]string{"qjs", "-e", "const fs = await import('fs'); console.log(typeof fs.readFileSync, process.argv[1])", "z"}, 0, "function z\n", ""},
		{[]string{"node", "-e"}, 9, "", "node: -e requires an argument\n"},
		{[]string{"node", "--inspect"}, 9, "", "node: bad option: --inspect\n"},
		{[]string{"node"}, 9, "", "node: no entry file\n"},
	} {
		p := s.program("node", "main.js", "")
		p.Argv = tc.argv
		s.expect(s.run(context.Background(), p), tc.code, tc.stdout, tc.stderr)
	}
}

func TestJavaScriptStdin(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.node("console.log([require('fs').readFileSync(0, 'utf8')]); process.stdin.on('data', console.log).on('end', () => console.log('end'))"), 0, "[ '' ]\nend\n", "")
	for source, want := range map[string]string{
		"console.log(require('fs').readFileSync(0))":                                                                                                                                             "<Buffer c3 a9 e2 9c 93 20 66 69 72 73 74 0a 73 65 63 6f 6e 64>\n",
		"console.log([require('fs').readFileSync('/dev/stdin', 'utf8')])":                                                                                                                        "[ 'é✓ first\\nsecond' ]\n",
		"process.stdin.setEncoding('utf8'); let s = ''; process.stdin.on('data', c => s += c).on('end', () => console.log([s]))":                                                                 "[ 'é✓ first\\nsecond' ]\n",
		"let s = ''; for await (const c of process.stdin) s += c; console.log([s])":                                                                                                              "[ 'é✓ first\\nsecond' ]\n",
		"const rl = require('readline').createInterface({input: process.stdin}); rl.on('line', l => console.log('line', l)).on('close', () => console.log('close'))":                             "line é✓ first\nline second\nclose\n",
		"const rl = require('readline').createInterface({input: process.stdin, output: process.stdout}); rl.question('? ', a => { console.log('got', a); rl.close() })":                          "? got é✓ first\n",
		"import * as readline from 'node:readline/promises'; const rl = readline.createInterface({input: process.stdin}); console.log(await rl.question(''), await rl.question('')); rl.close()": "é✓ first second\n",
		"import readline from 'readline'; for await (const line of readline.createInterface({input: process.stdin})) console.log(line.length)":                                                   "8\n6\n",
		"const b = Buffer.alloc(5); const fs = require('fs'); console.log(fs.readSync(0, b), b.toString('hex'), fs.readSync(0, b, 0, 2))":                                                        "5 c3a9e29c93 2\n",
	} {
		p := s.program("node", "main.js", source)
		p.Stdin = strings.NewReader("é✓ first\nsecond")
		s.expect(s.run(context.Background(), p), 0, want, "")
	}
}

func TestJavaScriptModules(t *testing.T) {
	s := newSandbox(t)
	s.file("helper.js", "exports.greet = () => 'from the helper'; exports.where = __filename;")
	s.file("esm.mjs", "export const value = 7; export default function f() { return 'default' }; export const meta = [import.meta.url, import.meta.filename, import.meta.dirname];")
	s.file("detected.js", "import { value } from './esm.mjs'; export const twice = 2 * value;")
	s.file("data.json", `{"k": [1, {"n": null}]}`)
	s.file("pkg/package.json", `{"main": "lib/start.js"}`)
	s.file("pkg/lib/start.js", "module.exports = class Pkg { static n = require('../inner').n };")
	s.file("pkg/inner/index.js", "exports.n = 5")
	s.file("a.js", "exports.first = 1; const b = require('./b'); exports.seen = b.seen;")
	s.file("b.js", "const a = require('./a'); exports.seen = Object.keys(a);")
	s.file("node_modules/dep/package.json", `{"name": "dep", "exports": {".": {"import": "./m.mjs", "require": "./c.js"}, "./sub/*": "./s/*.js"}}`)
	s.file("node_modules/dep/m.mjs", "export default 'as module'")
	s.file("node_modules/dep/c.js", "module.exports = 'as commonjs'")
	s.file("node_modules/dep/s/x.js", "module.exports = 'sub x'")
	s.file("node_modules/@scope/plain/index.js", "exports.scoped = true")
	s.file("broken.js", "throw new Error('while loading')")
	s.file("bad.json", "{")
	s.file("tla.mjs", "await null; export const x = 1;")
	s.file("throws.mjs", "throw new Error('esm threw')")
	s.file("typed.ts", "export const typed: number = 3; enum E { A = 4 }; export { E }")
	s.file("typemod/package.json", `{"type": "module"}`)
	s.file("typemod/x.js", "export const t = typeof require")
	s.expect(s.node(`
const h = require('./helper'); console.log(h.greet(), h.where, require('./helper.js') === h, require('/mnt/data/helper') === h);
console.log(require('./data.json'), require('./data').k.length, require('./pkg').n, require('./pkg/'));
console.log(require('./a').seen, require('dep'), require('dep/sub/x'), require('@scope/plain').scoped);
console.log(require('./esm.mjs').value, require('./detected').twice, require('./typed').E.A);
for (const name of ['./nope', 'nope', './broken', './bad.json', './tla.mjs', './throws.mjs', 'dep/hidden', 'http', 'node:nope', '']) {
  try { require(name); console.log('loaded', name); } catch (e) { console.log(name, e.code, e.message.split('\n')[0]); }
}
import('./esm.mjs').then(async (m) => {
  console.log(m, m.default());
  console.log((await import('./helper.js')).default === h, (await import('./helper.js')).greet(), (await import('./typemod/x.js')).t);
  await import('./nope.mjs').catch((e) => console.log(e.code, e.message));
  await import('https://example.org/x.js').catch((e) => console.log(e.code));
  console.log((await import('data:text/javascript,export default 1 + 1')).default, (await import('./data.json', {with: {type: 'json'}})).default.k[0]);
});
console.log(module.children.length > 3, require.resolve('./helper'), Object.keys(require.cache).length > 5, require('module').builtinModules.includes('fs'));
`), 0, `from the helper /mnt/data/helper.js true true
{ k: [ 1, { n: null } ] } 2 5 [class Pkg] { n: 5 }
[ 'first' ] as commonjs sub x true
7 14 4
./nope MODULE_NOT_FOUND Cannot find module './nope'
nope MODULE_NOT_FOUND Cannot find module 'nope'
./broken undefined while loading
./bad.json undefined /mnt/data/bad.json: Expected property name or '}' in JSON at position 1 (line 1 column 2)
./tla.mjs ERR_REQUIRE_ASYNC_MODULE require() cannot be used on an ESM graph with top-level await. Use import() instead: /mnt/data/tla.mjs
./throws.mjs undefined esm threw
dep/hidden ERR_PACKAGE_PATH_NOT_EXPORTED Package subpath './hidden' is not defined by "exports" in /mnt/data/node_modules/dep/package.json
http ERR_SANDBOX_UNSUPPORTED node:http: this sandbox has no network
node:nope ERR_UNKNOWN_BUILTIN_MODULE No such built-in module: node:nope
 ERR_INVALID_ARG_VALUE The argument 'id' must be a non-empty string. Received ''
true /mnt/data/helper.js true true
[Module: null prototype] {
  default: [Function: f],
  meta: [ 'file:///mnt/data/esm.mjs', '/mnt/data/esm.mjs', '/mnt/data' ],
  value: 7
} default
true from the helper undefined
ERR_MODULE_NOT_FOUND Cannot find module '/run/caisson/nope.mjs' imported from /run/caisson/main.js
ERR_UNSUPPORTED_ESM_URL_SCHEME
2 1
`, "")
	s.expect(s.node(`
import fs, { readFileSync } from 'node:fs';
import { join } from 'path';
import def, { value as seven } from './esm.mjs';
import helper, { greet } from './helper.js';
import data from './data.json' with { type: 'json' };
import * as ns from './detected.js';
import dep from 'dep';
import process, { argv } from 'process';
import { setTimeout as sleep } from 'timers/promises';
import EventEmitter, { once } from 'events';
console.log(fs.readFileSync === readFileSync, join('a', 'b'), def(), seven, greet(), helper.where, data.k[0], ns.twice, dep, argv === process.argv);
console.log(import.meta.url, import.meta.filename, import.meta.resolve('./esm.mjs'), typeof once, this);
console.log(await sleep(1, 'slept'), typeof module, (() => { try { return __filename } catch (e) { return e.name } })());
export const x = 1;
`), 0, `true a/b default 7 from the helper /mnt/data/helper.js 1 14 as module true
file:///run/caisson/main.js /run/caisson/main.js file:///mnt/data/esm.mjs function undefined
slept undefined ReferenceError
`, "")
	o := s.node("import { nope } from './esm.mjs'")
	if o.Code != 1 || !strings.Contains(o.stderr, "SyntaxError") || !strings.Contains(o.stderr, "nope") {
		t.Errorf("missing export: %+v", o)
	}
	// node refuses this, for no reason that would matter here.
	s.expect(s.node("const fs = require('fs'); console.log(await Promise.resolve(typeof fs.statSync))"), 0, "function\n", "")
}

func TestJavaScriptHasNoNetworkAndNoProcesses(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.node(`
for (const name of ['http', 'https', 'net', 'dns', 'tls', 'dgram', 'http2', 'child_process', 'cluster', 'worker_threads', 'vm', 'zlib'])
  try { require(name); console.log('GOT', name) } catch (e) { console.log(e.code, e.message) }
fetch('http://example.org/x').catch(e => console.log(e.message, '|', e.cause.message));
import('node:http').catch(e => console.log(e.message));
`), 0, `ERR_SANDBOX_UNSUPPORTED node:http: this sandbox has no network
ERR_SANDBOX_UNSUPPORTED node:https: this sandbox has no network
ERR_SANDBOX_UNSUPPORTED node:net: this sandbox has no network
ERR_SANDBOX_UNSUPPORTED node:dns: this sandbox has no network
ERR_SANDBOX_UNSUPPORTED node:tls: this sandbox has no network
ERR_SANDBOX_UNSUPPORTED node:dgram: this sandbox has no network
ERR_SANDBOX_UNSUPPORTED node:http2: this sandbox has no network
ERR_SANDBOX_UNSUPPORTED node:child_process: this sandbox cannot start processes
ERR_SANDBOX_UNSUPPORTED node:cluster: this sandbox cannot start processes
ERR_SANDBOX_UNSUPPORTED node:worker_threads: this sandbox has no threads
ERR_SANDBOX_UNSUPPORTED node:vm: this sandbox does not have it
ERR_SANDBOX_UNSUPPORTED node:zlib: this sandbox does not have it
fetch failed | fetch http://example.org/x: this sandbox has no network
node:http: this sandbox has no network
`, "")
}

func TestJavaScriptFreshRandomness(t *testing.T) {
	const source = `const c = require('crypto');
console.log(Math.random(), Math.random(), c.randomUUID(), c.randomBytes(8).toString('hex'), c.randomInt(2 ** 40), crypto.getRandomValues(new Uint32Array(2)).join())`
	s := newSandbox(t)
	a, b := strings.Fields(s.node(source).stdout), strings.Fields(s.node(source).stdout)
	if len(a) != 6 || len(b) != 6 || a[0] == a[1] {
		t.Fatalf("%v, %v", a, b)
	}
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("value %d repeats: %s", i, a[i])
		}
	}
	s.expect(s.node(`
let low = 1, high = 0, sum = 0;
for (let i = 0; i < 20000; i++) { const r = Math.random(); low = Math.min(low, r); high = Math.max(high, r); sum += r; }
console.log(low >= 0 && low < 0.01, high < 1 && high > 0.99, Math.abs(sum / 20000 - 0.5) < 0.02)`), 0, "true true true\n", "")
}

func TestJavaScriptClock(t *testing.T) {
	s := newSandbox(t)
	before := time.Now()
	o := s.node(`
const t = performance.now(), w = Date.now();
setTimeout(() => console.log(performance.now() - t >= 20, Date.now() - w >= 19, process.hrtime.bigint() > 20_000_000n), 20);
console.log(Date.now(), t < 5000, new Date().getTimezoneOffset(), Math.abs(performance.timeOrigin + performance.now() - Date.now()) < 50);
`)
	stamp, rest, _ := strings.Cut(o.stdout, " ")
	ms, err := time.ParseDuration(stamp + "ms")
	if err != nil || rest != "true 0 true\ntrue true true\n" {
		t.Fatalf("%+v, %v", o, err)
	}
	if at := time.UnixMilli(ms.Milliseconds()); at.Before(before.Truncate(time.Millisecond)) || at.After(time.Now()) {
		t.Errorf("the clock said %v between %v and now", at, before)
	}
}
