"use strict";
// What stack traces look like, and where uncaught errors come from.

const files = new Map(); // by name: how positions in a file differ from its source

/**
 * Says that the code of a file is not its source: columns of the first line are
 * shifted by so many, or the mappings of a source map lead to the source.
 */
function describeFile(file, { shift = 0, mappings } = {}) {
  files.set(file, { shift, mappings });
}

function locate(frame) {
  const file = frame.isNative() ? undefined : frame.getFileName();
  if (!file || file.startsWith("node:internal/")) return null;
  let line = frame.getLineNumber();
  let column = frame.getColumnNumber();
  const known = files.get(file);
  if (known?.shift && line === 1) column = Math.max(1, column - known.shift);
  if (known?.mappings) [line, column] = JSON.parse(host.position(known.mappings, line, column));
  return { file, line, column };
}

function describeFrame(frame) {
  const place = locate(frame);
  if (!place) return null;
  const where = `${place.file}:${place.line}:${place.column}`;
  const name = frame.getFunctionName();
  if (!name || name === "<eval>") return `    at ${where}`;
  return `    at ${frame.isConstructor() ? "new " : ""}${name} (${where})`;
}

function header(error) {
  try {
    const name = error.name === undefined ? "Error" : String(error.name);
    const message = error.message === undefined ? "" : String(error.message);
    if (name === "" || message === "") return name + message;
    return `${name}: ${message}`;
  } catch {
    return "<error>";
  }
}

/**
 * What the engine keeps as the stack of an error until somebody reads it: most
 * errors are caught and forgotten, and classes set names after the stack is
 * made.
 */
class Frames {
  constructor(frames) {
    this.frames = frames;
  }

  toString() {
    return this.frames
      .map(describeFrame)
      .filter((text) => text !== null)
      .map((text) => `\n${text}`)
      .join("");
  }
}

const places = new WeakMap(); // of the first frame of errors whose stack was read

/** Where an error was made: { file, line, column }, or undefined. */
function placeOf(error) {
  void error.stack;
  return places.get(error);
}

Error.prepareStackTrace = function prepareStackTrace(error, frames) {
  if (Error.isError(error)) return new Frames(frames);
  return header(error) + new Frames(frames);
};

const native = Object.getOwnPropertyDescriptor(Error.prototype, "stack").get;

// An own, hidden property from the first use on, as it is in node.
const keep = (error, value) => {
  Object.defineProperty(error, "stack", { value, writable: true, configurable: true, enumerable: false });
};

Object.defineProperty(Error.prototype, "stack", {
  get() {
    const stack = native.call(this);
    if (!(stack instanceof Frames)) return stack;
    const text = header(this) + stack;
    keep(this, text);
    // Where a class made the error of itself says less than who wanted it.
    const frames = stack.frames.filter((frame) => locate(frame) !== null);
    const first = frames.find((frame) => !frame.isConstructor()) ?? frames[0];
    if (first) places.set(this, locate(first));
    return text;
  },
  set(value) {
    keep(this, value);
  },
  configurable: true,
});

module.exports = { describeFile, placeOf };
