"use strict";
// The module buffer, as programs see it.

const { Buffer, wrap, ...exported } = require("buffer");
const { bytesOf } = require("encoding");

/** Bytes with a type, all in memory. */
class Blob {
  #bytes;
  #type;

  constructor(parts = [], { type = "" } = {}) {
    const pieces = Array.from(parts, (part) => {
      if (part instanceof Blob) return part.#bytes;
      if (ArrayBuffer.isView(part) || part instanceof ArrayBuffer) return bytesOf(part);
      return Buffer.from(String(part));
    });
    this.#bytes = Buffer.concat(pieces);
    this.#type = String(type).toLowerCase();
  }

  get size() {
    return this.#bytes.length;
  }

  get type() {
    return this.#type;
  }

  async arrayBuffer() {
    return Uint8Array.from(this.#bytes).buffer;
  }

  async bytes() {
    return Uint8Array.from(this.#bytes);
  }

  async text() {
    return this.#bytes.toString();
  }

  slice(start, end, type) {
    return new Blob([this.#bytes.subarray(start, end)], { type });
  }
}

class File extends Blob {
  constructor(parts, name, options) {
    super(parts, options);
    this.name = String(name);
    this.lastModified = options?.lastModified ?? Date.now();
  }
}

for (const Class of [Blob, File]) {
  Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}

module.exports = { Buffer, ...exported, Blob, File };
