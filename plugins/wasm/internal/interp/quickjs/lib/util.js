"use strict";
// The module util.

const { checkFunction, codedError, invalidArgType, systemErrors } = require("errors");
const { format, formatWithOptions } = require("format");
const { inspect } = require("inspect");
const { stripColors, styleColors } = require("inspect_text");
const { isDeepStrictEqual } = require("deep_equal");
const { TextDecoder, TextEncoder } = require("encoding");
const types = require("types");

const promisified = Symbol.for("nodejs.util.promisify.custom");

function promisify(original) {
  checkFunction(original, "original");
  if (original[promisified]) return original[promisified];
  function wrapper(...args) {
    return new Promise((resolve, reject) => {
      original.call(this, ...args, (err, ...values) => {
        if (err) reject(err);
        else resolve(values[0]);
      });
    });
  }
  Object.setPrototypeOf(wrapper, Object.getPrototypeOf(original));
  return Object.defineProperties(wrapper, Object.getOwnPropertyDescriptors(original));
}
promisify.custom = promisified;

function callbackify(original) {
  checkFunction(original, "original");
  return function (...args) {
    const callback = args.pop();
    checkFunction(callback, "last argument");
    original.apply(this, args).then(
      (value) => process.nextTick(callback, null, value),
      (reason) => {
        if (!reason) {
          const err = codedError(Error, "ERR_FALSY_VALUE_REJECTION", "Promise was rejected with falsy value");
          err.reason = reason;
          reason = err;
        }
        process.nextTick(callback, reason);
      },
    );
  };
}

function inherits(constructor, parent) {
  if (typeof constructor !== "function") throw invalidArgType("ctor", "of type function", constructor);
  if (typeof parent !== "function") throw invalidArgType("superCtor", "of type function", parent);
  Object.defineProperty(constructor, "super_", { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, parent.prototype);
}

const warned = new Set();

function deprecate(f, message, code) {
  let done = false;
  function deprecated(...args) {
    if (!done && !warned.has(code)) {
      done = true;
      if (code !== undefined) warned.add(code);
      process.emitWarning(message, "DeprecationWarning", code);
    }
    if (new.target) return Reflect.construct(f, args, new.target);
    return f.apply(this, args);
  }
  Object.setPrototypeOf(deprecated, f);
  if (f.prototype) deprecated.prototype = f.prototype;
  return deprecated;
}

function debuglog(section) {
  const names = (process.env.NODE_DEBUG ?? "").toLowerCase().split(",");
  const enabled = names.includes(section.toLowerCase());
  const log = (...args) => {
    if (enabled) process.stderr.write(`${section.toUpperCase()} ${process.pid}: ${format(...args)}\n`);
  };
  log.enabled = enabled;
  return log;
}

function styleText(names, text) {
  let out = text;
  for (const name of [names].flat().reverse()) {
    const color = styleColors[name];
    if (!color)
      throw codedError(
        TypeError,
        "ERR_INVALID_ARG_VALUE",
        `The argument 'format' must be one of: ${Object.keys(styleColors).join(", ")}. Received ${inspect(name)}`,
      );
    out = `\x1b[${color[0]}m${out}\x1b[${color[1]}m`;
  }
  return out;
}

const isType = (name) => (value) => typeof value === name;

module.exports = {
  TextDecoder,
  TextEncoder,
  callbackify,
  debug: debuglog,
  debuglog,
  deprecate,
  format,
  formatWithOptions,
  getSystemErrorName: (n) => Object.keys(systemErrors).find((code) => systemErrors[code][0] === -n),
  inherits,
  inspect,
  isArray: Array.isArray,
  isBoolean: isType("boolean"),
  isDate: types.isDate,
  isDeepStrictEqual,
  isError: (value) => value instanceof Error,
  isFunction: isType("function"),
  isNull: (value) => value === null,
  isNullOrUndefined: (value) => value == null,
  isNumber: isType("number"),
  isObject: (value) => value !== null && typeof value === "object",
  isPrimitive: (value) => value === null || (typeof value !== "object" && typeof value !== "function"),
  isRegExp: types.isRegExp,
  isString: isType("string"),
  isSymbol: isType("symbol"),
  isUndefined: (value) => value === undefined,
  parseArgs: (config) => require("parse_args").parseArgs(config),
  promisify,
  stripVTControlCharacters: stripColors,
  styleText,
  toUSVString: (text) => String(text).toWellFormed(),
  types,
};
