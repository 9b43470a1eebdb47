"use strict";
// Event, EventTarget and what aborts operations.

const { invalidArgType } = require("errors");

class Event {
  #type;
  #cancelable;
  #stopped = false;
  #prevented = false;

  constructor(type, { bubbles = false, cancelable = false, composed = false } = {}) {
    this.#type = String(type);
    this.#cancelable = Boolean(cancelable);
    this.bubbles = Boolean(bubbles);
    this.composed = Boolean(composed);
    this.target = null;
    this.currentTarget = null;
    this.timeStamp = performance.now();
  }

  get type() {
    return this.#type;
  }

  get cancelable() {
    return this.#cancelable;
  }

  get defaultPrevented() {
    return this.#prevented;
  }

  preventDefault() {
    if (this.#cancelable) this.#prevented = true;
  }

  stopPropagation() {}

  stopImmediatePropagation() {
    this.#stopped = true;
  }

  static stopped(event) {
    return event.#stopped;
  }
}

const { stopped } = Event;
delete Event.stopped;

class CustomEvent extends Event {
  constructor(type, { detail = null, ...options } = {}) {
    super(type, options);
    this.detail = detail;
  }
}

class EventTarget {
  #listeners = new Map();

  addEventListener(type, callback, options) {
    if (callback == null) return;
    if (typeof callback !== "function" && typeof callback !== "object") {
      throw invalidArgType("listener", "an instance of EventListener", callback);
    }
    const { once = false, signal } = typeof options === "object" && options !== null ? options : {};
    if (signal?.aborted) return;
    if (!this.#listeners.has(type)) this.#listeners.set(type, []);
    const list = this.#listeners.get(type);
    if (list.some((l) => l.callback === callback)) return;
    list.push({ callback, once });
    signal?.addEventListener("abort", () => this.removeEventListener(type, callback), { once: true });
  }

  removeEventListener(type, callback) {
    const list = this.#listeners.get(type) ?? [];
    const at = list.findIndex((l) => l.callback === callback);
    if (at >= 0) list.splice(at, 1);
  }

  dispatchEvent(event) {
    if (!(event instanceof Event)) throw invalidArgType("event", "an instance of Event", event);
    event.target = this;
    event.currentTarget = this;
    const handler = this[`on${event.type}`];
    const list = [...(this.#listeners.get(event.type) ?? [])];
    if (typeof handler === "function") list.unshift({ callback: handler, once: false });
    for (const { callback, once } of list) {
      if (once) this.removeEventListener(event.type, callback);
      try {
        if (typeof callback === "function") callback.call(this, event);
        else callback.handleEvent(event);
      } catch (err) {
        process.nextTick(() => {
          throw err;
        });
      }
      if (stopped(event)) break;
    }
    event.currentTarget = null;
    return !event.defaultPrevented;
  }
}

const key = Symbol("AbortSignal"); // lets only this file make signals

class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = undefined;

  constructor(token) {
    if (token !== key) throw new TypeError("Illegal constructor");
    super();
    this.onabort = null;
  }

  get aborted() {
    return this.#aborted;
  }

  get reason() {
    return this.#reason;
  }

  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }

  static abort(reason) {
    const signal = new AbortSignal(key);
    AbortSignal.#fire(signal, reason);
    return signal;
  }

  static timeout(delay) {
    const signal = new AbortSignal(key);
    const reason = () => new DOMException("The operation was aborted due to timeout", "TimeoutError");
    setTimeout(() => AbortSignal.#fire(signal, reason()), delay).unref();
    return signal;
  }

  static any(signals) {
    const result = new AbortSignal(key);
    for (const signal of signals) {
      if (signal.aborted) {
        AbortSignal.#fire(result, signal.reason);
        return result;
      }
    }
    for (const signal of signals) {
      signal.addEventListener("abort", () => AbortSignal.#fire(result, signal.reason), { once: true });
    }
    return result;
  }

  static #fire(signal, reason) {
    if (signal.#aborted) return;
    signal.#aborted = true;
    signal.#reason =
      reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
    signal.dispatchEvent(new Event("abort"));
  }

  static controlled(token) {
    if (token !== key) throw new TypeError("Illegal invocation");
    const signal = new AbortSignal(key);
    return { signal, abort: (reason) => AbortSignal.#fire(signal, reason) };
  }
}

const { controlled } = AbortSignal;
delete AbortSignal.controlled;

class AbortController {
  #control = controlled(key);

  get signal() {
    return this.#control.signal;
  }

  abort(reason) {
    this.#control.abort(reason);
  }
}

for (const Class of [Event, CustomEvent, EventTarget, AbortSignal, AbortController]) {
  Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}

module.exports = { AbortController, AbortSignal, CustomEvent, Event, EventTarget };
