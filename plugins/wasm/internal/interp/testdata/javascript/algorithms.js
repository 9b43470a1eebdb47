// data structures & algorithms
class Node {
  constructor(v) {
    this.v = v;
    this.l = this.r = null;
  }
}
class BST {
  root = null;
  size = 0;
  add(v) {
    const n = new Node(v);
    if (!this.root) this.root = n;
    else {
      let c = this.root;
      for (;;) {
        const side = v < c.v ? "l" : "r";
        if (!c[side]) {
          c[side] = n;
          break;
        }
        c = c[side];
      }
    }
    this.size++;
    return this;
  }
  *[Symbol.iterator](n = this.root) {
    if (n) {
      yield* this[Symbol.iterator](n.l);
      yield n.v;
      yield* this[Symbol.iterator](n.r);
    }
  }
  depth(n = this.root) {
    return n ? 1 + Math.max(this.depth(n.l), this.depth(n.r)) : 0;
  }
}
const t = [50, 30, 70, 20, 40, 60, 80].reduce((b, v) => b.add(v), new BST());
console.log([...t], t.depth(), t.size);
console.log(t);
class LinkedList {
  constructor(...v) {
    this.head = null;
    v.reverse().forEach((x) => (this.head = { value: x, next: this.head }));
  }
}
console.log(new LinkedList(1, 2, 3, 4, 5));
console.dir(new LinkedList(1, 2, 3), { depth: null });
const graph = { A: { B: 1, C: 4 }, B: { C: 2, D: 5 }, C: { D: 1 }, D: {} };
function dijkstra(g, s) {
  const d = Object.fromEntries(Object.keys(g).map((k) => [k, Infinity]));
  d[s] = 0;
  const q = new Set(Object.keys(g));
  while (q.size) {
    const u = [...q].sort((a, b) => d[a] - d[b])[0];
    q.delete(u);
    for (const [v, w] of Object.entries(g[u])) d[v] = Math.min(d[v], d[u] + w);
  }
  return d;
}
console.log(dijkstra(graph, "A"));
const perms = (a) =>
  a.length <= 1 ? [a] : a.flatMap((x, i) => perms([...a.slice(0, i), ...a.slice(i + 1)]).map((p) => [x, ...p]));
console.log(perms([1, 2, 3]));
const qs = ([p, ...r]) => (p === undefined ? [] : [...qs(r.filter((x) => x < p)), p, ...qs(r.filter((x) => x >= p))]);
console.log(qs([3, 6, 1, 8, 2, 9, 2]));
const lev = (a, b) => {
  const m = Array.from({ length: a.length + 1 }, (_, i) => [i, ...Array(b.length).fill(0)]);
  for (let j = 1; j <= b.length; j++) m[0][j] = j;
  for (let i = 1; i <= a.length; i++)
    for (let j = 1; j <= b.length; j++)
      m[i][j] = Math.min(m[i - 1][j] + 1, m[i][j - 1] + 1, m[i - 1][j - 1] + (a[i - 1] !== b[j - 1]));
  return m[a.length][b.length];
};
console.log(lev("kitten", "sitting"));
const queens = (n) => {
  const out = [];
  const place = (r, cols) => {
    if (r === n) return out.push([...cols]);
    for (let c = 0; c < n; c++)
      if (cols.every((x, i) => x !== c && Math.abs(x - c) !== r - i)) place(r + 1, [...cols, c]);
  };
  place(0, []);
  return out;
};
console.log(queens(6).length, queens(4));
const gcd = (a, b) => (b ? gcd(b, a % b) : a);
console.log(
  gcd(48, 18),
  [1, 2, 3, 4].reduce((a, b) => (a * b) / gcd(a, b)),
);
const bin = (a, x, lo = 0, hi = a.length - 1) => {
  while (lo <= hi) {
    const m = (lo + hi) >> 1;
    if (a[m] === x) return m;
    a[m] < x ? (lo = m + 1) : (hi = m - 1);
  }
  return -1;
};
console.log(bin([1, 3, 5, 7, 9], 7));
console.log(
  ["XLII", "MCMXCIV"].map((r) =>
    [...r].reduce((s, c, i, a) => {
      const v = { I: 1, V: 5, X: 10, L: 50, C: 100, D: 500, M: 1000 };
      return s + (v[c] < (v[a[i + 1]] ?? 0) ? -v[c] : v[c]);
    }, 0),
  ),
);
const pipe =
  (...f) =>
  (x) =>
    f.reduce((v, g) => g(v), x);
const curry = (f) =>
  function c(...a) {
    return a.length >= f.length ? f(...a) : (...b) => c(...a, ...b);
  };
console.log(
  pipe(
    (x) => x + 1,
    (x) => x * 2,
  )(5),
  curry((a, b, c) => a + b + c)(1)(2)(3),
);
const debounce = (f, ms) => {
  let t;
  return (...a) => {
    clearTimeout(t);
    t = setTimeout(f, ms, ...a);
  };
};
const d = debounce((x) => console.log("debounced", x), 5);
d(1);
d(2);
d(3);
console.log(`${"=".repeat(20)}\n${"Name".padEnd(10)}|${"Score".padStart(8)}\n${"-".repeat(20)}`);
for (const [n, s] of [
  ["Ann", 95.456],
  ["Bob", 8],
])
  console.log(`${n.padEnd(10)}|${s.toFixed(1).padStart(8)}`);
process.stdout.write("progress: ");
for (let i = 0; i < 3; i++) process.stdout.write(".");
process.stdout.write("\n");
console.log("%s has %d items costing %f", "Cart", 3, 9.99, { extra: true });
console.log(
  [
    [1, 2, 3],
    [4, 5, 6],
  ]
    .map((r) => r.join("\t"))
    .join("\n"),
);
console.log(
  Object.entries({ a: 1, b: 2 })
    .map(([k, v]) => `${k}=${v}`)
    .join("&"),
);
console.log([1.0, 2.5, 3.14159], {
  n: 1e100,
  s: "1",
  u: undefined,
  f: function () {},
  sym: Symbol("x"),
  d: new Date(0),
  re: /a/g,
  nested: { deep: { deeper: { deepest: {} } } },
});
console.log(null, undefined, true, [null, undefined], [[], {}], "", " ");
console.log(-0, [-0], 0, NaN, Infinity);
console.log(
  [new Error("in array").message],
  new (class Foo extends Array {})(),
  new (class extends Map {})([[1, 2]]),
  Object.create({ x: 1 }),
  new (function Bar() {
    this.y = 1;
  })(),
);
console.log(
  process.memoryUsage().rss > 0,
  process.argv.length,
  __filename.endsWith(".js"),
  typeof require,
  module.exports === exports,
  this === module.exports,
);
