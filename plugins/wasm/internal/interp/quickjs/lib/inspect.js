"use strict";
// util.inspect: values as text, the way node prints them.

const types = require("types");
const { errorText } = require("inspect_error");
const { inspectCollection } = require("inspect_entries");
const { quoted, formatKey, formatNumber, lineUp, styles, styleColors, plainLength } = require("inspect_text");

const custom = Symbol.for("nodejs.util.inspect.custom");

const defaults = {
  showHidden: false,
  depth: 2,
  colors: false,
  customInspect: true,
  showProxy: false,
  maxArrayLength: 100,
  maxStringLength: 10000,
  breakLength: 80,
  compact: 3,
  sorted: false,
  getters: false,
  numericSeparator: false,
};

/** One call of inspect: options, and where in the value it is. */
class Inspection {
  constructor(options) {
    Object.assign(this, inspect.defaultOptions, options);
    if (this.maxArrayLength === null) this.maxArrayLength = Infinity;
    if (this.maxStringLength === null) this.maxStringLength = Infinity;
    if (this.depth === null) this.depth = Infinity;
    this.seen = []; // objects that contain the current one
    this.circular = new Map(); // numbers of the objects that contain themselves
    this.indentation = 0;
    this.level = 0; // of the object formatted last
  }

  style(text, name) {
    if (!this.colors) return text;
    const color = styleColors[styles[name]];
    return color ? `\x1b[${color[0]}m${text}\x1b[${color[1]}m` : text;
  }

  /** Formats a value that is `level` objects deep. */
  value(value, level) {
    if (value === null) return this.style("null", "null");
    if (typeof value !== "object" && typeof value !== "function") {
      return this.primitive(value);
    }
    if (this.customInspect) {
      const text = this.custom(value, level);
      if (text !== undefined) return text;
    }
    if (this.seen.includes(value)) {
      if (!this.circular.has(value)) this.circular.set(value, this.circular.size + 1);
      return this.style(`[Circular *${this.circular.get(value)}]`, "special");
    }
    return this.object(value, level);
  }

  custom(value, level) {
    const f = value[custom];
    if (typeof f !== "function" || f === inspect) return undefined;
    if (value.constructor?.prototype === value) return undefined; // a prototype itself
    const options = { ...this, depth: this.depth - level, stylize: (t, s) => this.style(t, s) };
    for (const own of ["seen", "circular", "indentation", "level"]) delete options[own];
    const result = f.call(value, options.depth, options, inspect);
    if (result === value) return undefined;
    if (typeof result === "object" || typeof result !== "string") return this.value(result, level);
    return result.replaceAll("\n", `\n${" ".repeat(this.indentation)}`);
  }

  primitive(value) {
    switch (typeof value) {
      case "string":
        return this.string(value);
      case "number":
        return this.style(formatNumber(value, this.numericSeparator), "number");
      case "bigint":
        return this.style(`${formatNumber(value, this.numericSeparator)}n`, "bigint");
      case "symbol":
        return this.style(value.toString(), "symbol");
      default:
        return this.style(String(value), typeof value);
    }
  }

  string(value) {
    let rest = "";
    if (value.length > this.maxStringLength) {
      const more = value.length - this.maxStringLength;
      value = value.slice(0, this.maxStringLength);
      rest = `... ${more} more character${more > 1 ? "s" : ""}`;
    }
    const room = this.breakLength - this.indentation - 4;
    if (this.compact !== true && value.length > 16 && value.length > room) {
      const lines = value.split(/(?<=\n)/).map((line) => this.style(quoted(line), "string"));
      return lines.join(` +\n${" ".repeat(this.indentation + 2)}`) + rest;
    }
    return this.style(quoted(value), "string") + rest;
  }

  object(value, level) {
    const keys = this.keysOf(value);
    const shape = describe(this, value, keys);
    if (shape.text !== undefined) {
      if (keys.length === 0) return this.style(shape.text, shape.style);
      shape.base = shape.text;
    } else if (keys.length === 0 && shape.empty) {
      return `${shape.open}${shape.close}`;
    }
    if (level > this.depth) {
      return this.style(`[${shape.name}]`, "special");
    }
    this.seen.push(value);
    this.level = level;
    let output;
    try {
      output = shape.entries ? shape.entries(level) : [];
      for (const key of keys) output.push(this.property(value, key, level));
    } finally {
      this.seen.pop();
    }
    if (this.circular.has(value)) {
      const mark = this.style(`<ref *${this.circular.get(value)}>`, "special");
      if (this.compact !== true) shape.base = shape.base ? `${mark} ${shape.base}` : mark;
      else shape.open = `${mark} ${shape.open}`;
    }
    if (this.sorted) {
      const fixed = shape.list ? output.length - keys.length : 0;
      const order = this.sorted === true ? undefined : this.sorted;
      output.splice(fixed, Infinity, ...output.slice(fixed).sort(order));
    }
    return this.join(output, shape, level, value);
  }

  keysOf(value) {
    let keys;
    try {
      keys = this.showHidden ? Object.getOwnPropertyNames(value) : Object.keys(value);
    } catch {
      keys = Object.getOwnPropertyNames(value); // a module with uninitialised exports
    }
    if (Array.isArray(value) || types.isTypedArray(value) || types.isStringObject(value)) {
      keys = keys.filter((key) => !isIndex(key));
      if (this.showHidden && types.isStringObject(value)) keys = keys.filter((k) => k !== "length");
    }
    if (types.isNativeError(value) && this.showHidden) keys = keys.filter((key) => key !== "stack");
    for (const symbol of Object.getOwnPropertySymbols(value)) {
      if (this.showHidden || Object.prototype.propertyIsEnumerable.call(value, symbol)) {
        keys.push(symbol);
      }
    }
    return keys;
  }

  property(object, key, level) {
    const d = Object.getOwnPropertyDescriptor(object, key) ?? { value: object[key], enumerable: true };
    let text;
    if ("value" in d) {
      this.indentation += 2;
      text = this.value(d.value, level + 1);
      this.indentation -= 2;
    } else {
      text = this.accessor(object, key, d, level);
    }
    const name = formatKey(key, this);
    return `${d.enumerable === false ? `[${name.replace(/^'|'$/g, "")}]` : name}: ${text}`;
  }

  accessor(object, key, { get, set }, level) {
    const label = get ? (set ? "Getter/Setter" : "Getter") : set ? "Setter" : "undefined";
    if (label === "undefined") return this.style("undefined", "undefined");
    const wanted =
      get && (this.getters === true || (this.getters === "get" && !set) || (this.getters === "set" && set));
    if (!wanted) return this.style(`[${label}]`, "special");
    try {
      const result = get.call(object);
      this.indentation += 2;
      const text = this.value(result, level + 1);
      this.indentation -= 2;
      if (result === null || typeof result !== "object")
        return `${this.style(`[${label}:`, "special")} ${text}${this.style("]", "special")}`;
      return `${this.style(`[${label}]`, "special")} ${text}`;
    } catch (err) {
      return this.style(`[${label}: <Inspection threw (${err.message})>]`, "special");
    }
  }

  /** Puts entries on one line if they fit, in columns, or one below the other. */
  join(output, shape, level, value) {
    const base = shape.base ? `${shape.base} ` : "";
    const pad = " ".repeat(this.indentation);
    if (this.compact === true) {
      const start = output.length + shape.open.length + (shape.base ?? "").length + 10;
      if (this.fits(output, start, shape.base)) {
        return `${shape.open}${base ? ` ${base}` : ""} ${output.join(", ")} ${shape.close}`;
      }
      return `${base}${shape.open} ${output.join(`,\n${pad}  `)} ${shape.close}`;
    }
    const compact = this.compact === false ? 0 : this.compact;
    if (compact >= 1) {
      const count = output.length;
      if (shape.list && count > 6) output = lineUp(output, this, shape, value);
      if (this.level - level < compact && count === output.length) {
        const start = output.length + this.indentation + shape.open.length + (shape.base ?? "").length + 10;
        if (this.fits(output, start, shape.base)) {
          const line = output.join(", ");
          if (!line.includes("\n")) return `${base}${shape.open} ${line} ${shape.close}`;
        }
      }
    }
    return `${base}${shape.open}\n${pad}  ${output.join(`,\n${pad}  `)}\n${pad}${shape.close}`;
  }

  fits(output, start, base) {
    let length = output.length + start;
    if (length + output.length > this.breakLength) return false;
    for (const entry of output) {
      length += this.colors ? plainLength(entry) : entry.length;
      if (length > this.breakLength) return false;
    }
    return !base?.includes("\n");
  }
}

function isIndex(key) {
  return /^(0|[1-9][0-9]{0,9})$/.test(key) && Number(key) < 2 ** 32 - 1;
}

/** Finds the name of the class that made an object; null if there is none. */
function classOf(value) {
  for (let o = value; o !== null; o = Object.getPrototypeOf(o)) {
    const d = Object.getOwnPropertyDescriptor(o, "constructor");
    if (d && typeof d.value === "function" && d.value.name !== "" && value instanceof d.value) {
      return d.value.name;
    }
  }
  return null;
}

function safeClassOf(value) {
  try {
    return classOf(value);
  } catch {
    return null; // instanceof of a class with its own ideas
  }
}

function tagOf(value, className) {
  let tag;
  try {
    tag = value[Symbol.toStringTag];
    if (Object.prototype.propertyIsEnumerable.call(value, Symbol.toStringTag)) return ""; // shown anyway
  } catch {
    return "";
  }
  return typeof tag === "string" && tag !== "" && tag !== className ? tag : "";
}

/** Makes "Foo(2) [tag] ", the words before the brace. */
function prefix(className, tag, fallback, size) {
  const suffix = size === undefined ? "" : `(${size})`;
  if (className === null) {
    const inner = tag !== "" && tag !== fallback ? ` [${tag}]` : "";
    return `[${fallback}${suffix}: null prototype]${inner} `;
  }
  return tag === "" ? `${className}${suffix} ` : `${className}${suffix} [${tag}] `;
}

/**
 * Decides how an object is written: { open, close, name } and either text, for
 * objects that are one word, or entries, a function that formats the content.
 */
function describe(ctx, value, keys) {
  const className = safeClassOf(value);
  const tag = tagOf(value, className);
  const braces = (fallback, open, close, more) => {
    const words = prefix(className, tag, fallback);
    return { open: `${words}${open}`, close, name: words.trimEnd(), empty: true, ...more };
  };
  const word = (text, style) => ({
    open: "{",
    close: "}",
    name: prefix(className, tag, "Object").trimEnd(),
    text,
    style,
  });

  const collection = inspectCollection(
    ctx,
    value,
    (fallback, size) => prefix(className, tag, fallback, size),
    className,
    tag,
  );
  if (collection) return collection;
  if (typeof value === "function") return word(functionText(value, className, tag), "special");
  if (types.isNativeError(value) || value instanceof Error) {
    return word(errorText(ctx, value, className, tag, keys), undefined);
  }
  if (types.isArgumentsObject(value)) {
    return { open: "[Arguments] {", close: "}", name: "Arguments", empty: true };
  }
  if (types.isDate(value)) {
    const time = Number.isNaN(Date.prototype.getTime.call(value))
      ? "Invalid Date"
      : Date.prototype.toISOString.call(value);
    const words = prefix(className, tag, "Date");
    return word(words === "Date " ? time : `${words}${time}`, "date");
  }
  if (types.isRegExp(value)) {
    const words = prefix(className, tag, "RegExp");
    const text = RegExp.prototype.toString.call(value);
    return word(words === "RegExp " ? text : `${words}${text}`, "regexp");
  }
  if (types.isBoxedPrimitive(value)) return word(boxedText(ctx, value, className, tag), "special");
  if (types.isModuleNamespaceObject(value)) {
    return { open: "[Module: null prototype] {", close: "}", name: "Module", empty: true };
  }
  if (className === "Object" && tag === "") {
    return { open: "{", close: "}", name: "Object", empty: true };
  }
  return braces("Object", "{", "}");
}

function functionText(value, className, tag) {
  const source = Function.prototype.toString.call(value);
  if (/^class\b/.test(source) && source.endsWith("}")) {
    const name = Object.hasOwn(value, "name") && value.name ? value.name : "(anonymous)";
    let text = `[class ${name}`;
    if (className !== "Function" && className !== null) text += ` [${className}]`;
    const parent = Object.getPrototypeOf(value);
    if (parent?.name) text += ` extends ${parent.name}`;
    else if (parent === null) text += " extends null";
    return `${text}]`;
  }
  const kind = `${types.isAsyncFunction(value) ? "Async" : ""}${types.isGeneratorFunction(value) ? generatorKind(value) : ""}Function`;
  let text = `[${kind}${className === null ? " (null prototype)" : ""}`;
  text += value.name ? `: ${String(value.name)}]` : " (anonymous)]";
  if (className !== kind && className !== "Function" && className !== null) text += ` ${className}`;
  if (tag !== "" && tag !== kind) text += ` [${tag}]`;
  return text;
}

function generatorKind(value) {
  return value[Symbol.toStringTag] === "AsyncGeneratorFunction" ? "AsyncGenerator" : "Generator";
}

function boxedText(ctx, value, className, tag) {
  const inner = value.valueOf.call(value);
  const kind = types.isNumberObject(value)
    ? "Number"
    : types.isStringObject(value)
      ? "String"
      : types.isBooleanObject(value)
        ? "Boolean"
        : types.isBigIntObject(value)
          ? "BigInt"
          : "Symbol";
  let text = `[${kind}`;
  if (className !== kind) text += className === null ? " (null prototype)" : ` (${className})`;
  const plain = new Inspection({ ...ctx, colors: false });
  text += `: ${plain.primitive(inner)}]`;
  if (tag !== "" && tag !== className) text += ` [${tag}]`;
  return text;
}

/** util.inspect(value, options) or the older inspect(value, hidden, depth, colors). */
function inspect(value, options, depth, colors) {
  if (typeof options === "boolean") options = { showHidden: options };
  options = { ...options };
  if (depth !== undefined) options.depth = depth;
  if (colors !== undefined) options.colors = colors;
  return new Inspection(options).value(value, 0);
}

inspect.custom = custom;
inspect.defaultOptions = defaults;
inspect.styles = styles;
inspect.colors = styleColors;

module.exports = { inspect };
