"use strict";
// EventEmitter.

const { checkFunction, codedError, invalidArgType, outOfRange } = require("errors");
const { inspect } = require("inspect");
const { define, methods } = require("objects");

let defaultMaxListeners = 10;

// Not a class: programs also call EventEmitter.call(this) and util.inherits.
function EventEmitter(options) {
  if (!Object.hasOwn(this, "_events")) define(this, "_events", new Map());
  if (options?.captureRejections) define(this, "_captureRejections", true);
}

methods(EventEmitter.prototype, {
  emit(name, ...args) {
    const events = listOf(this);
    if (name === "error" && events.has(EventEmitter.errorMonitor)) {
      this.emit(EventEmitter.errorMonitor, ...args);
    }
    const list = events.get(name);
    if (!list) {
      if (name === "error") throw unhandled(args[0], args.length > 0);
      return false;
    }
    for (const listener of [...list]) {
      const result = listener.apply(this, args);
      if (this._captureRejections && typeof result?.then === "function") {
        result.then(undefined, (err) => this.emit("error", err));
      }
    }
    return true;
  },

  on(name, listener) {
    return add(this, name, listener, "push");
  },

  addListener(name, listener) {
    return add(this, name, listener, "push");
  },

  prependListener(name, listener) {
    return add(this, name, listener, "unshift");
  },

  once(name, listener) {
    return add(this, name, onceOf(this, name, listener), "push");
  },

  prependOnceListener(name, listener) {
    return add(this, name, onceOf(this, name, listener), "unshift");
  },

  off(name, listener) {
    return this.removeListener(name, listener);
  },

  removeListener(name, listener) {
    checkFunction(listener, "listener");
    const events = listOf(this);
    const list = events.get(name);
    if (!list) return this;
    const at = list.findLastIndex((l) => l === listener || l.listener === listener);
    if (at < 0) return this;
    const [removed] = list.splice(at, 1);
    if (list.length === 0) events.delete(name);
    if (events.has("removeListener")) this.emit("removeListener", name, removed.listener ?? removed);
    return this;
  },

  removeAllListeners(name) {
    const events = listOf(this);
    const names = name === undefined ? [...events.keys()] : [name];
    for (const n of names) {
      if (n === "removeListener" && name === undefined) continue;
      for (const l of [...(events.get(n) ?? [])].reverse()) this.removeListener(n, l.listener ?? l);
    }
    if (name === undefined) events.clear();
    return this;
  },

  listeners(name) {
    return (listOf(this).get(name) ?? []).map((l) => l.listener ?? l);
  },

  rawListeners(name) {
    return [...(listOf(this).get(name) ?? [])];
  },

  listenerCount(name, listener) {
    const list = listOf(this).get(name) ?? [];
    if (listener === undefined) return list.length;
    return list.filter((l) => l === listener || l.listener === listener).length;
  },

  eventNames() {
    return [...listOf(this).keys()];
  },

  setMaxListeners(n) {
    if (typeof n !== "number" || n < 0 || Number.isNaN(n)) throw outOfRange("n", "a non-negative number", n);
    define(this, "_maxListeners", n);
    return this;
  },

  getMaxListeners() {
    return this._maxListeners ?? defaultMaxListeners;
  },
});

function listOf(emitter) {
  if (!Object.hasOwn(emitter, "_events")) define(emitter, "_events", new Map());
  return emitter._events;
}

function add(emitter, name, listener, how) {
  checkFunction(listener, "listener");
  const events = listOf(emitter);
  if (events.has("newListener")) emitter.emit("newListener", name, listener.listener ?? listener);
  if (!events.has(name)) events.set(name, []);
  const list = events.get(name);
  list[how](listener);
  const max = emitter.getMaxListeners?.() ?? defaultMaxListeners;
  if (max > 0 && list.length > max && !list.warned) {
    list.warned = true;
    globalThis.process.emitWarning(
      `Possible EventEmitter memory leak detected. ${list.length} ${String(name)} listeners added to ${inspect(emitter, { depth: -1 })}. MaxListeners is ${max}. Use emitter.setMaxListeners() to increase limit`,
      "MaxListenersExceededWarning",
    );
  }
  return emitter;
}

function onceOf(emitter, name, listener) {
  checkFunction(listener, "listener");
  function wrapper(...args) {
    emitter.removeListener(name, wrapper);
    return listener.apply(emitter, args);
  }
  wrapper.listener = listener;
  return wrapper;
}

function unhandled(err, given) {
  if (err instanceof Error) return err;
  const text = given ? inspect(err) : "undefined";
  const wrapped = codedError(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${text})`);
  wrapped.context = err;
  return wrapped;
}

/** events.once(emitter, name): a promise of the next event's arguments. */
function once(emitter, name, { signal } = {}) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      off(emitter, name, resolver);
      if (name !== "error") off(emitter, "error", failed);
      signal?.removeEventListener("abort", aborted);
    };
    const resolver = (...args) => {
      stop();
      resolve(args);
    };
    const failed = (err) => {
      stop();
      reject(err);
    };
    const aborted = () => {
      stop();
      reject(signal.reason);
    };
    if (signal?.aborted) return reject(signal.reason);
    signal?.addEventListener("abort", aborted);
    if (typeof emitter.addEventListener === "function" && typeof emitter.on !== "function") {
      emitter.addEventListener(name, resolver, { once: true });
      return;
    }
    emitter.once(name, resolver);
    if (name !== "error") emitter.once("error", failed);
  });
}

function off(emitter, name, listener) {
  if (typeof emitter.removeListener === "function") emitter.removeListener(name, listener);
  else emitter.removeEventListener(name, listener);
}

/** events.on(emitter, name): an async iterator over the event's arguments. */
function on(emitter, name, { signal } = {}) {
  const ready = [];
  const waiting = [];
  let failure = null;
  let ended = false;
  const event = (...args) => {
    const waiter = waiting.shift();
    if (waiter) waiter.resolve({ value: args, done: false });
    else ready.push(args);
  };
  const fail = (err) => {
    const waiter = waiting.shift();
    if (waiter) waiter.reject(err);
    else failure = { err };
    iterator.return();
  };
  const iterator = {
    next() {
      if (ready.length > 0) return Promise.resolve({ value: ready.shift(), done: false });
      if (failure) {
        const { err } = failure;
        failure = null;
        return Promise.reject(err);
      }
      if (ended) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return() {
      ended = true;
      off(emitter, name, event);
      off(emitter, "error", fail);
      for (const waiter of waiting.splice(0)) waiter.resolve({ value: undefined, done: true });
      return Promise.resolve({ value: undefined, done: true });
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
  emitter.on(name, event);
  if (name !== "error") emitter.on("error", fail);
  signal?.addEventListener("abort", () => fail(signal.reason), { once: true });
  return iterator;
}

Object.assign(EventEmitter, {
  EventEmitter,
  once,
  on,
  errorMonitor: Symbol("events.errorMonitor"),
  captureRejectionSymbol: Symbol.for("nodejs.rejection"),
  listenerCount: (emitter, name) => emitter.listenerCount(name),
  getEventListeners(emitter, name) {
    if (typeof emitter.listeners === "function") return emitter.listeners(name);
    throw invalidArgType("emitter", "an instance of EventEmitter", emitter);
  },
  setMaxListeners(n, ...emitters) {
    if (emitters.length === 0) defaultMaxListeners = n;
    for (const emitter of emitters) emitter.setMaxListeners?.(n);
  },
});
Object.defineProperty(EventEmitter, "defaultMaxListeners", {
  get: () => defaultMaxListeners,
  set(n) {
    defaultMaxListeners = n;
  },
  enumerable: true,
});

module.exports = EventEmitter;
