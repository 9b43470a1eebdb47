"use strict";
// util.format: the directives of console.log and the joining of the rest.

const { inspect } = require("inspect");
const { formatNumber } = require("inspect_text");

function hasOwnToString(value) {
  // Whether the program, not the language, says how the object reads.
  for (let o = value; o !== null; o = Object.getPrototypeOf(o)) {
    if (Object.hasOwn(o, "toString")) {
      const { constructor } = o;
      const builtin =
        typeof constructor === "function" && isNative(constructor) && o === constructor.prototype;
      return !builtin;
    }
  }
  return false;
}

function isNative(f) {
  return Function.prototype.toString.call(f).endsWith("[native code]\n}");
}

function asString(value, options) {
  if (typeof value === "string") return value;
  if (typeof value === "number") return formatNumber(value, false);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return String(value);
  if (value instanceof Error || hasOwnToString(value)) {
    return String(value);
  }
  return inspect(value, { ...options, depth: 0, colors: false, compact: 3 });
}

function asNumber(value, convert) {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "symbol") return "NaN";
  return formatNumber(convert(value), false);
}

function asJSON(value) {
  try {
    return JSON.stringify(value);
  } catch (err) {
    if (/circular/i.test(err.message)) return "[Circular]";
    throw err;
  }
}

function directive(letter, value, options) {
  switch (letter) {
    case "s":
      return asString(value, options);
    case "d":
      return typeof value === "object" ? formatNumber(Number(value), false) : asNumber(value, Number);
    case "i":
      return typeof value === "object"
        ? formatNumber(parseInt(value, 10), false)
        : asNumber(value, (v) => parseInt(v, 10));
    case "f":
      return typeof value === "symbol" ? "NaN" : formatNumber(parseFloat(value), false);
    case "j":
      return asJSON(value);
    case "o":
      return inspect(value, { ...options, showHidden: true, showProxy: true, depth: 4 });
    case "O":
      return inspect(value, options);
    case "c":
      return "";
    default:
      return undefined;
  }
}

/** util.formatWithOptions(options, ...args). */
function formatWithOptions(options, ...args) {
  if (args.length === 1 && typeof args[0] === "string") return args[0];
  let text = "";
  let next = 0;
  if (typeof args[0] === "string" && args.length > 1) {
    next = 1;
    text = args[0].replace(/%([sdifjoOc%])/g, (whole, letter) => {
      if (letter === "%") return "%";
      if (next >= args.length) return whole;
      return directive(letter, args[next++], options);
    });
    if (next < args.length) text += " ";
  }
  return (
    text +
    args
      .slice(next)
      .map((value) => (typeof value === "string" ? value : inspect(value, options)))
      .join(" ")
  );
}

function format(...args) {
  return formatWithOptions({}, ...args);
}

module.exports = { format, formatWithOptions };
