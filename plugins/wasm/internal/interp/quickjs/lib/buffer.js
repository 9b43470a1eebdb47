"use strict";
// Buffer: making and converting bytes. Numbers in buffers are in
// buffer_numbers.js.

const { checkInteger, codedError, invalidArgType, invalidArgValue, outOfRange } = require("errors");
const { bytesOf } = require("encoding");
const { decodeText, encodeText, encodingOf, textLength } = require("buffer_text");
const { define, methods } = require("objects");
const { inspect } = require("inspect");
const { numberMethods } = require("buffer_numbers");
const types = require("types");

const maxLength = 2 ** 31 - 1; // what the engine can hold

class FastBuffer extends Uint8Array {}

function Buffer(value, encodingOrOffset, length) {
  if (typeof value === "number") return Buffer.alloc(value);
  return Buffer.from(value, encodingOrOffset, length);
}
Buffer.prototype = FastBuffer.prototype;
define(Buffer.prototype, "constructor", Buffer);
Object.setPrototypeOf(Buffer, Uint8Array);
Object.defineProperty(Buffer, Symbol.species, { get: () => FastBuffer });

/** Gives bytes the methods of a Buffer, without a copy. */
function wrap(bytes) {
  return Object.setPrototypeOf(bytes, Buffer.prototype);
}

function checkSize(size) {
  if (typeof size !== "number") throw invalidArgType("size", "of type number", size);
  if (!(size >= 0 && size <= maxLength)) throw outOfRange("size", `>= 0 && <= ${maxLength}`, size);
}

function checkEncoding(encoding) {
  const name = encodingOf(encoding);
  if (name === undefined)
    throw codedError(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
  return name;
}

function fromObject(value) {
  if (value.length !== undefined || types.isAnyArrayBuffer(value.buffer)) {
    if (typeof value.length !== "number") return new FastBuffer(0);
    return wrap(Uint8Array.from(value));
  }
  if (value.type === "Buffer" && Array.isArray(value.data)) return wrap(Uint8Array.from(value.data));
  return undefined;
}

Object.assign(Buffer, {
  poolSize: 8192,

  from(value, encodingOrOffset, length) {
    if (typeof value === "string") return wrap(encodeText(value, checkEncoding(encodingOrOffset ?? "utf8")));
    if (typeof value === "object" && value !== null) {
      if (types.isAnyArrayBuffer(value)) return new FastBuffer(value, encodingOrOffset, length);
      if (ArrayBuffer.isView(value) && !types.isDataView(value)) return wrap(Uint8Array.from(value));
      const primitive = value.valueOf?.();
      if (primitive != null && primitive !== value && ["string", "object"].includes(typeof primitive)) {
        return Buffer.from(primitive, encodingOrOffset, length);
      }
      const made = fromObject(value);
      if (made) return made;
      if (typeof value[Symbol.toPrimitive] === "function") {
        const text = value[Symbol.toPrimitive]("string");
        if (typeof text === "string") return Buffer.from(text, encodingOrOffset);
      }
    }
    throw invalidArgType(
      "first argument",
      "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object",
      value,
    );
  },

  alloc(size, fill, encoding) {
    checkSize(size);
    const buffer = new FastBuffer(size);
    if (fill !== undefined && fill !== 0 && size > 0) buffer.fill(fill, encoding);
    return buffer;
  },

  allocUnsafe(size) {
    checkSize(size);
    return new FastBuffer(size);
  },

  allocUnsafeSlow: (size) => Buffer.allocUnsafe(size),

  concat(list, length) {
    if (!Array.isArray(list)) throw invalidArgType("list", "an instance of Array", list);
    list.forEach((item, i) => {
      if (!types.isUint8Array(item))
        throw invalidArgType(`list[${i}]`, "an instance of Buffer or Uint8Array", item);
    });
    length ??= list.reduce((sum, item) => sum + item.length, 0);
    const out = Buffer.alloc(length);
    let at = 0;
    for (const item of list) {
      if (at + item.length > length) {
        out.set(item.subarray(0, length - at), at);
        break;
      }
      out.set(item, at);
      at += item.length;
    }
    return out;
  },

  byteLength(value, encoding) {
    if (typeof value === "string") return textLength(value, encodingOf(encoding) ?? "utf8");
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return value.byteLength;
    throw invalidArgType("string", "of type string or an instance of Buffer or ArrayBuffer", value);
  },

  compare(a, b) {
    if (!types.isUint8Array(a)) throw invalidArgType("buf1", "an instance of Buffer or Uint8Array", a);
    if (!types.isUint8Array(b)) throw invalidArgType("buf2", "an instance of Buffer or Uint8Array", b);
    const n = Math.min(a.length, b.length);
    for (let i = 0; i < n; i++) {
      if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    }
    return Math.sign(a.length - b.length);
  },

  isBuffer: (value) => value instanceof Buffer,
  isEncoding: (name) => typeof name === "string" && name !== "" && encodingOf(name) !== undefined,
  copyBytesFrom(view, offset = 0, length = view.length - offset) {
    return wrap(bytesOf(view.slice(offset, offset + length), "view").slice());
  },
});

function position(value, fallback, length) {
  if (value === undefined) return fallback;
  value = Math.trunc(Number(value)) || 0;
  if (value < 0) value = Math.max(0, value + length);
  return Math.min(value, length);
}

/** What indexOf and its kin look for: a byte or bytes. */
function needle(value, encoding) {
  if (typeof value === "number") return Uint8Array.of(value);
  if (typeof value === "string") return encodeText(value, checkEncoding(encoding ?? "utf8"));
  if (types.isUint8Array(value)) return value;
  throw invalidArgType("value", "one of type number or string or an instance of Buffer or Uint8Array", value);
}

function search(buffer, value, from, encoding, last) {
  if (typeof from === "string") {
    encoding = from;
    from = undefined;
  }
  from = Number(from);
  if (Number.isNaN(from)) from = last ? buffer.length : 0;
  if (from < 0) from += buffer.length;
  if (from < 0) {
    if (last) return -1;
    from = 0;
  }
  const wanted = needle(value, encoding);
  if (wanted.length === 0) return Math.min(from, buffer.length);
  return host.indexOf(buffer, wanted, Math.trunc(from), last);
}

methods(Buffer.prototype, {
  toString(encoding, start, end) {
    const name = checkEncoding(encoding ?? "utf8");
    start = start === undefined ? 0 : Math.max(0, Math.trunc(start) || 0);
    end = end === undefined ? this.length : Math.min(this.length, Math.trunc(end) || 0);
    if (start >= end) return "";
    return decodeText(this.subarray(start, end), name);
  },

  toLocaleString(encoding, start, end) {
    return this.toString(encoding, start, end);
  },

  toJSON() {
    return { type: "Buffer", data: Array.from(this) };
  },

  equals(other) {
    if (!types.isUint8Array(other))
      throw invalidArgType("otherBuffer", "an instance of Buffer or Uint8Array", other);
    return this.length === other.length && Buffer.compare(this, other) === 0;
  },

  compare(target, targetStart = 0, targetEnd = target?.length, start = 0, end = this.length) {
    if (!types.isUint8Array(target))
      throw invalidArgType("target", "an instance of Buffer or Uint8Array", target);
    return Buffer.compare(this.subarray(start, end), target.subarray(targetStart, targetEnd));
  },

  copy(target, targetStart = 0, start = 0, end = this.length) {
    if (!types.isUint8Array(target))
      throw invalidArgType("target", "an instance of Buffer or Uint8Array", target);
    checkInteger(start, "sourceStart", 0);
    const part = this.subarray(start, Math.max(start, end)).subarray(
      0,
      Math.max(0, target.length - targetStart),
    );
    target.set(part, targetStart);
    return part.length;
  },

  slice(start, end) {
    const from = position(start, 0, this.length);
    const to = position(end, this.length, this.length);
    return new FastBuffer(this.buffer, this.byteOffset + from, Math.max(0, to - from));
  },

  subarray(start, end) {
    return this.slice(start, end);
  },

  write(text, offset, length, encoding) {
    if (typeof text !== "string") throw invalidArgType("argument", "of type string", text);
    if (typeof offset === "string") [offset, length, encoding] = [0, undefined, offset];
    else if (typeof length === "string") [length, encoding] = [undefined, length];
    offset ??= 0;
    checkInteger(offset, "offset", 0, this.length);
    const room = Math.min(length ?? Infinity, this.length - offset);
    const name = checkEncoding(encoding ?? "utf8");
    let bytes = encodeText(text, name);
    if (bytes.length > room) {
      bytes = bytes.subarray(0, room);
      // Never half a character.
      if (name === "utf8") bytes = bytes.subarray(0, room - require("encoding").unfinishedUTF8(bytes));
      if (name === "utf16le") bytes = bytes.subarray(0, room - (room % 2));
    }
    this.set(bytes, offset);
    return bytes.length;
  },

  fill(value, offset, end, encoding) {
    if (typeof offset === "string") [offset, encoding] = [undefined, offset];
    else if (typeof end === "string") [end, encoding] = [undefined, end];
    const from = offset ?? 0;
    const to = end ?? this.length;
    checkInteger(from, "offset", 0, this.length);
    checkInteger(to, "end", 0, this.length);
    if (typeof value === "number" || typeof value === "boolean") {
      return Uint8Array.prototype.fill.call(this, Number(value), from, to);
    }
    const pattern = typeof value === "string" && value === "" ? Uint8Array.of(0) : needle(value, encoding);
    if (pattern.length === 0) throw invalidArgValue("value", value);
    this.set(pattern.subarray(0, to - from), from);
    for (let done = pattern.length; done < to - from; done *= 2) {
      this.copyWithin(from + done, from, Math.min(from + done, to - done));
    }
    return this;
  },

  indexOf(value, from, encoding) {
    return search(this, value, from, encoding, false);
  },

  lastIndexOf(value, from, encoding) {
    return search(this, value, from, encoding, true);
  },

  includes(value, from, encoding) {
    return search(this, value, from, encoding, false) >= 0;
  },

  swap16() {
    return swap(this, 2);
  },

  swap32() {
    return swap(this, 4);
  },

  swap64() {
    return swap(this, 8);
  },

  [inspect.custom](depth, ctx) {
    const shown = Math.min(50, this.length);
    let text = Array.from(this.subarray(0, shown), (b) => b.toString(16).padStart(2, "0")).join(" ");
    const rest = this.length - shown;
    if (rest > 0) text += ` ... ${rest} more byte${rest > 1 ? "s" : ""}`;
    const extra = Object.keys(this).filter((key) => !/^\d+$/.test(key));
    if (extra.length > 0) {
      const own = Object.fromEntries(extra.map((key) => [key, this[key]]));
      text += `${text ? ", " : ""}${inspect(own, { ...ctx, breakLength: Infinity, compact: true }).slice(2, -2)}`;
    }
    return `<Buffer ${text}>`;
  },

  get parent() {
    return this.buffer;
  },

  get offset() {
    return this.byteOffset;
  },

  ...numberMethods,
});

function swap(buffer, size) {
  if (buffer.length % size !== 0) {
    throw codedError(
      RangeError,
      "ERR_INVALID_BUFFER_SIZE",
      `Buffer size must be a multiple of ${size * 8}-bits`,
    );
  }
  for (let i = 0; i < buffer.length; i += size) buffer.subarray(i, i + size).reverse();
  return buffer;
}

module.exports = {
  Buffer,
  SlowBuffer: Buffer,
  INSPECT_MAX_BYTES: 50,
  atob: globalThis.atob,
  btoa: globalThis.btoa,
  constants: { MAX_LENGTH: maxLength, MAX_STRING_LENGTH: 2 ** 30 - 1 },
  isAscii: (input) => bytesOf(input).every((b) => b < 0x80),
  isUtf8(input) {
    try {
      host.utf8Decode(bytesOf(input), true);
      return true;
    } catch {
      return false;
    }
  },
  kMaxLength: maxLength,
  kStringMaxLength: 2 ** 30 - 1,
  transcode: (source, from, to) => Buffer.from(decodeText(source, checkEncoding(from)), to),
  wrap,
};
