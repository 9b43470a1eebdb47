"use strict";
// Bytes from text and back, by encoding.

const { decodeUTF16 } = require("encoding");

const names = {
  utf8: "utf8",
  "utf-8": "utf8",
  hex: "hex",
  base64: "base64",
  base64url: "base64url",
  latin1: "latin1",
  binary: "latin1",
  ascii: "ascii",
  ucs2: "utf16le",
  "ucs-2": "utf16le",
  utf16le: "utf16le",
  "utf-16le": "utf16le",
};

/** Returns the proper name of an encoding, undefined for none. */
function encodingOf(name) {
  if (name === undefined || name === null) return "utf8";
  return Object.hasOwn(names, name) ? names[name] : names[String(name).toLowerCase()];
}

function encodeUTF16(text) {
  const bytes = new Uint8Array(text.length * 2);
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    bytes[2 * i] = unit & 0xff;
    bytes[2 * i + 1] = unit >> 8;
  }
  return bytes;
}

function encodeText(text, encoding) {
  switch (encoding) {
    case "utf8":
      return host.utf8Encode(text);
    case "utf16le":
      return encodeUTF16(text);
    case "ascii":
      return host.decode("latin1", text);
    default:
      return host.decode(encoding, text);
  }
}

function decodeText(bytes, encoding) {
  switch (encoding) {
    case "utf8":
      return host.utf8Decode(bytes, false);
    case "utf16le":
      return decodeUTF16(bytes);
    case "ascii":
      return host.encode(
        "latin1",
        bytes.map((b) => b & 0x7f),
      );
    default:
      return host.encode(encoding, bytes);
  }
}

/** How many bytes encodeText makes. */
function textLength(text, encoding) {
  switch (encoding) {
    case "utf8":
      return host.utf8Length(text);
    case "utf16le":
      return text.length * 2;
    case "hex":
      return text.length >>> 1;
    case "base64":
    case "base64url": {
      const padding = /=*$/.exec(text)[0].length;
      return Math.floor(((text.length - padding) * 3) / 4);
    }
    default:
      return text.length;
  }
}

module.exports = { decodeText, encodeText, encodingOf, textLength };
