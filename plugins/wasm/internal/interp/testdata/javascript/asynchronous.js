const sleep = (ms, v) => new Promise((r) => setTimeout(r, ms, v));
class Pool {
  constructor(n) {
    this.n = n;
    this.active = 0;
    this.q = [];
  }
  run(f) {
    return new Promise((res, rej) => {
      this.q.push({ f, res, rej });
      this.next();
    });
  }
  next() {
    while (this.active < this.n && this.q.length) {
      const { f, res, rej } = this.q.shift();
      this.active++;
      f()
        .then(res, rej)
        .finally(() => {
          this.active--;
          this.next();
        });
    }
  }
}
(async () => {
  const pool = new Pool(2);
  const log = [];
  await Promise.all(
    [30, 10, 20, 5].map((ms, i) =>
      pool.run(async () => {
        log.push(`start ${i}`);
        await sleep(ms * 4);
        log.push(`end ${i}`);
        return i;
      }),
    ),
  ).then((r) => console.log(r));
  console.log(log);
  try {
    await Promise.any([Promise.reject(new Error("a")), Promise.reject(new Error("b"))]);
  } catch (e) {
    console.log(
      e.constructor.name,
      e.errors.map((x) => x.message),
    );
  }
  const results = await Promise.allSettled([sleep(1, "x"), Promise.reject(new TypeError("bad")), 5]);
  console.log(results.map((r) => (r.status === "fulfilled" ? r.value : r.reason.message)));
  async function* ticker(n) {
    for (let i = 0; i < n; i++) {
      await sleep(1);
      yield i;
    }
  }
  for await (const t of ticker(3)) console.log("tick", t);
  const withTimeout = (p, ms) =>
    Promise.race([
      p,
      sleep(ms).then(() => {
        throw new Error("timeout");
      }),
    ]);
  await withTimeout(sleep(500), 5).catch((e) => console.log(e.message));
  console.log(await withTimeout(sleep(1, "ok"), 500));
  const retry = async (f, n) => {
    for (let i = 1; ; i++)
      try {
        return await f(i);
      } catch (e) {
        if (i === n) throw e;
        console.log("retry", i, e.message);
      }
  };
  console.log(
    await retry(async (i) => {
      if (i < 3) throw new Error("fail " + i);
      return "done " + i;
    }, 5),
  );
  const { promise, resolve } = (() => {
    let resolve;
    return { promise: new Promise((r) => (resolve = r)), resolve: (v) => resolve(v) };
  })();
  setTimeout(() => resolve("deferred"), 1);
  console.log(await promise);
  const EventEmitter = require("events");
  class Job extends EventEmitter {
    async go() {
      this.emit("start");
      for (let i = 0; i <= 100; i += 50) {
        await sleep(1);
        this.emit("progress", i);
      }
      this.emit("done", { ok: true });
    }
  }
  const j = new Job();
  j.on("progress", (p) => console.log(`progress ${p}%`)).once("done", (r) => console.log("done", r));
  await j.go();
  try {
    await (async () => {
      throw new Error("inner");
    })();
  } catch (e) {
    const w = new Error("outer", { cause: e });
    console.log(w.cause.message, e instanceof Error);
  } finally {
    console.log("finally");
  }
  console.log(
    await new Promise((r) => {
      const out = [];
      setImmediate(() => out.push("immediate"));
      process.nextTick(() => out.push("tick"));
      Promise.resolve().then(() => out.push("micro"));
      setTimeout(() => r(out), 30);
    }),
  );
  const m = new Map();
  const cached = async (k) => {
    if (!m.has(k)) m.set(k, sleep(1, k.toUpperCase()));
    return m.get(k);
  };
  console.log(await Promise.all(["a", "b", "a"].map(cached)), m.size);
  const thenable = {
    then(res) {
      res("thenable");
    },
  };
  console.log(await thenable, await Promise.resolve(thenable), await [1].map(async (x) => x)[0]);
  const queueDone = [];
  queueMicrotask(() => queueDone.push(1));
  await null;
  console.log(queueDone);
  console.log(
    await Promise.resolve(1).finally(() => 2),
    await Promise.reject(1).catch((x) => x + 1),
    await Promise.all([]),
    await (async () => {
      try {
        return await "try";
      } finally {
        console.log("cleanup");
      }
    })(),
  );
  const fs = require("fs").promises;
  await fs.mkdir("data", { recursive: true });
  await Promise.all([1, 2, 3].map((i) => fs.writeFile(`data/${i}.json`, JSON.stringify({ i, sq: i * i }))));
  const all = await Promise.all(
    (await fs.readdir("data")).map(async (f) => JSON.parse(await fs.readFile(`data/${f}`, "utf8"))),
  );
  console.log(all, (await fs.stat("data")).isDirectory());
  await fs.rm("data", { recursive: true });
  console.log(
    await fs.access("data").then(
      () => "there",
      (e) => e.code,
    ),
  );
})();
