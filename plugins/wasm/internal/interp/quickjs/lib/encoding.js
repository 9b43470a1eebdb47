"use strict";
// TextEncoder and TextDecoder.

const { codedError, invalidArgType } = require("errors");
const types = require("types");

class TextEncoder {
  get encoding() {
    return "utf-8";
  }

  encode(text = "") {
    return host.utf8Encode(String(text));
  }

  encodeInto(text, target) {
    if (!types.isUint8Array(target)) throw invalidArgType("dest", "an instance of Uint8Array", target);
    let read = 0;
    let written = 0;
    for (const c of String(text)) {
      const bytes = host.utf8Encode(c);
      if (written + bytes.length > target.length) break;
      target.set(bytes, written);
      written += bytes.length;
      read += c.length;
    }
    return { read, written };
  }
}

const labels = {
  "utf-8": ["utf8", "utf-8", "unicode-1-1-utf-8"],
  "utf-16le": ["utf-16le", "utf-16", "utf16le", "ucs-2"],
  "windows-1252": ["latin1", "iso-8859-1", "ascii", "us-ascii", "windows-1252", "l1"],
};

/** The bytes of any buffer or view, without a copy. */
function bytesOf(input, name = "input") {
  if (types.isUint8Array(input)) return input;
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  if (types.isAnyArrayBuffer(input)) return new Uint8Array(input);
  throw invalidArgType(name, "an instance of ArrayBuffer or ArrayBufferView", input);
}

/** How many bytes at the end begin a sequence that is not complete. */
function unfinishedUTF8(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const b = bytes[bytes.length - back];
    if (b < 0x80) return 0;
    if (b >= 0xc0) {
      const need = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
      return need > back ? back : 0;
    }
  }
  return 0;
}

function decodeUTF16(bytes) {
  let text = "";
  const chunk = 8192;
  for (let i = 0; i + 1 < bytes.length; i += 2 * chunk) {
    const units = [];
    for (let j = i; j + 1 < bytes.length && j < i + 2 * chunk; j += 2)
      units.push(bytes[j] | (bytes[j + 1] << 8));
    text += String.fromCharCode(...units);
  }
  return text;
}

class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #rest = new Uint8Array(0);
  #started = false;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    const wanted = String(label).trim().toLowerCase();
    this.#encoding = Object.keys(labels).find((name) => labels[name].includes(wanted));
    if (!this.#encoding) {
      throw codedError(RangeError, "ERR_ENCODING_NOT_SUPPORTED", `The "${label}" encoding is not supported`);
    }
    this.#fatal = Boolean(fatal);
    this.#ignoreBOM = Boolean(ignoreBOM);
  }

  get encoding() {
    return this.#encoding;
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBOM;
  }

  decode(input = new Uint8Array(0), { stream = false } = {}) {
    let bytes = bytesOf(input);
    if (this.#rest.length > 0) {
      const joined = new Uint8Array(this.#rest.length + bytes.length);
      joined.set(this.#rest);
      joined.set(bytes, this.#rest.length);
      bytes = joined;
    }
    const keep = stream ? this.#unfinished(bytes) : 0;
    this.#rest = bytes.slice(bytes.length - keep);
    let text = this.#convert(bytes.subarray(0, bytes.length - keep));
    if (!this.#started && text !== "") {
      this.#started = true;
      if (!this.#ignoreBOM && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    if (!stream) this.#started = false;
    return text;
  }

  #unfinished(bytes) {
    if (this.#encoding === "utf-8") return unfinishedUTF8(bytes);
    return this.#encoding === "utf-16le" ? bytes.length % 2 : 0;
  }

  #convert(bytes) {
    if (this.#encoding === "windows-1252") return host.encode("latin1", bytes);
    if (this.#encoding === "utf-16le") {
      const text = decodeUTF16(bytes);
      return bytes.length % 2 ? `${text}\ufffd` : text;
    }
    try {
      return host.utf8Decode(bytes, this.#fatal);
    } catch {
      throw codedError(
        TypeError,
        "ERR_ENCODING_INVALID_ENCODED_DATA",
        "The encoded data was not valid for encoding utf-8",
      );
    }
  }
}

module.exports = { TextDecoder, TextEncoder, bytesOf, decodeUTF16, unfinishedUTF8 };
