"use strict";
// Writable streams.

const { Stream, closeWhenDone, commonState, sizeOf, toChunk } = require("stream_base");
const { codedError } = require("errors");
const { define, methods } = require("objects");

function Writable(options) {
  if (!(this instanceof Writable)) return new Writable(options);
  initWritable(this, options);
  return this;
}
Object.setPrototypeOf(Writable.prototype, Stream.prototype);
Object.setPrototypeOf(Writable, Stream);

function initWritable(stream, options) {
  if (!Object.hasOwn(stream, "_events")) Stream.call(stream, options);
  define(stream, "_writableState", {
    ...commonState(options, "writable"),
    queue: [],
    busy: false,
    ending: false,
    finishing: false,
    finished: false,
    needDrain: false,
    corked: 0,
    decodeStrings: options?.decodeStrings ?? true,
    defaultEncoding: options?.defaultEncoding ?? "utf8",
  });
  if (typeof options?.write === "function") stream._write = options.write;
  if (typeof options?.writev === "function") stream._writev = options.writev;
  if (typeof options?.final === "function") stream._final = options.final;
  if (typeof options?.destroy === "function") stream._destroy = options.destroy;
}

/** Hands the next chunk to the sink; it says when it wants another. */
function advance(stream) {
  const s = stream._writableState;
  if (s.busy || s.corked > 0 || s.destroyed) return;
  const next = s.queue.shift();
  if (!next) {
    finish(stream);
    return;
  }
  s.busy = true;
  let sync = true;
  const done = (err) => {
    const settle = () => {
      s.busy = false;
      s.length -= next.size;
      next.callback?.(err ?? null);
      if (err) {
        stream.destroy(err);
        return;
      }
      if (s.needDrain && s.length === 0 && !s.ending) {
        s.needDrain = false;
        stream.emit("drain");
      }
      advance(stream);
    };
    if (sync) process.nextTick(settle);
    else settle();
  };
  try {
    stream._write(next.chunk, next.encoding, once(done));
  } catch (err) {
    done(err);
  }
  sync = false;
}

function once(f) {
  let called = false;
  return (...args) => {
    if (called) throw codedError(Error, "ERR_MULTIPLE_CALLBACK", "Callback called multiple times");
    called = true;
    f(...args);
  };
}

function finish(stream) {
  const s = stream._writableState;
  if (!s.ending || s.finishing || s.queue.length > 0) return;
  s.finishing = true;
  stream.emit("prefinish");
  stream._final((err) => {
    process.nextTick(() => {
      if (err) {
        stream.destroy(err);
        return;
      }
      s.finished = true;
      stream.emit("finish");
      closeWhenDone(stream);
    });
  });
}

const writableMethods = {
  _write(chunk, encoding, callback) {
    if (typeof this._writev === "function") return this._writev([{ chunk, encoding }], callback);
    throw codedError(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _write() method is not implemented");
  },

  _final(callback) {
    callback();
  },

  write(chunk, encoding, callback) {
    if (typeof encoding === "function") [encoding, callback] = [undefined, encoding];
    const s = this._writableState;
    if (chunk === null)
      throw codedError(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream");
    let problem;
    if (s.ending) problem = codedError(Error, "ERR_STREAM_WRITE_AFTER_END", "write after end");
    else if (s.destroyed)
      problem = codedError(Error, "ERR_STREAM_DESTROYED", "Cannot call write after a stream was destroyed");
    if (problem) {
      process.nextTick(() => callback?.(problem));
      if (s.ending) this.destroy(problem);
      return false;
    }
    encoding ??= s.defaultEncoding;
    if (typeof chunk !== "string" || s.decodeStrings) {
      const text = typeof chunk === "string" && !s.objectMode;
      chunk = toChunk(chunk, encoding, s.objectMode);
      if (text || !s.objectMode) encoding = "buffer";
    }
    const size = sizeOf(chunk, s.objectMode);
    s.length += size;
    s.queue.push({ chunk, encoding, callback, size });
    const room = s.length < s.highWaterMark;
    if (!room) s.needDrain = true;
    advance(this);
    return room && !s.destroyed;
  },

  end(chunk, encoding, callback) {
    if (typeof chunk === "function") [chunk, callback] = [undefined, chunk];
    else if (typeof encoding === "function") [encoding, callback] = [undefined, encoding];
    const s = this._writableState;
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    s.corked = 0;
    if (callback) {
      if (s.finished) process.nextTick(callback);
      else this.once("finish", callback);
    }
    s.ending = true;
    if (!s.busy) advance(this);
    return this;
  },

  cork() {
    this._writableState.corked++;
  },

  uncork() {
    const s = this._writableState;
    if (s.corked > 0 && --s.corked === 0) advance(this);
  },

  setDefaultEncoding(encoding) {
    this._writableState.defaultEncoding = encoding;
    return this;
  },

  get writable() {
    const s = this._writableState;
    return s !== undefined && !s.destroyed && !s.ending && !s.errored;
  },

  get writableEnded() {
    return this._writableState.ending;
  },

  get writableFinished() {
    return this._writableState.finished;
  },

  get writableLength() {
    return this._writableState.length;
  },

  get writableHighWaterMark() {
    return this._writableState.highWaterMark;
  },

  get writableObjectMode() {
    return this._writableState.objectMode;
  },

  get writableNeedDrain() {
    return this._writableState.needDrain;
  },

  get writableCorked() {
    return this._writableState.corked;
  },
};
methods(Writable.prototype, writableMethods);
methods(Writable.prototype, {
  pipe() {
    this.emit("error", codedError(Error, "ERR_STREAM_CANNOT_PIPE", "Cannot pipe, not readable"));
  },
});

module.exports = { Writable, initWritable, writableMethods };
