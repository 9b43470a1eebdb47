const b = Buffer.from("héllo wörld €😀", "utf8");
console.log(
  b,
  b.length,
  b.toString(),
  b.toString("hex"),
  b.toString("base64"),
  b.toString("base64url"),
  b.toString("latin1"),
  b.toString("ascii"),
);
for (const enc of ["utf8", "hex", "base64", "base64url", "latin1", "ascii", "utf16le", "ucs2", "binary"])
  console.log(
    enc,
    Buffer.from("aGVsbG8=", enc),
    Buffer.byteLength("aGVsbG8=", enc),
    Buffer.from(b.toString(enc), enc).length,
  );
console.log(
  Buffer.from("zz", "hex"),
  Buffer.from("abc", "hex"),
  Buffer.from("a b-c_d", "base64"),
  Buffer.from([1, 256, -1, 3.7]),
  Buffer.from(new Uint16Array([1, 500])),
  Buffer.from(new Uint8Array([9, 8]).buffer),
);
console.log(
  Buffer.alloc(5),
  Buffer.alloc(5, "ab"),
  Buffer.alloc(3, 1),
  Buffer.allocUnsafe(2).length,
  Buffer.concat([Buffer.from("a"), Buffer.from("bc")]),
  Buffer.concat([Buffer.from("abc")], 2),
  Buffer.concat([Buffer.from("a")], 3),
);
const c = Buffer.from("hello");
const d = c.slice(1, 3);
d[0] = 0x45;
console.log(
  c.toString(),
  d.toString(),
  c.subarray(-2).toString(),
  c.slice(-3, -1).toString(),
  c.slice(3, 1).length,
  d instanceof Buffer,
  c instanceof Uint8Array,
  Buffer.isBuffer(d),
  Buffer.isBuffer(new Uint8Array(1)),
);
console.log(
  c.equals(Buffer.from("hEllo")),
  c.compare(Buffer.from("a")),
  Buffer.compare(Buffer.from("a"), Buffer.from("b")),
  c.indexOf("l"),
  c.indexOf("l", 3),
  c.lastIndexOf("l"),
  c.indexOf(0x6f),
  c.indexOf(Buffer.from("lo")),
  c.includes("xx"),
  c.indexOf(""),
  c.indexOf("o", -1),
  c.lastIndexOf("h", -5),
);
const w = Buffer.alloc(16);
console.log(
  w.write("héé", 1),
  w.write("abc", 8, 2),
  w.write("ffff", 12, "hex"),
  w,
  w.fill("xy", 0, 5),
  w.fill(0),
  w.toJSON(),
);
const n = Buffer.alloc(40);
n.writeUInt8(255, 0);
n.writeInt8(-1, 1);
n.writeUInt16LE(65534, 2);
n.writeUInt16BE(65534, 4);
n.writeInt16LE(-2, 6);
n.writeInt32BE(-123456, 8);
n.writeUInt32LE(4e9, 12);
n.writeFloatLE(1.5, 16);
n.writeDoubleBE(Math.PI, 20);
n.writeBigInt64LE(-5n, 28);
n.writeUIntBE(0x123456, 36, 3);
console.log(
  n.toString("hex"),
  n.readUInt8(0),
  n.readInt8(1),
  n.readUInt16LE(2),
  n.readUint16BE(4),
  n.readInt16LE(6),
  n.readInt32BE(8),
  n.readUInt32LE(12),
  n.readFloatLE(16),
  n.readDoubleBE(20),
  n.readBigInt64LE(28),
  n.readBigUInt64LE(28),
  n.readUIntBE(36, 3),
  n.readIntLE(1, 5),
  n.readIntBE(0, 6),
);
for (const f of [
  () => n.readUInt8(40),
  () => n.readUInt32LE(37),
  () => n.writeUInt8(256, 0),
  () => n.writeInt8(-129),
  () => n.readUInt8("1"),
  () => n.readUInt8(1.5),
  () => Buffer.from(5),
  () => Buffer.from(null),
  () => Buffer.from(undefined),
  () => Buffer.from("a", "nope"),
  () => Buffer.alloc("5"),
  () => n.writeUInt16LE(70000),
  () => n.readUIntBE(0, 7),
  () => Buffer.concat("x"),
  () => Buffer.byteLength(5),
  () => n.equals("x"),
  () => n.swap16 && Buffer.alloc(3).swap16(),
  () => n.writeUIntLE(2 ** 40, 0, 5),
  () => n.writeIntBE(-(2 ** 39) - 1, 0, 5),
]) {
  try {
    console.log("ok", f());
  } catch (e) {
    console.log(e.name, e.code, e.message);
  }
}
console.log(
  Buffer.from("abc").swap16 ? Buffer.from("abcd").swap16().toString() : "",
  Buffer.from("abcdefgh").swap64().toString(),
  [...Buffer.from("ab")],
  [...Buffer.from("ab").entries()],
  Buffer.from("abc").map((x) => x + 1),
  Buffer.from("abc").filter((x) => x > 97),
);
console.log(
  Buffer.from("test").toString("utf8", 1, 3),
  JSON.stringify({ b: Buffer.from("x") }),
  Buffer.from(JSON.parse(JSON.stringify(Buffer.from("round")))).toString(),
  `${Buffer.from("tpl")}`,
  Buffer.from("a") + "b",
);
const cp = Buffer.alloc(4);
console.log(
  Buffer.from("abcdef").copy(cp, 1, 2),
  cp,
  Buffer.from(new String("boxed")),
  Buffer.from({ length: 2, 0: 5, 1: 6 }),
  Buffer.poolSize,
  Buffer.isEncoding("UTF-8"),
  Buffer.isEncoding("nope"),
);
console.log(
  Buffer.from([0xff, 0xfe, 0x41]).toString(),
  Buffer.from([0xe2, 0x82]).toString(),
  Buffer.from([0xf0, 0x9f, 0x98]).toString().length,
  Buffer.from("\ud800x").toString("hex"),
  Buffer.from([0xc3, 0x28, 0xe2, 0x82, 0x28]).toString(),
  Buffer.from([0xed, 0xa0, 0x80]).toString().length,
  Buffer.from([0xf8, 0x88, 0x80, 0x80, 0x80]).toString().length,
);
console.log(
  atob("aGk="),
  btoa("hi"),
  new TextEncoder().encode("é€"),
  new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x68])),
  new TextDecoder("utf-16le").decode(new Uint8Array([0x68, 0, 0x69, 0])),
  new TextDecoder("latin1").decode(new Uint8Array([0xe9])),
);
const td = new TextDecoder();
console.log(
  td.decode(new Uint8Array([0xe2, 0x82]), { stream: true }) + td.decode(new Uint8Array([0xac])),
  (() => {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([0xff]));
    } catch (e) {
      return e.code + e.name;
    }
  })(),
);
console.log(
  new TextEncoder().encodeInto("aé€", new Uint8Array(4)),
  Buffer.alloc(60, 7),
  require("buffer").constants.MAX_LENGTH > 1e9,
  require("buffer").Buffer === Buffer,
);
const { StringDecoder } = require("string_decoder");
const sd = new StringDecoder("utf8");
console.log(sd.write(Buffer.from([0xe2, 0x82])), sd.write(Buffer.from([0xac])), sd.end(Buffer.from([0xe2])));
console.log(
  structuredClone({
    a: [1, new Date(0), /x/g, new Map([[1, { b: 2 }]]), new Set([1]), new Uint8Array([1]), null, undefined, 1n],
  }),
  (() => {
    try {
      structuredClone({ f() {} });
    } catch (e) {
      return e.name + e.message + e.code;
    }
  })(),
);
const cyc = { n: 1 };
cyc.me = cyc;
const cl = structuredClone(cyc);
console.log(cl, cl.me === cl, cl !== cyc);
