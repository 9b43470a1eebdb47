"use strict";
// structuredClone.

const types = require("types");

function refuse(value) {
  const text =
    typeof value === "symbol" ? value.toString() : typeof value === "function" ? String(value) : "#<Object>";
  throw new DOMException(`${text} could not be cloned.`, "DataCloneError");
}

const errorTypes = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

class Cloner {
  constructor(transfer) {
    this.seen = new Map();
    this.transfer = new Set(transfer);
  }

  clone(value) {
    if (typeof value === "symbol" || typeof value === "function") refuse(value);
    if (typeof value !== "object" || value === null) return value;
    if (this.seen.has(value)) return this.seen.get(value);
    return this.object(value);
  }

  keep(value, copy) {
    this.seen.set(value, copy);
    return copy;
  }

  object(value) {
    if (Array.isArray(value)) return this.properties(value, this.keep(value, new Array(value.length)));
    if (types.isDate(value)) return this.keep(value, new Date(value.getTime()));
    if (types.isRegExp(value)) return this.keep(value, new RegExp(value.source, value.flags));
    if (types.isBoxedPrimitive(value)) {
      if (types.isSymbolObject(value)) refuse(value);
      return this.keep(value, Object(value.valueOf()));
    }
    if (types.isMap(value)) {
      const copy = this.keep(value, new Map());
      for (const [k, v] of [...value]) copy.set(this.clone(k), this.clone(v));
      return copy;
    }
    if (types.isSet(value)) {
      const copy = this.keep(value, new Set());
      for (const v of [...value]) copy.add(this.clone(v));
      return copy;
    }
    if (types.isAnyArrayBuffer(value)) {
      return this.keep(value, this.transfer.has(value) ? value.transfer() : value.slice(0));
    }
    if (ArrayBuffer.isView(value)) return this.view(value);
    if (types.isNativeError(value)) return this.error(value);
    if (
      types.isPromise(value) ||
      types.isWeakMap(value) ||
      types.isWeakSet(value) ||
      types.isWeakRef(value)
    ) {
      throw new DOMException(`#<${value.constructor?.name}> could not be cloned.`, "DataCloneError");
    }
    return this.properties(value, this.keep(value, {}));
  }

  view(value) {
    const { byteOffset, length, byteLength } = value;
    const buffer = this.clone(value.buffer);
    if (types.isDataView(value)) return this.keep(value, new DataView(buffer, byteOffset, byteLength));
    // A subclass, such as Buffer, does not survive.
    const Class = globalThis[Object.prototype.toString.call(value).slice(8, -1)];
    return this.keep(value, new Class(buffer, byteOffset, length));
  }

  error(value) {
    const Class = errorTypes[value.name] ?? Error;
    const copy = this.keep(value, new Class(value.message));
    copy.stack = value.stack;
    if (Object.hasOwn(value, "cause")) {
      Object.defineProperty(copy, "cause", {
        value: this.clone(value.cause),
        writable: true,
        configurable: true,
      });
    }
    return copy;
  }

  properties(value, copy) {
    for (const key of Object.keys(value)) copy[key] = this.clone(value[key]);
    return copy;
  }
}

function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError('The "value" argument must be specified');
  return new Cloner(options?.transfer ?? []).clone(value);
}

module.exports = { structuredClone };
