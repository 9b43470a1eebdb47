const assert = require("assert");
const t = (f) => {
  try {
    f();
    console.log("pass");
  } catch (e) {
    console.log(
      e.name,
      e.code,
      e.generatedMessage,
      JSON.stringify(e.actual),
      JSON.stringify(e.expected),
      e.operator,
      "|",
      e.message.split("\n")[0],
    );
  }
};
t(() => assert(true));
t(() => assert(false, "msg"));
t(() => assert.ok(0, "zero"));
t(() => assert.equal(1, "1"));
t(() => assert.equal(1, 2));
t(() => assert.strictEqual(1, "1"));
t(() => assert.strictEqual("a", "b", "custom"));
t(() => assert.deepEqual({ a: 1 }, { a: "1" }));
t(() => assert.deepStrictEqual({ a: 1 }, { a: "1" }));
t(() => assert.deepStrictEqual([1, [2, { b: 3 }]], [1, [2, { b: 3 }]]));
t(() => assert.deepStrictEqual(new Map([[1, { a: 1 }]]), new Map([[1, { a: 1 }]])));
t(() => assert.deepStrictEqual(new Set([{ a: 1 }]), new Set([{ a: 2 }])));
t(() => assert.notStrictEqual(1, 1));
t(() => assert.notDeepStrictEqual({ a: 1 }, { a: 1 }));
t(() => assert.notEqual(1, 2));
t(() => assert.deepStrictEqual(NaN, NaN));
t(() => assert.deepStrictEqual(0, -0));
t(() => assert.deepStrictEqual([1, , 3], [1, undefined, 3]));
t(() => assert.deepStrictEqual(new Date(0), new Date(0)));
t(() => assert.deepStrictEqual(/a/g, /a/i));
t(() => assert.deepStrictEqual(Object.create(null), {}));
t(() => assert.deepStrictEqual({ a: undefined }, {}));
t(() =>
  assert.throws(() => {
    throw new TypeError("bad");
  }),
);
t(() =>
  assert.throws(() => {
    throw new TypeError("bad");
  }, TypeError),
);
t(() =>
  assert.throws(() => {
    throw new TypeError("bad");
  }, /bad/),
);
t(() =>
  assert.throws(() => {
    throw new TypeError("bad");
  }, /good/),
);
t(() =>
  assert.throws(
    () => {
      throw new TypeError("bad");
    },
    { name: "TypeError", message: "bad" },
  ),
);
t(() =>
  assert.throws(
    () => {
      throw new TypeError("bad");
    },
    { message: "good" },
  ),
);
t(() =>
  assert.throws(() => {
    throw new TypeError("bad");
  }, RangeError),
);
t(() =>
  assert.throws(
    () => {
      throw new Error("x");
    },
    (e) => e.message === "x",
  ),
);
t(() => assert.doesNotThrow(() => {}));
t(() =>
  assert.doesNotThrow(() => {
    throw new Error("oops");
  }),
);
t(() => assert.throws("x"));
t(() => assert.fail());
t(() => assert.fail("because"));
t(() => assert.match("abc", /b/));
t(() => assert.match("abc", /x/));
t(() => assert.doesNotMatch("abc", /b/));
t(() => assert.ifError(null));
t(() => assert.ifError(new Error("e")));
t(() => assert.strict.equal(1, "1"));
t(() => require("assert/strict").deepEqual([1], ["1"]));
t(() => require("assert").strict(false, "x"));
t(() => assert.strictEqual(NaN, NaN));
t(() => {
  throw new assert.AssertionError({ message: "own", actual: 1, expected: 2, operator: "op" });
});
t(() => assert.equal(null, undefined));
t(() => assert(false, new RangeError("own error")));
(async () => {
  await assert.rejects(Promise.reject(new Error("r")), /r/);
  await assert.rejects(async () => {
    throw new TypeError("q");
  }, TypeError);
  await assert.rejects(Promise.resolve(1)).catch((e) => console.log(e.code, e.message));
  await assert.doesNotReject(Promise.resolve(1));
  await assert.doesNotReject(Promise.reject(new Error("z"))).catch((e) => console.log(e.message));
})();
const { isDeepStrictEqual: eq } = require("util");
console.log(
  eq({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }),
  eq([1], [2]),
  eq(new Set([1, 2]), new Set([2, 1])),
  eq(new Map([[{}, 1]]), new Map([[{}, 1]])),
  eq(new Uint8Array([1]), new Uint8Array([1])),
  eq(Buffer.from("a"), Buffer.from("a")),
  eq(1, 1n),
  eq("a", new String("a")),
  eq([1, 2], { 0: 1, 1: 2, length: 2 }),
  eq(new Error("a"), new Error("a")),
  eq(new Error("a"), new Error("b")),
);
try {
  assert.strictEqual(1, 2);
} catch (e) {
  console.log(e.message);
}
try {
  assert.equal(1, 2);
} catch (e) {
  console.log(e.message);
}
try {
  assert.notStrictEqual(1, 1);
} catch (e) {
  console.log(e.message);
}
try {
  assert.notDeepStrictEqual({ a: 1 }, { a: 1 });
} catch (e) {
  console.log(e.message);
}
