"use strict";
// The rest of the module fs: functions with callbacks, and fs/promises.

const sync = require("fs");
const { checkFunction, unsupported } = require("errors");
const { constants } = require("fs_flags");
const { Dir, Dirent, Stats } = require("fs_types");
const { lazy } = require("objects");

/** Makes the version with a callback, which is called after the current turn. */
function withCallback(f, results = (value) => [value]) {
  return (...args) => {
    const callback = args.pop();
    checkFunction(callback, "cb");
    let outcome;
    try {
      outcome = [null, ...results(f(...args), args)];
    } catch (err) {
      if (err.code?.startsWith("ERR_INVALID") || err.code === "ERR_OUT_OF_RANGE") throw err;
      outcome = [err];
    }
    setImmediate(() => callback(...outcome));
  };
}

const withPromise =
  (f) =>
  async (...args) => {
    // Other work that is due comes first, as if the disk took a while.
    await new Promise(setImmediate);
    return f(...args);
  };

const names = Object.keys(sync)
  .filter((name) => name.endsWith("Sync"))
  .map((name) => name.slice(0, -"Sync".length));

const callbacks = {};
for (const name of names) callbacks[name] = withCallback(sync[`${name}Sync`]);
callbacks.read = (fd, ...rest) => {
  const callback = rest.pop();
  let [buffer, ...more] = rest;
  if (!ArrayBuffer.isView(buffer)) {
    more = [buffer ?? {}];
    buffer = buffer?.buffer ?? Buffer.alloc(16384);
  }
  return withCallback(sync.readSync, (n) => [n, buffer])(fd, buffer, ...more, callback);
};
callbacks.write = withCallback(sync.writeSync, (n, args) => [n, args[1]]);
callbacks.readv = withCallback(sync.readvSync, (n, args) => [n, args[1]]);
callbacks.writev = withCallback(sync.writevSync, (n, args) => [n, args[1]]);
callbacks.exists = (path, callback) => {
  const there = sync.existsSync(path);
  setImmediate(() => callback(there));
};
for (const name of ["read", "write"]) {
  Object.defineProperty(callbacks[name], Symbol.for("nodejs.util.promisify.custom"), {
    value: (...args) =>
      new Promise((resolve, reject) => {
        const key = name === "read" ? "bytesRead" : "bytesWritten";
        callbacks[name](...args, (err, n, buffer) => (err ? reject(err) : resolve({ [key]: n, buffer })));
      }),
  });
}
Object.defineProperty(callbacks.exists, Symbol.for("nodejs.util.promisify.custom"), {
  value: async (path) => sync.existsSync(path),
});

/** An open file of fs/promises. */
class FileHandle {
  #fd;

  constructor(fd) {
    this.#fd = fd;
  }

  get fd() {
    return this.#fd;
  }

  async close() {
    if (this.#fd < 0) return;
    sync.closeSync(this.#fd);
    this.#fd = -1;
  }

  async read(...args) {
    let [buffer, ...rest] = args;
    if (!ArrayBuffer.isView(buffer)) {
      rest = [buffer ?? {}];
      buffer = buffer?.buffer ?? Buffer.alloc(16384);
    }
    return { bytesRead: sync.readSync(this.#fd, buffer, ...rest), buffer };
  }

  async write(data, ...rest) {
    return { bytesWritten: sync.writeSync(this.#fd, data, ...rest), buffer: data };
  }

  async *readLines(options) {
    yield* require("readline").createInterface({ input: this.createReadStream(options) });
  }

  createReadStream(options) {
    return sync.createReadStream("", { ...options, fd: this.#fd });
  }

  createWriteStream(options) {
    return sync.createWriteStream("", { ...options, fd: this.#fd });
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }
}

for (const name of ["appendFile", "readFile", "writeFile"]) {
  FileHandle.prototype[name] = async function (...args) {
    return sync[`${name}Sync`](this.fd, ...args);
  };
}
for (const [name, f] of Object.entries({
  chmod: "fchmodSync",
  chown: "fchownSync",
  datasync: "fdatasyncSync",
  stat: "fstatSync",
  sync: "fsyncSync",
  truncate: "ftruncateSync",
  utimes: "futimesSync",
  readv: "readvSync",
  writev: "writevSync",
})) {
  FileHandle.prototype[name] = async function (...args) {
    return sync[f](this.fd, ...args);
  };
}

const promises = { constants };
for (const name of names) {
  if (
    !/^(close|exists|f[cdst]|futimes|read|readv|write|writev)/.test(name) ||
    /^(readFile|readdir|readlink|writeFile)$/.test(name)
  ) {
    promises[name] = withPromise(sync[`${name}Sync`]);
  }
}
promises.open = async (...args) => new FileHandle(sync.openSync(...args));
promises.writeFile = async (path, data, options) => {
  const target = path instanceof FileHandle ? path.fd : path;
  if (
    typeof data !== "string" &&
    !ArrayBuffer.isView(data) &&
    (data?.[Symbol.asyncIterator] || data?.[Symbol.iterator])
  ) {
    const chunks = [];
    for await (const chunk of data) chunks.push(Buffer.from(chunk));
    data = Buffer.concat(chunks);
  }
  await new Promise(setImmediate);
  sync.writeFileSync(target, data, options);
};
for (const name of ["readFile", "appendFile"]) {
  const plain = promises[name];
  promises[name] = (path, ...rest) => plain(path instanceof FileHandle ? path.fd : path, ...rest);
}
promises.glob = async function* (pattern, options) {
  yield* sync.globSync(pattern, options);
};

const noWatch = (name) => () => {
  throw unsupported(`fs.${name}`, "this sandbox cannot watch files");
};

Object.assign(sync, callbacks, {
  Dir,
  Dirent,
  Stats,
  constants,
  F_OK: constants.F_OK,
  R_OK: constants.R_OK,
  W_OK: constants.W_OK,
  X_OK: constants.X_OK,
  createReadStream: (...args) => new (require("fs_streams").ReadStream)(...args),
  createWriteStream: (...args) => new (require("fs_streams").WriteStream)(...args),
  promises,
  unwatchFile() {},
  watch: noWatch("watch"),
  watchFile: noWatch("watchFile"),
});
lazy(sync, "ReadStream", () => require("fs_streams").ReadStream);
lazy(sync, "WriteStream", () => require("fs_streams").WriteStream);
promises.watch = noWatch("promises.watch");

module.exports = sync;
