"use strict";
// fs.createReadStream and fs.createWriteStream.

const fs = require("fs");
const { Readable } = require("stream_readable");
const { Writable } = require("stream_writable");

function optionsOf(options) {
  return typeof options === "string" ? { encoding: options } : { ...options };
}

class ReadStream extends Readable {
  constructor(path, options) {
    const {
      encoding,
      fd = null,
      start,
      end = Infinity,
      flags = "r",
      mode,
      autoClose = true,
      highWaterMark = 65536,
    } = optionsOf(options);
    super({ highWaterMark, encoding, autoDestroy: autoClose });
    Object.assign(this, { path, fd: typeof fd === "object" && fd !== null ? fd.fd : fd, bytesRead: 0 });
    let position = start ?? -1;
    let left = end - (start ?? 0) + 1;
    this._read = (size) => {
      setImmediate(() => {
        if (this.destroyed) return;
        try {
          this._open(flags, mode);
          const chunk = Buffer.alloc(Math.min(size, left));
          const n = fs.readSync(this.fd, chunk, 0, chunk.length, position < 0 ? null : position);
          if (position >= 0) position += n;
          left -= n;
          this.bytesRead += n;
          this.push(n === 0 ? null : chunk.subarray(0, n));
        } catch (err) {
          this.destroy(err);
        }
      });
    };
    if (this.fd === null) openSoon(this, flags, mode);
  }

  _open(flags, mode) {
    open(this, flags, mode);
  }

  _destroy(err, callback) {
    close(this, err, callback);
  }

  close(callback) {
    this.destroy(null, callback);
  }
}

class WriteStream extends Writable {
  constructor(path, options) {
    const { encoding, fd = null, start, flags = "w", mode, autoClose = true } = optionsOf(options);
    super({ defaultEncoding: encoding ?? "utf8", autoDestroy: autoClose });
    Object.assign(this, { path, fd: typeof fd === "object" && fd !== null ? fd.fd : fd, bytesWritten: 0 });
    let position = start ?? -1;
    this._write = (chunk, _, callback) => {
      try {
        open(this, flags, mode);
        const n = fs.writeSync(this.fd, chunk, 0, chunk.length, position < 0 ? null : position);
        if (position >= 0) position += n;
        this.bytesWritten += n;
      } catch (err) {
        callback(err);
        return;
      }
      setImmediate(callback);
    };
    this._final = (callback) => {
      try {
        open(this, flags, mode);
        callback();
      } catch (err) {
        callback(err);
      }
    };
    if (this.fd === null) openSoon(this, flags, mode);
  }

  _destroy(err, callback) {
    close(this, err, callback);
  }

  close(callback) {
    if (callback) this.once("close", callback);
    this.end();
  }
}

function open(stream, flags, mode) {
  if (stream.fd !== null || stream.destroyed) return;
  stream.fd = fs.openSync(stream.path, flags, mode);
  stream.emit("open", stream.fd);
  stream.emit("ready");
}

/** Opens on the next turn, so that there is time to listen to errors. */
function openSoon(stream, flags, mode) {
  process.nextTick(() => {
    try {
      open(stream, flags, mode);
    } catch (err) {
      stream.destroy(err);
    }
  });
}

function close(stream, err, callback) {
  let failure = err;
  if (stream.fd !== null) {
    try {
      fs.closeSync(stream.fd);
    } catch (closeError) {
      failure ??= closeError;
    }
    stream.fd = null;
  }
  callback(failure);
}

module.exports = { ReadStream, WriteStream };
