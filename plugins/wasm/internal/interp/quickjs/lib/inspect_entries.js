"use strict";
// How inspect writes what collections contain.

const types = require("types");

function more(count) {
  return `... ${count} more item${count > 1 ? "s" : ""}`;
}

function indented(ctx, f) {
  ctx.indentation += 2;
  const result = f();
  ctx.indentation -= 2;
  return result;
}

const isNumeric = (v) => typeof v === "number" || typeof v === "bigint";

function arrayEntries(ctx, value, shape, level) {
  const output = [];
  const length = value.length;
  let i = 0;
  for (; i < length && output.length < ctx.maxArrayLength; i++) {
    if (Object.hasOwn(value, i)) {
      const at = i;
      output.push(element(ctx, value, at, level));
      continue;
    }
    let end = i + 1;
    if (length - i > 1000) end = nextIndex(value, i);
    else while (end < length && !Object.hasOwn(value, end)) end++;
    const holes = end - i;
    output.push(ctx.style(`<${holes} empty item${holes > 1 ? "s" : ""}>`, "undefined"));
    i = end - 1;
  }
  if (i < length) {
    shape.more = true;
    output.push(more(length - i));
  }
  return output;
}

/** Finds the next index in use without trying all of a huge sparse array. */
function nextIndex(value, i) {
  for (const key of Object.keys(value)) {
    const index = Number(key);
    if (!(index < 2 ** 32 - 1)) break;
    if (index > i) return index;
  }
  return value.length;
}

function element(ctx, value, i, level) {
  const d = Object.getOwnPropertyDescriptor(value, i);
  return indented(ctx, () =>
    "value" in d ? ctx.value(d.value, level + 1) : ctx.accessor(value, i, d, level),
  );
}

function arrayShape(ctx, value, prefix, className, tag) {
  const plain = className === "Array" && tag === "";
  const words = plain ? "" : prefix("Array", value.length);
  const shape = {
    open: `${words}[`,
    close: "]",
    name: plain ? "Array" : prefix("Array").trimEnd(),
    empty: value.length === 0,
    list: true,
    numeric: (list) => list.every(isNumeric),
  };
  shape.entries = (level) => arrayEntries(ctx, value, shape, level);
  return shape;
}

function typedArrayShape(ctx, value, prefix) {
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  const shape = {
    open: `${prefix(kind, value.length)}[`,
    close: "]",
    name: prefix(kind).trimEnd(),
    empty: value.length === 0,
    list: true,
    numeric: () => true,
  };
  shape.entries = (level) => {
    const shown = Math.min(value.length, ctx.maxArrayLength);
    const output = Array.from({ length: shown }, (_, i) => ctx.primitive(value[i]));
    if (shown < value.length) {
      shape.more = true;
      output.push(more(value.length - shown));
    }
    if (ctx.showHidden) {
      for (const key of ["BYTES_PER_ELEMENT", "length", "byteLength", "byteOffset", "buffer"]) {
        output.push(`[${key}]: ${indented(ctx, () => ctx.value(value[key], level + 1))}`);
      }
    }
    return output;
  };
  return shape;
}

function limited(ctx, iterator, size, format) {
  const output = [];
  for (const item of iterator) {
    if (output.length >= ctx.maxArrayLength) {
      output.push(more(size - output.length));
      break;
    }
    output.push(indented(ctx, () => format(item)));
  }
  return output;
}

function setShape(ctx, value, prefix) {
  const size = setSize.call(value);
  return {
    open: `${prefix("Set", size)}{`,
    close: "}",
    name: prefix("Set").trimEnd(),
    empty: size === 0,
    entries: (level) => limited(ctx, Set.prototype.values.call(value), size, (v) => ctx.value(v, level + 1)),
  };
}

function mapShape(ctx, value, prefix) {
  const size = mapSize.call(value);
  return {
    open: `${prefix("Map", size)}{`,
    close: "}",
    name: prefix("Map").trimEnd(),
    empty: size === 0,
    entries: (level) =>
      limited(
        ctx,
        Map.prototype.entries.call(value),
        size,
        ([k, v]) => `${ctx.value(k, level + 1)} => ${ctx.value(v, level + 1)}`,
      ),
  };
}

const setSize = Object.getOwnPropertyDescriptor(Set.prototype, "size").get;
const mapSize = Object.getOwnPropertyDescriptor(Map.prototype, "size").get;

function bufferShape(ctx, value, prefix) {
  const kind = types.isArrayBuffer(value) ? "ArrayBuffer" : "SharedArrayBuffer";
  return {
    open: `${prefix(kind)}{`,
    close: "}",
    name: prefix(kind).trimEnd(),
    entries: () => {
      const shown = new Uint8Array(value).subarray(0, Math.min(50, ctx.maxArrayLength));
      let text = Array.from(shown, (b) => b.toString(16).padStart(2, "0")).join(" ");
      const rest = value.byteLength - shown.length;
      if (rest > 0) text += ` ... ${rest} more byte${rest > 1 ? "s" : ""}`;
      return [`[Uint8Contents]: <${text}>`, `byteLength: ${ctx.primitive(value.byteLength)}`];
    },
  };
}

function propertiesShape(ctx, value, prefix, fallback, names) {
  return {
    open: `${prefix(fallback)}{`,
    close: "}",
    name: prefix(fallback).trimEnd(),
    entries: (level) =>
      names.map((name) => `${name}: ${indented(ctx, () => ctx.value(value[name], level + 1))}`),
  };
}

function promiseShape(ctx, value, prefix) {
  return {
    open: `${prefix("Promise")}{`,
    close: "}",
    name: prefix("Promise").trimEnd(),
    entries: (level) => {
      const [state, result] = host.promise(value);
      if (state === 0) return [ctx.style("<pending>", "special")];
      const text = indented(ctx, () => ctx.value(result, level + 1));
      return [state === 2 ? `${ctx.style("<rejected>", "special")} ${text}` : text];
    },
  };
}

function unknownShape(ctx, prefix, fallback) {
  return {
    open: `${prefix(fallback)}{`,
    close: "}",
    name: prefix(fallback).trimEnd(),
    entries: () => [ctx.style("<items unknown>", "special")],
  };
}

/** Returns the shape of a collection, undefined for other objects. */
function inspectCollection(ctx, value, prefix, className, tag) {
  if (Array.isArray(value)) return arrayShape(ctx, value, prefix, className, tag);
  if (types.isTypedArray(value)) return typedArrayShape(ctx, value, prefix);
  if (types.isSet(value)) return setShape(ctx, value, prefix);
  if (types.isMap(value)) return mapShape(ctx, value, prefix);
  if (types.isAnyArrayBuffer(value)) return bufferShape(ctx, value, prefix);
  if (types.isDataView(value)) {
    return propertiesShape(ctx, value, prefix, "DataView", ["byteLength", "byteOffset", "buffer"]);
  }
  if (types.isPromise(value)) return promiseShape(ctx, value, prefix);
  if (types.isWeakSet(value)) return unknownShape(ctx, prefix, "WeakSet");
  if (types.isWeakMap(value)) return unknownShape(ctx, prefix, "WeakMap");
  return undefined;
}

module.exports = { inspectCollection };
