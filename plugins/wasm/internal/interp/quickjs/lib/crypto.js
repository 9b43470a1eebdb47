"use strict";
// The module crypto, as far as it needs no keys: random values, digests, HMAC.

const { Buffer, wrap } = require("buffer");
const { bytesOf } = require("encoding");
const {
  checkFunction,
  checkInteger,
  codedError,
  invalidArgType,
  outOfRange,
  unsupported,
} = require("errors");

const hashes = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-224", "sha512-256"];

function toBytes(data, encoding) {
  if (typeof data === "string") return Buffer.from(data, encoding === "buffer" ? "utf8" : encoding);
  if (ArrayBuffer.isView(data)) return bytesOf(data);
  throw invalidArgType("data", "of type string or an instance of Buffer, TypedArray, or DataView", data);
}

/** What Hash and Hmac share: data is kept until the digest is asked for. */
class Digest {
  #chunks = [];
  #finish;
  #done = false;

  constructor(finish) {
    this.#finish = finish;
  }

  update(data, encoding) {
    if (this.#done) throw codedError(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    this.#chunks.push(typeof data === "string" ? toBytes(data, encoding) : toBytes(data).slice());
    return this;
  }

  digest(encoding) {
    if (this.#done) throw codedError(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    this.#done = true;
    const sum = wrap(this.#finish(this.#data()));
    return encoding === undefined || encoding === "buffer" ? sum : sum.toString(encoding);
  }

  write(data, encoding, callback) {
    this.update(data, typeof encoding === "string" ? encoding : undefined);
    [encoding, callback].find((f) => typeof f === "function")?.();
    return true;
  }

  end(data, encoding) {
    if (data !== undefined) this.update(data, encoding);
    return this;
  }

  read() {
    return this.digest();
  }

  copyOf(other) {
    this.#chunks = [...other.#chunks];
    return this;
  }

  #data() {
    return this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
  }
}

class Hash extends Digest {
  #name;

  constructor(name) {
    super((data) => host.hash(name, data));
    this.#name = name;
  }

  copy() {
    return new Hash(this.#name).copyOf(this);
  }
}

class Hmac extends Digest {
  constructor(name, key) {
    super((data) => host.hmac(name, key, data));
  }
}

function checkHash(name, err) {
  if (typeof name !== "string") throw invalidArgType("algorithm", "of type string", name);
  try {
    host.hash(name);
  } catch {
    throw err();
  }
}

function createHash(name) {
  checkHash(name, () => new Error("Digest method not supported"));
  return new Hash(name);
}

function createHmac(name, key) {
  checkHash(name, () => codedError(Error, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${name}`));
  if (typeof key !== "string" && !ArrayBuffer.isView(key)) {
    throw invalidArgType(
      "key",
      "of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView",
      key,
    );
  }
  return new Hmac(name, toBytes(key).slice());
}

function withCallback(f, callback) {
  if (callback === undefined) return f();
  checkFunction(callback, "callback");
  let result;
  try {
    result = f();
  } catch (err) {
    setImmediate(callback, err);
    return undefined;
  }
  setImmediate(callback, null, result);
  return undefined;
}

function randomBytes(size, callback) {
  checkInteger(size, "size", 0, 2 ** 31 - 1);
  return withCallback(() => wrap(host.random(size)), callback);
}

function fillRandom(target) {
  const bytes = bytesOf(target);
  bytes.set(host.random(bytes.length));
  return target;
}

function randomInt(min, max, callback) {
  if (max === undefined || typeof max === "function") [min, max, callback] = [0, min, max];
  if (!Number.isSafeInteger(min)) throw invalidArgType("min", "a safe integer", min);
  if (!Number.isSafeInteger(max)) throw invalidArgType("max", "a safe integer", max);
  const range = max - min;
  if (range <= 0) throw outOfRange("max", `greater than the value of "min" (${min})`, max);
  if (range > 2 ** 48 - 1) throw outOfRange("max - min", `<= ${2 ** 48 - 1}`, range);
  return withCallback(() => {
    const limit = 2 ** 48 - (2 ** 48 % range); // beyond it, small numbers would be more frequent
    for (;;) {
      const n = wrap(host.random(6)).readUIntLE(0, 6);
      if (n < limit) return min + (n % range);
    }
  }, callback);
}

function randomUUID() {
  const b = wrap(host.random(16));
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  return b.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function timingSafeEqual(a, b) {
  const [left, right] = [bytesOf(a), bytesOf(b)];
  if (left.length !== right.length) {
    throw codedError(
      RangeError,
      "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH",
      "Input buffers must have the same byte length",
    );
  }
  let difference = 0;
  for (let i = 0; i < left.length; i++) difference |= left[i] ^ right[i];
  return difference === 0;
}

function pbkdf2Sync(password, salt, iterations, length, digest) {
  checkInteger(iterations, "iterations", 1, 2 ** 31 - 1);
  checkInteger(length, "keylen", 0, 2 ** 31 - 1);
  checkHash(digest, () => codedError(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${digest}`));
  const key = toBytes(password);
  const blocks = [];
  for (let n = 1, made = 0; made < length; n++) {
    const index = Buffer.alloc(4);
    index.writeUInt32BE(n);
    let u = host.hmac(digest, key, Buffer.concat([toBytes(salt), index]));
    const block = Uint8Array.from(u);
    for (let i = 1; i < iterations; i++) {
      u = host.hmac(digest, key, u);
      for (let j = 0; j < block.length; j++) block[j] ^= u[j];
    }
    blocks.push(block);
    made += block.length;
  }
  return Buffer.concat(blocks, length);
}

const subtle = {
  async digest(algorithm, data) {
    const name = typeof algorithm === "string" ? algorithm : algorithm?.name;
    if (!/^sha-(1|256|384|512)$/i.test(name))
      throw new DOMException("Unrecognized algorithm name", "NotSupportedError");
    return host.hash(name, bytesOf(data)).buffer;
  },
};

const webcrypto = {
  getRandomValues(array) {
    if (!ArrayBuffer.isView(array))
      throw new TypeError("The data argument must be an integer-type TypedArray");
    if (array.byteLength > 65536) {
      throw new DOMException("The requested length exceeds 65,536 bytes", "QuotaExceededError");
    }
    return fillRandom(array);
  },
  randomUUID,
  subtle,
};
Object.defineProperty(webcrypto, Symbol.toStringTag, { value: "Crypto" });

const crypto = {
  createHash,
  createHmac,
  getHashes: () => [...hashes],
  getRandomValues: webcrypto.getRandomValues,
  hash(name, data, encoding = "hex") {
    return createHash(name).update(data).digest(encoding);
  },
  pbkdf2: (password, salt, iterations, length, digest, callback) =>
    withCallback(() => pbkdf2Sync(password, salt, iterations, length, digest), callback),
  pbkdf2Sync,
  pseudoRandomBytes: randomBytes,
  randomBytes,
  randomFill: (target, callback) => withCallback(() => fillRandom(target), callback),
  randomFillSync: (target, offset = 0, size = undefined) => {
    const bytes = bytesOf(target);
    fillRandom(bytes.subarray(offset, size === undefined ? undefined : offset + size));
    return target;
  },
  randomInt,
  randomUUID,
  subtle,
  timingSafeEqual,
  webcrypto,
  constants: {},
  Hash,
  Hmac,
};

for (const name of [
  "createCipheriv",
  "createDecipheriv",
  "createDiffieHellman",
  "createECDH",
  "createPrivateKey",
  "createPublicKey",
  "createSecretKey",
  "createSign",
  "createVerify",
  "generateKey",
  "generateKeyPair",
  "generateKeyPairSync",
  "generateKeySync",
  "hkdf",
  "hkdfSync",
  "privateDecrypt",
  "privateEncrypt",
  "publicDecrypt",
  "publicEncrypt",
  "scrypt",
  "scryptSync",
  "sign",
  "verify",
]) {
  crypto[name] = () => {
    throw unsupported(`crypto.${name}`, "this sandbox has digests, HMAC, PBKDF2 and random values only");
  };
}

module.exports = crypto;
