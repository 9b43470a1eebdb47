// Microtasks, ticks, timers and immediates, in the order that does not depend on how fast things go.
console.log("main");
process.nextTick(() => {
  console.log("tick1");
  process.nextTick(() => console.log("tick nested"));
});
Promise.resolve()
  .then(() => {
    console.log("micro1");
    process.nextTick(() => console.log("tick from micro"));
  })
  .then(() => console.log("micro2"));
queueMicrotask(() => console.log("qm"));
(async () => {
  console.log("async start");
  await null;
  console.log("async after");
  for await (const x of (async function* () {
    yield 1;
    yield 2;
  })())
    console.log("gen", x);
})();
const t = setTimeout(() => {}, 1);
console.log(typeof t, t.hasRef(), typeof +t, clearTimeout(+t));
const cancelled = setTimeout(() => console.log("never"), 1);
clearTimeout(cancelled);
clearTimeout(undefined);
clearTimeout(null);
setTimeout(() => console.log("never unref"), 1e6).unref();
process.on("exit", (c) => console.log("exit", c));
let again = true;
process.on("beforeExit", (c) => {
  console.log("beforeExit", c);
  if (again) {
    again = false;
    setTimeout(() => console.log("more"), 1);
  }
});
const step = (f) =>
  new Promise((resolve) =>
    setTimeout(() => {
      f();
      setTimeout(resolve, 200);
    }, 1),
  );
(async () => {
  await step(() => {
    setTimeout(() => {
      console.log("t1");
      Promise.resolve().then(() => console.log("t1 micro"));
      process.nextTick(() => console.log("t1 tick"));
    }, 0);
    setTimeout(() => console.log("t2"), 0);
  });
  await step(() => {
    setImmediate(() => {
      console.log("imm1");
      setImmediate(() => console.log("imm3"));
      process.nextTick(() => console.log("imm1 tick"));
    });
    setImmediate(() => console.log("imm2"));
  });
  await step(() => {
    let n = 0;
    const i = setInterval(() => {
      console.log("int", ++n);
      if (n === 3) {
        clearInterval(i);
      }
    }, 1);
  });
  await step(() => setTimeout((a, b) => console.log("args", a, b), 1, "x", "y"));
  await require("timers/promises")
    .setTimeout(1, "val")
    .then((v) => console.log("tp", v));
  await require("util")
    .promisify(setTimeout)(1, "pv")
    .then((v) => console.log(v));
  const ac = new AbortController();
  setTimeout(() => ac.abort(), 1);
  await require("timers/promises")
    .setTimeout(1e6, null, { signal: ac.signal })
    .catch((e) => console.log(e.name, e.code));
  let ticks = 0;
  for await (const v of require("timers/promises").setInterval(1, "i")) {
    console.log(v);
    if (++ticks === 2) break;
  }
  const order = [];
  await Promise.all(
    [30, 10, 20].map(
      (ms) =>
        new Promise((r) =>
          setTimeout(() => {
            order.push(ms);
            r();
          }, ms * 5),
        ),
    ),
  );
  console.log(order);
  console.log(
    await Promise.allSettled([1, Promise.reject("x")]),
    await Promise.any([Promise.reject(1), 2]),
    await Promise.race([new Promise(() => {}), 3]),
  );
})();
console.log("end");
