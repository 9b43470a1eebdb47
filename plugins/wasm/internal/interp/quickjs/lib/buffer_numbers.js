"use strict";
// Reading and writing numbers in a Buffer.

const { codedError, invalidArgType, outOfRange } = require("errors");

function viewOf(buffer) {
  return new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

function checkOffset(buffer, offset, size) {
  if (typeof offset !== "number") throw invalidArgType("offset", "of type number", offset);
  if (!Number.isInteger(offset)) throw outOfRange("offset", "an integer", offset);
  if (buffer.length - size < 0) {
    throw codedError(
      RangeError,
      "ERR_BUFFER_OUT_OF_BOUNDS",
      "Attempt to access memory outside buffer bounds",
    );
  }
  if (offset < 0 || offset + size > buffer.length) {
    throw outOfRange("offset", `>= 0 and <= ${buffer.length - size}`, offset);
  }
}

function bounds(bits, signed) {
  return signed ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
}

function range(bits, signed) {
  if (bits <= 32 && bits % 8 === 0 && bits !== 24) {
    const [min, max] = bounds(bits, signed);
    return `>= ${min} and <= ${max}`;
  }
  return signed ? `>= -(2 ** ${bits - 1}) and < 2 ** ${bits - 1}` : `>= 0 and < 2 ** ${bits}`;
}

function checkValue(value, bits, signed) {
  const [min, max] = bounds(bits, signed);
  if (value < min || value > max) throw outOfRange("value", range(bits, signed), value);
}

const numberMethods = {};

function add(names, f) {
  for (const name of names) numberMethods[name] = f;
}

/** Adds the methods for one fixed type of DataView. */
function fixed(size, accessor, spellings, check) {
  for (const order of size === 1 ? [""] : ["LE", "BE"]) {
    const little = order === "LE";
    add(
      spellings.map((s) => `read${s}${order}`),
      function (offset = 0) {
        checkOffset(this, offset, size);
        return viewOf(this)[`get${accessor}`](offset, little);
      },
    );
    add(
      spellings.map((s) => `write${s}${order}`),
      function (value, offset = 0) {
        value = check(value);
        checkOffset(this, offset, size);
        viewOf(this)[`set${accessor}`](offset, value, little);
        return offset + size;
      },
    );
  }
}

const integer = (bits, signed) => (value) => {
  value = Number(value);
  checkValue(value, bits, signed);
  return value;
};

const big = (signed) => (value) => {
  if (typeof value !== "bigint") throw invalidArgType("value", "of type bigint", value);
  const [min, max] = signed ? [-(2n ** 63n), 2n ** 63n - 1n] : [0n, 2n ** 64n - 1n];
  if (value < min || value > max) {
    const text = signed ? ">= -(2n ** 63n) and < 2n ** 63n" : ">= 0n and < 2n ** 64n";
    throw outOfRange("value", text, `${value}n`);
  }
  return value;
};

fixed(1, "Uint8", ["UInt8", "Uint8"], integer(8, false));
fixed(1, "Int8", ["Int8"], integer(8, true));
fixed(2, "Uint16", ["UInt16", "Uint16"], integer(16, false));
fixed(2, "Int16", ["Int16"], integer(16, true));
fixed(4, "Uint32", ["UInt32", "Uint32"], integer(32, false));
fixed(4, "Int32", ["Int32"], integer(32, true));
fixed(4, "Float32", ["Float"], Number);
fixed(8, "Float64", ["Double"], Number);
fixed(8, "BigUint64", ["BigUInt64", "BigUint64"], big(false));
fixed(8, "BigInt64", ["BigInt64"], big(true));

function checkWidth(width) {
  if (typeof width !== "number") throw invalidArgType("byteLength", "of type number", width);
  if (!(Number.isInteger(width) && width >= 1 && width <= 6)) {
    throw outOfRange("byteLength", ">= 1 and <= 6", width);
  }
}

/** Adds readUIntLE and its kin, for one to six bytes. */
function variable(signed, little) {
  const order = little ? "LE" : "BE";
  const spellings = signed ? ["Int"] : ["UInt", "Uint"];
  add(
    spellings.map((s) => `read${s}${order}`),
    function (offset, width) {
      checkWidth(width);
      checkOffset(this, offset, width);
      let value = 0;
      for (let i = 0; i < width; i++)
        value = value * 256 + this[little ? offset + width - 1 - i : offset + i];
      return signed && value >= 2 ** (8 * width - 1) ? value - 2 ** (8 * width) : value;
    },
  );
  add(
    spellings.map((s) => `write${s}${order}`),
    function (value, offset, width) {
      checkWidth(width);
      value = Number(value);
      checkValue(value, 8 * width, signed);
      checkOffset(this, offset, width);
      let rest = value < 0 ? value + 2 ** (8 * width) : value;
      for (let i = 0; i < width; i++) {
        this[little ? offset + i : offset + width - 1 - i] = rest % 256;
        rest = Math.floor(rest / 256);
      }
      return offset + width;
    },
  );
}

for (const signed of [true, false]) {
  variable(signed, true);
  variable(signed, false);
}

module.exports = { numberMethods };
