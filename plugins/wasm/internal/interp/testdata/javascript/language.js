"use strict";
// inventory & reports
class Item {
  #qty;
  static count = 0;
  constructor(name, price, qty) {
    this.name = name;
    this.price = price;
    this.#qty = qty;
    Item.count++;
  }
  get total() {
    return this.price * this.#qty;
  }
  get qty() {
    return this.#qty;
  }
  set qty(v) {
    if (v < 0) throw new RangeError("Quantity cannot be negative");
    this.#qty = v;
  }
  toJSON() {
    return { name: this.name, price: this.price, qty: this.#qty };
  }
  static compare(a, b) {
    return a.total - b.total;
  }
}
class Perishable extends Item {
  constructor(n, p, q, days) {
    super(n, p, q);
    this.days = days;
  }
  get total() {
    return super.total * (this.days < 3 ? 0.5 : 1);
  }
}
const items = [
  new Item("Widget", 9.99, 10),
  new Item("Gadget", 24.5, 3),
  new Perishable("Milk", 1.29, 40, 2),
  new Perishable("Cheese", 7.75, 5, 30),
];
console.log(items);
console.log(JSON.stringify(items, null, 2));
items
  .sort(Item.compare)
  .forEach((i, n) =>
    console.log(`${(n + 1).toString().padStart(2, "0")}. ${i.name.padEnd(10, ".")} $${i.total.toFixed(2).padStart(8)}`),
  );
try {
  items[0].qty = -5;
} catch (e) {
  console.log(`${e.name}: ${e.message}`);
}
console.log(
  Item.count,
  items.reduce((s, i) => s + i.total, 0).toFixed(2),
  Object.entries(
    items.reduce((acc, i) => {
      (acc[i.constructor.name] ??= []).push(i.name);
      return acc;
    }, {}),
  ),
);
const csv = 'name,age,city\n"Smith, J",42,"New York"\nAnn,29,Paris\n';
const parse = (t) =>
  t
    .trim()
    .split("\n")
    .map((l) => [...l.matchAll(/("([^"]*)"|[^,]*)(,|$)/g)].slice(0, 3).map((m) => m[2] ?? m[1]));
const [h, ...rows] = parse(csv);
console.log(rows.map((r) => Object.fromEntries(r.map((v, i) => [h[i], v]))));
const text = `The quick brown fox jumps over the lazy dog. The dog sleeps.`;
const freq = new Map();
for (const w of text.toLowerCase().match(/\b\w+\b/g)) freq.set(w, (freq.get(w) ?? 0) + 1);
console.log(
  [...freq].sort(([a, x], [b, y]) => y - x || a.localeCompare(b)).slice(0, 5),
  new Map([...freq].filter(([, n]) => n > 1)),
);
function* fib() {
  let [a, b] = [0, 1];
  for (;;) {
    yield a;
    [a, b] = [b, a + b];
  }
}
const first = [];
for (const f of fib()) {
  if (f > 100) break;
  first.push(f);
}
console.log(
  first,
  [..."hello"].reverse().join(""),
  Array.from({ length: 5 }, (_, i) => i ** 2),
);
const sieve = (n) => {
  const s = new Uint8Array(n + 1).fill(1);
  for (let i = 2; i * i <= n; i++) if (s[i]) for (let j = i * i; j <= n; j += i) s[j] = 0;
  return [...s.keys()].filter((i) => i > 1 && s[i]);
};
console.log(sieve(60));
const matrix = [
  [1, 2],
  [3, 4],
];
const mul = (a, b) => a.map((r) => b[0].map((_, j) => r.reduce((s, v, k) => s + v * b[k][j], 0)));
console.log(
  mul(matrix, matrix),
  matrix.flat(),
  matrix.map(([a, b]) => ({ a, b })),
);
const tag = (s, ...v) => s.raw.map((x, i) => x + (v[i] !== undefined ? `[${v[i]}]` : "")).join("");
console.log(tag`a${1}\n${"x"}b`, String.raw`\n${2}`);
const p = new Proxy(
  {},
  {
    get: (t, k) => (k in t ? t[k] : `no ${String(k)}`),
    has: () => true,
    set(t, k, v) {
      t[k] = v * 2;
      return true;
    },
  },
);
p.x = 4;
console.log(p.x, p.y, "z" in p);
console.log(Reflect.ownKeys({ b: 1, a: 2, [Symbol("s")]: 3, 1: 0 }));
const o = { a: { b: [{ c: 1 }] } };
console.log(o?.a?.b?.[0]?.c, o.x?.y.z, o.m?.(), o.a.b[5] ?? "dflt", delete o.a, o);
const { q = 5, ...rest } = { w: 1, e: 2 };
console.log(q, rest, [..."ab"], { ...rest, e: 3 });
label: for (let i = 0; i < 3; i++)
  for (let j = 0; j < 3; j++) {
    if (j === 1) continue label;
    if (i === 2) break label;
    console.log(i, j);
  }
const memo =
  (f, c = new Map()) =>
  (n) =>
    c.get(n) ?? (c.set(n, f(n)), c.get(n));
const fact = memo((n) => (n <= 1n ? 1n : n * fact(n - 1n)));
console.log(fact(30n), 2n ** 64n, BigInt.asUintN(8, 257n), typeof 1n, 7n / 2n, -7n % 3n);
console.log(
  [3, 20, 100].sort(),
  [3, 20, 100].sort((a, b) => a - b),
  ["b", undefined, "a"].sort(),
  [1, [2, [3, [4]]]].flat(2),
  [1, 2, 3].includes(NaN),
  [NaN].includes(NaN),
  [NaN].indexOf(NaN),
  Math.max(),
  Math.min(...[3, 1]),
  Math.hypot(3, 4),
  Math.sign(-3),
  Math.trunc(-4.7),
  Math.cbrt(27),
  Math.log2(8),
  Math.fround(5.5),
  Math.clz32(1),
  (0.1).toFixed(20),
  1 / 3,
  1e21 + 1,
  5e-324,
  1.7976931348623157e308,
  0xff,
  0b11,
  0o17,
  1_000,
  123.456e5,
  -1e-7,
  (100).toExponential(),
  (1234.5678).toPrecision(6),
  (255).toString(2),
  parseFloat("3.14abc"),
  Number("0x1f"),
  Number(null),
  Number(undefined),
  Number([]),
  Number("12 3"),
  +true,
  [] + {},
  [] + [],
  1 + "2",
  "3" * "4",
  null ?? "x",
  0 || "y",
  "" && "z",
  typeof null,
  typeof undefined,
  typeof (() => {}),
  void 0,
);
console.log(
  /(?<year>\d{4})-(?<m>\d\d)/.exec("on 2024-05-06").groups,
  "a1b22".replace(/\d+/g, (m) => `<${m}>`),
  "x-y-z".split("-", 2),
  "aXbX".split(/X/),
  "abc".replace(/(?<first>a)/, "$<first>$<first>"),
  /(?<=\$)\d+/.exec("cost $42")[0],
  "tEST".replace(/^./, (c) => c.toUpperCase()),
  [..."a1b2".matchAll(/[a-z](\d)/g)].map((m) => [m[0], m[1], m.index]),
  /^[\w.+-]+@[\w-]+\.[\w.]+$/.test("a.b+c@d-e.co"),
  "line1\nline2".match(/^line\d$/gm),
  /a.c/s.test("a\nc"),
  "ÀÉ".normalize("NFD").replace(/[\u0300-\u036f]/g, ""),
  /\u{1F600}/u.test("😀"),
  "aBC".search(/[A-Z]/),
  RegExp("a+", "gi").flags,
  /x/y.sticky,
);
console.log(
  new Date(2024, 1, 29).toISOString(),
  new Date("2024-02-29T10:00:00+02:00").toJSON(),
  new Date(2024, 0, 31 + 1).getDate(),
  new Date(0).getDay(),
  Math.round((new Date("2024-12-25") - new Date("2024-12-01")) / 864e5),
  new Date(2020, 0).getFullYear(),
  new Date("2024-03-15").toLocaleDateString("en-US", {
    weekday: "long",
    month: "long",
    day: "numeric",
    year: "numeric",
  }),
  new Date(8.64e15 + 1).getTime(),
);
const ws = new WeakMap();
const k = {};
ws.set(k, 1);
console.log(
  ws.get(k),
  ws.has({}),
  new WeakRef(k).deref() === k,
  Symbol.for("a") === Symbol.for("a"),
  Symbol("d").description,
  Symbol.iterator.toString(),
);
class Temp {
  static #x = 1;
  static get x() {
    return Temp.#x++;
  }
  static {
    this.init = "static block";
  }
  [Symbol.toPrimitive](hint) {
    return hint === "number" ? 42 : `hint:${hint}`;
  }
  *[Symbol.iterator]() {
    yield* [1, 2];
  }
}
const tt = new Temp();
console.log(Temp.x, Temp.x, Temp.init, +tt, `${tt}`, tt + "", [...tt]);
console.log(
  Object.groupBy ? 1 : 1,
  structuredClone(new Map([[1, { a: new Date(0) }]])),
  Object.is(-0, 0),
  Number.EPSILON > 0,
  Number.MAX_SAFE_INTEGER,
  isNaN("x"),
  Number.isInteger(5.0),
  [..."abc"].entries().next(),
  Object.freeze([1]),
  Array.isArray([]),
  [1, 2, 3].with?.(1, 9),
  [5, 1].toSorted?.(),
  "abc".at(-1),
  [1, 2, 3].findLast((x) => x < 3),
  Object.hasOwn({ a: 1 }, "a"),
  "ab".replaceAll("b", "c"),
  [1, 2, 3, 4].copyWithin(0, 2),
  new Array(3).fill().map((_, i) => i),
  Array.of(7),
  [[1, 2], [3]].flatMap((x) => x),
  encodeURIComponent("a b&c/é"),
  decodeURIComponent("%C3%A9"),
  escape("é"),
  encodeURI("a b/é?x=1"),
);
