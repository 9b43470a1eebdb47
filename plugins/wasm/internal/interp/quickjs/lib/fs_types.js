"use strict";
// Stats, Dirent and Dir.

const { codedError } = require("errors");

const typeBits = { file: 0o100000, directory: 0o040000, symlink: 0o120000, other: 0o020000 };

class Typed {
  #type;

  constructor(type) {
    this.#type = type;
  }

  isFile() {
    return this.#type === "file";
  }

  isDirectory() {
    return this.#type === "directory";
  }

  isSymbolicLink() {
    return this.#type === "symlink";
  }

  isBlockDevice() {
    return false;
  }

  isCharacterDevice() {
    return this.#type === "other";
  }

  isFIFO() {
    return false;
  }

  isSocket() {
    return false;
  }
}

class Stats extends Typed {
  constructor(raw, bigint = false) {
    super(raw.type);
    const number = bigint ? BigInt : Number;
    Object.assign(this, {
      dev: number(raw.dev),
      mode: number(typeBits[raw.type] | raw.mode),
      nlink: number(raw.nlink),
      uid: number(1000),
      gid: number(1000),
      rdev: number(0),
      blksize: number(4096),
      ino: number(raw.ino),
      size: number(raw.size),
      blocks: number(Math.ceil(raw.size / 512)),
    });
    const times = { atime: raw.atime, mtime: raw.mtime, ctime: raw.ctime, birthtime: raw.ctime };
    for (const [name, ns] of Object.entries(times))
      this[`${name}Ms`] = bigint ? BigInt(Math.floor(ns / 1e6)) : ns / 1e6;
    if (bigint) for (const [name, ns] of Object.entries(times)) this[`${name}Ns`] = BigInt(ns);
    for (const [name, ns] of Object.entries(times)) this[name] = new Date(Math.round(ns / 1e6));
  }
}

class Dirent extends Typed {
  constructor(name, type, parentPath) {
    super(type);
    this.name = name;
    this.parentPath = parentPath;
    this.path = parentPath;
  }
}

class Dir {
  #entries;
  #closed = false;

  constructor(path, entries) {
    this.path = path;
    this.#entries = entries;
  }

  readSync() {
    if (this.#closed) throw codedError(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
    return this.#entries.shift() ?? null;
  }

  closeSync() {
    if (this.#closed) throw codedError(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
    this.#closed = true;
  }

  read(callback) {
    const result = new Promise((resolve) => {
      resolve(this.readSync());
    });
    if (callback === undefined) return result;
    result.then((entry) => callback(null, entry), callback);
    return undefined;
  }

  close(callback) {
    const result = new Promise((resolve) => {
      resolve(this.closeSync());
    });
    if (callback === undefined) return result;
    result.then(() => callback(null), callback);
    return undefined;
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (let entry = this.readSync(); entry !== null; entry = this.readSync()) yield entry;
    } finally {
      if (!this.#closed) this.closeSync();
    }
  }
}

module.exports = { Dir, Dirent, Stats };
