const util = require("util");
const show = (...a) => console.log(...a);
show(1, -0, "a", "it's", null, undefined, true, 10n, Symbol("x"), NaN);
show([1, "two", null, undefined, [3, [4, [5, [6]]]]]);
show({ a: 1, "b-c": 2, $d: 3, [Symbol("s")]: 4, nested: { deep: { deeper: { deepest: 1 } } } });
show(
  {},
  [],
  new Map(),
  new Set(),
  Object.create(null),
  new (class Foo {})(),
  new (class Bar {
    constructor() {
      this.x = 1;
    }
  })(),
);
show(
  new Map([
    ["a", 1],
    [{ k: 1 }, [1, 2]],
  ]),
  new Set([1, "b", { c: 1 }]),
);
show([, "a", , , "b", ,], [undefined, null], new Array(3));
show(
  function foo() {},
  () => {},
  async () => {},
  function* gen() {},
  class A {},
  class B extends Array {},
  async function* ag() {},
);
const f = function named() {};
f.prop = 1;
show(f);
show(new Date(0), new Date(NaN), /ab+c/gi, new Error("plain").message);
show([new Date(0)], { r: /x/ });
show(new Uint8Array([1, 2, 3]), new Float64Array(2), new ArrayBuffer(4), new DataView(new ArrayBuffer(2)));
show(Promise.resolve(42), new Promise(() => {}), new WeakMap(), new WeakSet());
const p = Promise.reject(new RangeError("no"));
p.catch(() => {});
show(util.inspect(Promise.reject(3)).slice(0, 30));
process.on("unhandledRejection", () => {});
const circ = { name: "c" };
circ.self = circ;
circ.list = [circ, { circ }];
show(circ);
show(Array.from({ length: 120 }, (_, i) => i));
show(Array.from({ length: 30 }, (_, i) => "item" + i));
show(Array.from({ length: 7 }, (_, i) => ({ i })));
show([1.5, 22.25, -3, 4444, 5, 6, 7, 8, 9]);
show({ long: "x".repeat(100), other: "y".repeat(50) });
show({ a: "aaaaaaaaaaaaaaaaaaaaaaa", b: "bbbbbbbbbbbbbbbbbbbbbbbbb", c: "ccccccccccccccccccccc", d: 1 });
show(["aaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbb", "ccccccccccccccccccccc", "ddd"]);
show({
  get a() {
    return 1;
  },
  set b(v) {},
  get c() {
    return 1;
  },
  set c(v) {},
});
show(Object.assign(Object.create({ inherited: 1 }), { own: 2 }));
show(new Number(3), new String("abc"), new Boolean(false), Object(Symbol("q")), Object(10n));
show("multi\nline", ["multi\nline"], ["it's", 'say "hi"', `both ' and "`, "tab\t", "\u0001", "\\", "é😀", "\x7f"]);
show(
  [
    ["a", 1],
    ["b", 2],
  ],
  [[]],
  [{}],
  [[[]]],
  [[[[]]]],
  { a: { b: { c: {} } } },
  { a: { b: { c: { d: 1 } } } },
);
show(
  util.inspect({ a: { b: { c: { d: 1 } } } }, { depth: 0 }),
  util.inspect({ a: { b: { c: { d: 1 } } } }, { depth: null }),
);
show(util.inspect("str"), util.inspect(["a".repeat(200)]).length, util.inspect({ a: 1, b: 2 }, { compact: false }));
show(util.inspect({ b: 1, a: 2, c: [3, 1] }, { sorted: true }), util.inspect(new Map([[1, 2]]), { showHidden: true }));
show(
  util.inspect([1, 2, 3], { showHidden: true }),
  util.inspect(
    { a: 1n, b: Symbol("z"), c: null, d: undefined, e: "x", f: 1.5, g: true, h: /r/, i: new Date(0), j: () => {} },
    { colors: true },
  ),
);
show(
  util.inspect(new Array(200).fill(0), { maxArrayLength: 3 }),
  util.inspect("x".repeat(50), { maxStringLength: 10 }),
);
class Custom {
  [util.inspect.custom](depth, opts) {
    return `Custom<${depth}>`;
  }
}
show(new Custom(), [new Custom()], { c: { d: new Custom() } });
class Tagged {
  get [Symbol.toStringTag]() {
    return "Tag";
  }
}
show(new Tagged(), { [Symbol.toStringTag]: "T", a: 1 });
class Sub extends Map {
  constructor() {
    super([[1, 2]]);
    this.extra = true;
  }
}
show(new Sub(), new (class X extends Array {})(3), new (class Y extends Set {})([1]));
(function () {
  show(arguments);
})(1, 2);
show(Object.create(Custom.prototype) instanceof Custom, Math, JSON, globalThis === global, Reflect);
show(Buffer.from("hello"), [Buffer.from("a")]);
show(new URL("https://user:pw@example.org:8080/p/a?q=1#h"));
show(new URLSearchParams("a=1&b=2"), { s: new URLSearchParams() });
show(process.versions.node.length > 0, typeof process.version);
show([function a() {}, class Q {}], { method() {}, arrow: () => {} });
show([undefined, , 3], { undefined: undefined, null: null });
show([1, 2, 3].entries(), "abc"[Symbol.iterator]().toString(), (function* () {})());
show({ a: [1, 2, { b: [3, { c: 4 }] }] });
show([[1, 2, [3, 4, [5, [6]]]], { a: { b: { c: {} } } }]);
show("%s is %d years and %i, %f, %j %o %O %%", "Bob", 42.5, 42.9, "1.5", { a: 1 }, [1], { b: 2 }, "extra", { c: 3 });
show("%s %s %s", null, undefined, { a: { b: 1 } }, Symbol("k"));
show("%d", "0x10", "%i", 5);
show("100%", 5);
show("%x", 1);
show("a%", "b");
show("%s", () => 1, class Z {});
show("%s", new Date(0), [1, [2, [3]]], 12n, -0);
show("%c styled", "color:red");
show(
  "%s",
  {
    toString() {
      return "custom!";
    },
  },
  "%d",
  new (class {
    toString() {
      return "cls";
    }
  })(),
);
show("%d %d", 10n, Symbol("a"));
show("%s");
show("%", 1);
show("%%", 1);
show("%%");
const nested = {
  users: [
    { name: "Ann", age: 30, tags: ["a", "b"], address: { street: "Main", geo: { lat: 1, lng: 2 } } },
    { name: "Bob", age: 25, tags: [], address: null },
  ],
  total: 2,
};
show(nested);
show(JSON.stringify(nested));
show(util.inspect(nested, false, null, false));
const e = new Error("boom");
e.code = "E_CODE";
e.stack = "Error: boom\n    at fake (file.js:1:2)";
show(e);
show({ e });
const e2 = new TypeError("inner");
e2.stack = "TypeError: inner\n    at x (y.js:1:1)";
const e3 = new Error("outer", { cause: e2 });
e3.stack = "Error: outer\n    at z (y.js:2:2)";
show(e3);
show([e2]);
class MyErr extends Error {
  constructor(m) {
    super(m);
    this.name = "MyErr";
    this.extra = 1;
  }
}
const me = new MyErr("mine");
me.stack = me.stack.split("\n")[0];
show(me.stack, String(me));
show(me);
class NoName extends Error {}
const nn = new NoName("nn");
nn.stack = nn.stack.split("\n")[0] + "\n    at q (r.js:1:1)";
show(nn);
const ag = new AggregateError([new Error("a")], "agg");
ag.stack = "AggregateError: agg\n    at s (t.js:1:1)";
ag.errors[0].stack = "Error: a\n    at u (v.js:1:1)";
show(ag);
const ne = new Error("");
ne.stack = "Error\n    at u (v.js:1:1)";
show(ne);
const ns = new Error("nostack");
ns.stack = undefined;
show(ns);
const on = { err: Object.assign(new Error("x"), { stack: "Error: x" }) };
show(on);
show(Object.assign(() => {}, { a: 1, b: { c: 2 } }));
show(Object.setPrototypeOf({ a: 1 }, null), Object.setPrototypeOf([1], null));
show(new Map([[{ a: 1 }, new Map([[1, new Map([[2, new Map()]])]])]]));
show([[["x".repeat(80)]]]);
show({ a: "x".repeat(60), b: "y" });
show({ a: "x".repeat(61), b: "yyyy" });
show(["x".repeat(30), "y".repeat(38)]);
show(["x".repeat(30), "y".repeat(39)]);
show({ s: "line1\nline2\nline3 is quite a bit longer than sixteen", t: 1 });
show({ s: ("word ".repeat(10) + "\n").repeat(3) });
show(
  [-1, -2, -3, -4, -5, -6, -7],
  [1n, 2n, 3n, 4n, 5n, 6n, 7n],
  ["a", "b", "c", "d", "e", "f", "g"],
  [true, false, true, false, true, false, true],
  [null, null, null, null, null, null, null],
);
show(new Array(101).fill("ab"));
show([
  ["a", "b"],
  ["c", "d"],
  ["e", "f"],
  ["g", "h"],
  ["i", "j"],
  ["k", "l"],
  ["m", "n"],
]);
show(Array.from({ length: 10 }, (_, i) => "x".repeat(i * 3)));
show(Object.fromEntries(Array.from({ length: 30 }, (_, i) => ["key" + i, i])));
show(new Set(Array.from({ length: 20 }, (_, i) => i)));
