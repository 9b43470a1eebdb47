"use strict";
// The module string_decoder: text from bytes that come in pieces.

const { Buffer } = require("buffer");
const { bytesOf, unfinishedUTF8 } = require("encoding");
const { codedError } = require("errors");
const { encodingOf } = require("buffer_text");

/** How many bytes at the end have to wait for more. */
function unfinished(encoding, bytes) {
  switch (encoding) {
    case "utf8":
      return unfinishedUTF8(bytes);
    case "utf16le": {
      const odd = bytes.length % 2;
      const high = bytes[bytes.length - odd - 1];
      return odd + (high >= 0xd8 && high <= 0xdb ? 2 : 0);
    }
    case "base64":
    case "base64url":
      return bytes.length % 3;
    default:
      return 0;
  }
}

class StringDecoder {
  #rest = Buffer.alloc(0);

  constructor(encoding) {
    this.encoding = encodingOf(encoding);
    if (this.encoding === undefined) {
      throw codedError(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
    }
  }

  write(chunk) {
    if (typeof chunk === "string") return chunk;
    const bytes = Buffer.concat([this.#rest, bytesOf(chunk, "buf")]);
    const keep = unfinished(this.encoding, bytes);
    this.#rest = bytes.subarray(bytes.length - keep);
    return bytes.toString(this.encoding, 0, bytes.length - keep);
  }

  end(chunk) {
    const text = chunk === undefined ? "" : this.write(chunk);
    const rest = this.#rest.toString(this.encoding);
    this.#rest = Buffer.alloc(0);
    return text + rest;
  }
}

module.exports = { StringDecoder };
