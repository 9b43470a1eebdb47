const util = require("util"),
  os = require("os"),
  crypto = require("crypto");
console.log(
  util.format("%s=%d", "a", 1, "rest"),
  util.types.isDate(new Date()),
  util.types.isRegExp(/x/),
  util.types.isPromise(Promise.resolve()),
  util.types.isMap(new Map()),
  util.types.isProxy({}),
  util.types.isAsyncFunction(async () => {}),
  util.types.isTypedArray(new Uint8Array()),
  util.types.isGeneratorFunction(function* () {}),
  util.types.isNativeError(new TypeError()),
  util.types.isBoxedPrimitive(Object(1)),
  util.types.isUint8Array(Buffer.alloc(1)),
  util.types.isArrayBuffer(new ArrayBuffer(1)),
);
const p = util.promisify((a, cb) => cb(null, a + 1));
p(1).then(console.log);
util
  .promisify((cb) => cb(new Error("pe")))()
  .catch((e) => console.log(e.message));
console.log(
  util.isArray([]),
  util.inspect.custom,
  util.stripVTControlCharacters("\x1b[31mx\x1b[0m"),
  util.toUSVString("\ud800a"),
  util.isDeepStrictEqual([1], [1]),
  util.types.isDate({}),
  util.inspect("a"),
  typeof util.TextEncoder,
);
console.log(
  os.EOL === "\n",
  os.platform(),
  typeof os.cpus().length,
  os.tmpdir(),
  typeof os.totalmem(),
  os.endianness(),
  typeof os.hostname(),
  os.type(),
);
for (const a of ["md5", "sha1", "sha256", "sha512", "SHA384", "sha224"])
  console.log(a, crypto.createHash(a).update("abc").update(Buffer.from("d")).digest("hex"));
console.log(
  crypto.createHash("sha256").update("é").digest("base64"),
  crypto.createHmac("sha256", "key").update("data").digest("hex"),
  crypto.createHmac("md5", Buffer.from("k")).update("d").digest().length,
  crypto.randomBytes(8).length,
  crypto.randomUUID().length,
  /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()),
  crypto.randomInt(5) < 5,
  crypto.randomInt(3, 4),
  crypto.getHashes().includes("sha256"),
  crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("a")),
  crypto.pbkdf2Sync("p", "s", 1000, 20, "sha1").toString("hex"),
  crypto.webcrypto.getRandomValues(new Uint8Array(4)).length,
);
for (const f of [
  () => crypto.createHash("nope"),
  () => crypto.createHmac("nope", "k"),
  () => crypto.randomInt(0),
  () => crypto.randomBytes(-1),
  () => {
    const h = crypto.createHash("md5");
    h.digest();
    h.digest();
  },
  () => crypto.createHash("md5").update(5),
])
  try {
    f();
  } catch (e) {
    console.log(e.code, e.message);
  }
setTimeout(() => util.callbackify(async (x) => x * 2)(4, (e, r) => console.log(e, r)), 50);
crypto.subtle
  .digest("SHA-256", new TextEncoder().encode("abc"))
  .then((d) => console.log(Buffer.from(d).toString("hex")));
const h = crypto.createHash("sha1").update("a");
const c = h.copy();
console.log(h.digest("hex"), c.update("b").digest("hex"));
console.log(
  util.parseArgs({
    args: ["-f", "--bar", "b", "pos", "--no-x"],
    options: { foo: { type: "boolean", short: "f" }, bar: { type: "string" }, "no-x": { type: "boolean" } },
    allowPositionals: true,
  }),
);
try {
  util.parseArgs({ args: ["--zz"], options: {} });
} catch (e) {
  console.log(e.code, e.message.split(".")[0]);
}
console.log(
  process.argv.length,
  typeof process.pid,
  process.platform,
  process.cwd() === require("path").resolve("."),
  typeof process.hrtime.bigint(),
  process.hrtime().length,
  process.uptime() >= 0,
  typeof process.memoryUsage().heapUsed,
  process.exitCode,
  process.env.NOPE,
  "PATH" in process.env,
  process.argv0,
  process.release.name,
  typeof process.nextTick,
  process.stdout.isTTY,
  process.stdin.isTTY,
);
process.env.NEW = 5;
console.log(process.env.NEW, typeof process.env.NEW);
delete process.env.NEW;
console.log(process.env.NEW, Object.keys(process.env).includes("NEW"));
console.log(
  performance.now() > 0,
  typeof performance.timeOrigin,
  performance.mark("a").name,
  performance.measure("m", "a").duration >= 0,
);
console.log(
  [3, 1, 2].toSorted(),
  "abc".at(-1),
  [1, [2, [3]]].flat(Infinity),
  Object.fromEntries([["a", 1]]),
  structuredClone([1]),
  [1, 2, 3].findLast((x) => x < 3),
  "x".padStart(3, "-"),
  "a-b-c".replaceAll("-", "+"),
  Array.from("héé"),
  [..."a😀"].length,
  0.1 + 0.2,
  (12.345).toFixed(1),
  2 ** 53,
  5n ** 20n,
  parseInt("12px"),
  Number(""),
  [10, 9, 1].sort(),
  JSON.stringify({ d: new Date(0), u: undefined, n: null, f() {}, nan: NaN }, null, 2),
);
console.log(
  new Date(2024, 0, 31, 12).toISOString(),
  new Date("2024-02-29T12:00:00Z").getDay(),
  Date.UTC(2020, 1, 1),
  new Date("2024-03-10").toDateString(),
  new Date(0).toJSON(),
  Date.parse("Thu, 01 Jan 1970 00:00:00 GMT"),
  new Date(2024, 1, 29).getMonth(),
  isNaN(new Date("garbage")),
  new Date("2024-01-15 10:30").getHours(),
  new Date("Jan 5, 2024").getDate(),
  new Date(2024, 0, 1).getTimezoneOffset(),
);
console.error("to stderr %d", 1);
console.warn("warn");
console.info("info");
console.debug("debug");
console.group("G");
console.log("in\nner");
console.group();
console.log({ a: 1, b: [1, 2] });
console.groupEnd();
console.groupEnd();
console.log("out");
console.count();
console.count("x");
console.count();
console.countReset();
console.count();
console.assert(1 === 1, "no");
console.assert(false, "yes %s", "fmt");
console.assert(false);
console.assert(false, { a: 1 });
console.dir({ a: { b: { c: { d: 1 } } } }, { depth: 0 });
console.log();
console.log("");
console.table(5);
[1, 2].forEach(console.log);
