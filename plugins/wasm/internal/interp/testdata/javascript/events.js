const EventEmitter = require("events");
const { once, on } = EventEmitter;
const util = require("util");
const e = new EventEmitter();
e.on("a", (...x) => console.log("a", ...x));
e.once("a", () => console.log("once"));
e.prependListener("a", () => console.log("first"));
console.log(e.emit("a", 1, 2), e.emit("a"), e.emit("none"), e.listenerCount("a"), e.eventNames());
class My extends EventEmitter {
  constructor() {
    super();
    this.v = 1;
  }
}
const m = new My();
m.on("x", function () {
  console.log(this === m, this.v);
});
m.emit("x");
console.log(
  m instanceof EventEmitter,
  EventEmitter.EventEmitter === EventEmitter,
  require("node:events") === EventEmitter,
);
function Old() {
  EventEmitter.call(this);
}
util.inherits(Old, EventEmitter);
const o = new Old();
o.on("q", (v) => console.log("old", v));
o.emit("q", 3);
try {
  e.emit("error", new Error("unhandled!"));
} catch (x) {
  console.log(x.message);
}
try {
  e.emit("error", "str");
} catch (x) {
  console.log(x.code, x.message);
}
e.on("error", (x) => console.log("handled", x));
e.emit("error", 5);
const f = () => console.log("f");
e.on("b", f);
e.off("b", f);
e.emit("b");
e.on("c", f).removeAllListeners("c");
e.emit("c");
console.log(e.listeners("a").length, e.rawListeners("a").length, e.getMaxListeners(), EventEmitter.defaultMaxListeners);
e.on("newListener", (n) => console.log("new", n));
e.on("d", f);
e.removeAllListeners();
try {
  e.on("x", 5);
} catch (x) {
  console.log(x.code);
}
(async () => {
  setTimeout(() => m.emit("later", 42), 5);
  console.log(await once(m, "later"));
  setTimeout(() => {
    m.emit("s", 1);
    m.emit("s", 2);
  }, 5);
  let n = 0;
  for await (const [v] of on(m, "s")) {
    console.log("on", v);
    if (++n === 2) break;
  }
  setTimeout(() => m.emit("error", new Error("rej")), 1);
  await once(m, "never").catch((x) => console.log(x.message));
})();
const et = new EventTarget();
et.addEventListener("hi", (ev) => console.log(ev.type, ev.detail, ev.target === et), { once: true });
et.dispatchEvent(new CustomEvent("hi", { detail: 7 }));
et.dispatchEvent(new Event("hi"));
const ac = new AbortController();
ac.signal.addEventListener("abort", () => console.log("aborted", ac.signal.reason.name));
ac.abort();
console.log(ac.signal.aborted);
try {
  ac.signal.throwIfAborted();
} catch (x) {
  console.log(x.name, x.message);
}
console.log(AbortSignal.abort("r").reason, AbortSignal.timeout(1) instanceof EventTarget);
console.log(
  util.inspect(new My()).split("\n").length > 0,
  Object.keys(new (class extends EventEmitter {})()).length >= 0,
);
