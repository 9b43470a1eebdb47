"use strict";
// setTimeout and its kin. The host calls turn until nothing is left to wait for.

const { checkFunction, invalidArgType } = require("errors");

const longest = 2 ** 31 - 1; // milliseconds; more than that means 1, as in node

let timeouts = []; // a heap by time, then by order of creation
let immediates = [];
let running = []; // the immediates of the current turn
let created = 0;
const byId = new Map();

const before = (a, b) => a.due < b.due || (a.due === b.due && a.order < b.order);

function push(timer) {
  let i = timeouts.push(timer) - 1;
  while (i > 0) {
    const parent = (i - 1) >> 1;
    if (!before(timer, timeouts[parent])) break;
    timeouts[i] = timeouts[parent];
    i = parent;
  }
  timeouts[i] = timer;
}

function pop() {
  const first = timeouts[0];
  const last = timeouts.pop();
  if (timeouts.length === 0) return first;
  let i = 0;
  for (;;) {
    let child = 2 * i + 1;
    if (child >= timeouts.length) break;
    if (child + 1 < timeouts.length && before(timeouts[child + 1], timeouts[child])) child++;
    if (!before(timeouts[child], last)) break;
    timeouts[i] = timeouts[child];
    i = child;
  }
  timeouts[i] = last;
  return first;
}

function now() {
  return performance.now();
}

class Timeout {
  #callback;
  #args;
  #generation = 0; // counts how often it was scheduled; earlier entries are void

  constructor(callback, delay, args, repeat) {
    delay = Number(delay);
    if (!(delay >= 1 && delay <= longest)) {
      if (delay > longest) {
        process.emitWarning(
          `${delay} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.`,
          "TimeoutOverflowWarning",
        );
      }
      delay = 1;
    }
    this.#callback = callback;
    this.#args = args;
    this._idleTimeout = Math.trunc(delay);
    this._repeat = repeat ? this._idleTimeout : null;
    this._destroyed = false;
    this._id = ++created;
    this._refed = true;
    byId.set(this._id, this);
    this.#schedule();
  }

  #schedule() {
    const generation = ++this.#generation;
    push({
      due: now() + this._idleTimeout,
      order: ++created,
      timer: this,
      live: () => !this._destroyed && generation === this.#generation,
    });
  }

  _run() {
    try {
      this.#callback(...this.#args);
    } finally {
      if (!this._destroyed) {
        if (this._repeat === null) this._destroy();
        else this.#schedule();
      }
    }
  }

  _destroy() {
    this._destroyed = true;
    byId.delete(this._id);
  }

  ref() {
    this._refed = true;
    return this;
  }

  unref() {
    this._refed = false;
    return this;
  }

  hasRef() {
    return this._refed;
  }

  refresh() {
    if (!this._destroyed) this.#schedule();
    return this;
  }

  close() {
    clearTimeout(this);
    return this;
  }

  [Symbol.toPrimitive]() {
    return this._id;
  }

  [Symbol.dispose]() {
    clearTimeout(this);
  }
}

class Immediate {
  constructor(callback, args) {
    this._callback = callback;
    this._args = args;
    this._destroyed = false;
    this._refed = true;
  }

  ref() {
    this._refed = true;
    return this;
  }

  unref() {
    this._refed = false;
    return this;
  }

  hasRef() {
    return this._refed;
  }

  [Symbol.dispose]() {
    clearImmediate(this);
  }
}

function setTimeout(callback, delay, ...args) {
  checkFunction(callback, "callback");
  return new Timeout(callback, delay, args, false);
}

function setInterval(callback, delay, ...args) {
  checkFunction(callback, "callback");
  return new Timeout(callback, delay, args, true);
}

function clearTimeout(timer) {
  if (typeof timer === "number" || typeof timer === "string") timer = byId.get(Number(timer));
  if (timer instanceof Timeout) timer._destroy();
}

function setImmediate(callback, ...args) {
  checkFunction(callback, "callback");
  const immediate = new Immediate(callback, args);
  immediates.push(immediate);
  return immediate;
}

function clearImmediate(immediate) {
  if (immediate instanceof Immediate) immediate._destroyed = true;
}

/**
 * Runs the next thing that is due and returns 0. Otherwise returns how many
 * milliseconds there are to wait, or -1 when nothing is left that keeps the
 * program going.
 */
function turn() {
  while (timeouts.length > 0 && !timeouts[0].live()) pop();
  while (running.length > 0) {
    const next = running.shift();
    if (next._destroyed) continue;
    next._destroyed = true;
    next._callback(...next._args);
    return 0;
  }
  if (timeouts.length > 0 && timeouts[0].due <= now()) {
    pop().timer._run();
    return 0;
  }
  running = immediates.filter((i) => !i._destroyed);
  immediates = [];
  if (running.some((i) => i._refed)) return turn();
  if (!timeouts.some((t) => t.live() && t.timer._refed)) return -1;
  return Math.max(timeouts[0].due - now(), 0.01);
}

function abortable(signal, start, stop) {
  return new Promise((resolve, reject) => {
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw invalidArgType("options.signal", "an instance of AbortSignal", signal);
    }
    const abort = () => {
      stop(handle);
      const err = new Error("The operation was aborted", { cause: signal.reason });
      err.name = "AbortError";
      err.code = "ABORT_ERR";
      reject(err);
    };
    let handle;
    if (signal?.aborted) return abort();
    signal?.addEventListener("abort", abort, { once: true });
    handle = start((value) => {
      signal?.removeEventListener("abort", abort);
      resolve(value);
    });
  });
}

const promises = {
  setTimeout: (delay, value, { signal, ref = true } = {}) =>
    abortable(
      signal,
      (done) => {
        const timer = setTimeout(done, delay, value);
        return ref ? timer : timer.unref();
      },
      clearTimeout,
    ),
  setImmediate: (value, { signal } = {}) =>
    abortable(signal, (done) => setImmediate(done, value), clearImmediate),
  async *setInterval(delay, value, { signal } = {}) {
    for (;;) {
      await promises.setTimeout(delay, undefined, { signal });
      yield value;
    }
  },
  scheduler: {
    wait: (delay, options) => promises.setTimeout(delay, undefined, options),
    yield: () => promises.setImmediate(),
  },
};

const promisified = Symbol.for("nodejs.util.promisify.custom");
Object.defineProperty(setTimeout, promisified, { get: () => promises.setTimeout });
Object.defineProperty(setImmediate, promisified, { get: () => promises.setImmediate });

module.exports = {
  promises,
  turn,
  timers: {
    setTimeout,
    clearTimeout,
    setInterval,
    clearInterval: clearTimeout,
    setImmediate,
    clearImmediate,
    promises,
  },
};
