const { Readable, Writable, Transform, PassThrough, Duplex, pipeline, finished } = require("stream");
const fs = require("fs");
const log = (...a) => console.log(...a);
const chunks = [];
setTimeout(() => {
  const w = new Writable({
    write(c, e, cb) {
      chunks.push(c.toString());
      setTimeout(cb, 1);
    },
  });
  w.on("finish", () => log("finish", chunks));
  w.write("x");
  w.write("y");
  w.end("z");
}, 500);
const up = new Transform({
  transform(c, e, cb) {
    cb(null, c.toString().toUpperCase());
  },
});
pipeline(
  Readable.from(["hello ", "world"]),
  up,
  new PassThrough(),
  async function (src) {
    let s = "";
    for await (const c of src) s += c;
    log("collected", s);
  },
  (err) => log("pipeline", err),
);
(async () => {
  await new Promise((r) => setTimeout(r, 1500));
  const r = Readable.from(["a", "b", "c"]);
  r.on("data", (d) => log("data", d));
  r.on("end", () => log("r end"));
  r.on("close", () => log("r close"));
  await new Promise((r) => setTimeout(r, 500));
  let s = "";
  for await (const c of Readable.from([1, 2, 3])) s += c;
  log(s);
  fs.writeFileSync("in.txt", "line one\nline two\nlast");
  const rl = require("readline").createInterface({ input: fs.createReadStream("in.txt"), crlfDelay: Infinity });
  for await (const line of rl) log("line", line);
  const out = fs.createWriteStream("out.txt");
  out.write("1\n");
  out.write(Buffer.from("2\n"));
  out.end("3\n");
  await new Promise((res) => out.on("finish", res));
  log(fs.readFileSync("out.txt", "utf8"), out.bytesWritten, out.path);
  await require("stream/promises").pipeline(
    fs.createReadStream("out.txt"),
    new Transform({
      transform(c, e, cb) {
        cb(null, String(c).replace(/\n/g, ";"));
      },
    }),
    fs.createWriteStream("out2.txt"),
  );
  log(fs.readFileSync("out2.txt", "utf8"));
  await require("stream/promises")
    .pipeline(fs.createReadStream("nope.txt"), new PassThrough())
    .catch((e) => log(e.code));
  fs.createReadStream("nope")
    .on("error", (e) => log("err", e.code))
    .on("close", () => log("closed"));
  await new Promise((r) => setTimeout(r, 400));
  fs.createReadStream("out.txt", { start: 2, end: 3, encoding: "utf8" })
    .on("data", (d) => log("part", JSON.stringify(d)))
    .on("end", () => log("part end"));
  await new Promise((r) => setTimeout(r, 400));
  const d = new Duplex({
    read() {
      this.push("from");
      this.push(null);
    },
    write(c, e, cb) {
      log("dw", String(c));
      cb();
    },
  });
  d.end("to");
  d.on("data", (c) => log("dr", String(c)));
  await require("stream/promises").finished(d);
  log("duplex done");
  const e = new Writable({
    write(c, en, cb) {
      cb(new Error("sink"));
    },
  });
  e.on("error", (x) => log("error", x.message));
  e.write("q", (x) => log("cb", x.message));
  await new Promise((r) => setTimeout(r, 200));
  log(e.destroyed);
  const slow = new Writable({
    highWaterMark: 3,
    write(c, en, cb) {
      setTimeout(cb, 2);
    },
  });
  log(slow.write("abcd"));
  slow.once("drain", () => log("drain"));
  await new Promise((r) => setTimeout(r, 400));
  const rr = new Readable({ read() {} });
  rr.push("abc");
  rr.push("def");
  rr.push(null);
  rr.setEncoding("utf8");
  rr.on("readable", () => {
    let c;
    while ((c = rr.read(2)) !== null) log("read", c);
  });
  rr.on("end", () => log("rr end"));
  await new Promise((r) => setTimeout(r, 200));
  log(
    await Readable.from([1, 2, 3])
      .map((x) => x * 2)
      .toArray(),
    await Readable.from([1, 2, 3])
      .filter((x) => x > 1)
      .toArray(),
  );
  const obj = new Transform({
    objectMode: true,
    transform(o, _, cb) {
      this.push({ n: o.n * 2 });
      cb();
    },
    flush(cb) {
      this.push({ end: true });
      cb();
    },
  });
  obj.on("data", (o) => log(o));
  obj.write({ n: 1 });
  obj.end({ n: 2 });
  await new Promise((r) => setTimeout(r, 200));
  process.stdout.write("raw ");
  process.stdout.write(Buffer.from("bytes\n"));
  process.stdout.write("cb\n", () => log("written"));
  finished(process.stdout, () => {});
})();
