"use strict";
// The global console, and the class to make others.

const { format, formatWithOptions } = require("format");
const { inspect } = require("inspect");
const { table } = require("table");

class Console {
  #out;
  #err;
  #indent = "";
  #indentBy = 2;
  #options;
  #counts = new Map();
  #timers = new Map();

  constructor(options, stderr) {
    if (typeof options?.write === "function") options = { stdout: options, stderr };
    this.#out = (text) => options.stdout.write(text);
    this.#err = (text) => (options.stderr ?? options.stdout).write(text);
    this.#indentBy = options.groupIndentation ?? 2;
    this.#options = options.inspectOptions ?? {};
    if (options.colorMode === true) this.#options = { ...this.#options, colors: true };
    // Methods work without their object: [1].forEach(console.log).
    for (const name of Object.getOwnPropertyNames(Console.prototype)) {
      if (name !== "constructor") this[name] = this[name].bind(this);
    }
  }

  #print(write, args) {
    let text = formatWithOptions(this.#options, ...args);
    if (this.#indent !== "") text = this.#indent + text.replaceAll("\n", `\n${this.#indent}`);
    write(`${text}\n`);
  }

  log(...args) {
    this.#print(this.#out, args);
  }

  info(...args) {
    this.#print(this.#out, args);
  }

  debug(...args) {
    this.#print(this.#out, args);
  }

  error(...args) {
    this.#print(this.#err, args);
  }

  warn(...args) {
    this.#print(this.#err, args);
  }

  dir(value, options) {
    this.#print(this.#out, [inspect(value, { customInspect: false, ...this.#options, ...options })]);
  }

  dirxml(...args) {
    this.log(...args);
  }

  trace(...args) {
    const err = new Error(args.length > 0 ? format(...args) : "");
    err.name = "Trace";
    const frames = err.stack.split("\n    at").slice(1);
    const head = err.message === "" ? "Trace" : `Trace: ${err.message}`;
    this.error([head, ...frames].join("\n    at"));
  }

  assert(condition, ...args) {
    if (condition) return;
    args[0] = `Assertion failed${args.length > 0 ? `: ${args[0]}` : ""}`;
    this.warn(...args);
  }

  clear() {}

  count(label = "default") {
    label = `${label}`;
    const n = (this.#counts.get(label) ?? 0) + 1;
    this.#counts.set(label, n);
    this.log(`${label}: ${n}`);
  }

  countReset(label = "default") {
    if (!this.#counts.delete(`${label}`)) process.emitWarning(`Count for '${label}' does not exist`);
  }

  group(...args) {
    if (args.length > 0) this.log(...args);
    this.#indent += " ".repeat(this.#indentBy);
  }

  groupCollapsed(...args) {
    this.group(...args);
  }

  groupEnd() {
    this.#indent = this.#indent.slice(0, -this.#indentBy || undefined);
  }

  time(label = "default") {
    label = `${label}`;
    if (this.#timers.has(label)) {
      process.emitWarning(`Label '${label}' already exists for console.time()`);
      return;
    }
    this.#timers.set(label, performance.now());
  }

  #elapsed(label, name) {
    if (!this.#timers.has(label)) {
      process.emitWarning(`No such label '${label}' for console.${name}()`);
      return undefined;
    }
    return `${label}: ${duration(performance.now() - this.#timers.get(label))}`;
  }

  timeEnd(label = "default") {
    const text = this.#elapsed(`${label}`, "timeEnd");
    if (text === undefined) return;
    this.log("%s", text);
    this.#timers.delete(`${label}`);
  }

  timeLog(label = "default", ...args) {
    const text = this.#elapsed(`${label}`, "timeLog");
    if (text !== undefined) this.log("%s", text, ...args);
  }

  table(data, columns) {
    if (data === null || typeof data !== "object") return this.log(data);
    return this.log(table(data, columns));
  }

  profile() {}

  profileEnd() {}

  timeStamp() {}
}

function duration(ms) {
  if (ms < 1000) return `${Number(ms.toFixed(3))}ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(3)}s`;
  const minutes = Math.floor(seconds / 60);
  const rest = Math.floor(seconds % 60);
  const fraction = Math.floor(ms % 1000)
    .toString()
    .padStart(3, "0");
  return `${minutes}:${String(rest).padStart(2, "0")}.${fraction} (m:ss.mmm)`;
}

// Straight to the host: a program that replaces process.stdout.write, to catch
// what it prints, is still served.
const stream = (fd, name) => ({
  write(text) {
    const own = Object.getOwnPropertyDescriptor(process, name)?.value;
    if (own && Object.hasOwn(own, "write")) own.write(text);
    else host.write(fd, text);
  },
});

const console = new Console({ stdout: stream(1, "stdout"), stderr: stream(2, "stderr") });
Object.defineProperty(console, "Console", { value: Console, writable: true, configurable: true });
Object.defineProperty(console, Symbol.toStringTag, { value: "console", configurable: true });

module.exports = { Console, console };
