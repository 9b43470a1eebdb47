"use strict";
// The module stream. Streams follow node's in order of events and in
// backpressure; they are constructors, not classes, since programs also call
// Readable.call(this) and util.inherits.

const EventEmitter = require("events");
const { Readable, initReadable } = require("stream_readable");
const { Writable, initWritable, writableMethods } = require("stream_writable");
const { Stream } = require("stream_base");
const { codedError } = require("errors");
const { methods } = require("objects");

function Duplex(options) {
  if (!(this instanceof Duplex)) return new Duplex(options);
  initReadable(this, options);
  initWritable(this, options);
  if (options?.allowHalfOpen === false) this.once("end", () => this.end());
  return this;
}
inherit(Duplex, Readable);
methods(Duplex.prototype, writableMethods);

function Transform(options) {
  if (!(this instanceof Transform)) return new Transform(options);
  Duplex.call(this, options);
  if (typeof options?.transform === "function") this._transform = options.transform;
  if (typeof options?.flush === "function") this._flush = options.flush;
  return this;
}
inherit(Transform, Duplex);
methods(Transform.prototype, {
  _transform() {
    throw codedError(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _transform() method is not implemented");
  },

  _write(chunk, encoding, callback) {
    this._transform(chunk, encoding, (err, data) => {
      if (err) return callback(err);
      if (data !== undefined && data !== null) this.push(data);
      if (this._readableState.length < this._readableState.highWaterMark || this._readableState.flowing) {
        return callback();
      }
      this._resumeWrite = callback; // when somebody reads
      return undefined;
    });
  },

  _read() {
    const resume = this._resumeWrite;
    this._resumeWrite = null;
    resume?.();
  },

  _final(callback) {
    const done = (err, data) => {
      if (err) return callback(err);
      if (data !== undefined && data !== null) this.push(data);
      this.push(null);
      return callback();
    };
    if (typeof this._flush === "function") this._flush(done);
    else done();
  },
});

function PassThrough(options) {
  if (!(this instanceof PassThrough)) return new PassThrough(options);
  Transform.call(this, options);
  return this;
}
inherit(PassThrough, Transform);
methods(PassThrough.prototype, {
  _transform(chunk, encoding, callback) {
    callback(null, chunk);
  },
});

function inherit(Class, Parent) {
  Object.setPrototypeOf(Class.prototype, Parent.prototype);
  Object.setPrototypeOf(Class, Parent);
}

/** Calls back once a stream has ended, finished or failed. */
function finished(stream, options, callback) {
  if (typeof options === "function") [options, callback] = [{}, options];
  const readable = (options?.readable ?? true) && stream._readableState !== undefined;
  const writable = (options?.writable ?? true) && stream._writableState !== undefined;
  let ended = !readable || stream._readableState.endEmitted;
  let done = !writable || stream._writableState.finished;
  let called = false;
  const finish = (err) => {
    if (called) return;
    called = true;
    cleanup();
    callback.call(stream, err);
  };
  const onEnd = () => {
    ended = true;
    if (done) finish();
  };
  const onFinish = () => {
    done = true;
    if (ended) finish();
  };
  const onClose = () => {
    if (!ended || !done) finish(codedError(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close"));
    else finish();
  };
  const cleanup = () => {
    stream.off("end", onEnd).off("finish", onFinish).off("error", finish).off("close", onClose);
  };
  stream.on("end", onEnd).on("finish", onFinish).on("error", finish).on("close", onClose);
  const failure = stream._readableState?.errored ?? stream._writableState?.errored;
  if (failure) process.nextTick(finish, failure);
  else if (ended && done) process.nextTick(finish);
  else if (stream.destroyed) process.nextTick(onClose);
  return cleanup;
}

function toStream(part, i, last) {
  if (part instanceof Stream || typeof part?.pipe === "function") return part;
  if (i === 0 && (part?.[Symbol.asyncIterator] || part?.[Symbol.iterator])) return Readable.from(part);
  return { part, last };
}

/** pipeline(source, ...transforms, destination, callback). */
function pipeline(...parts) {
  const callback = parts.pop();
  if (parts.length === 1 && Array.isArray(parts[0])) [parts] = parts;
  let value;
  run(parts).then(
    (result) => {
      value = result;
      process.nextTick(callback, undefined, value);
    },
    (err) => process.nextTick(callback, err),
  );
  return parts.at(-1);
}

async function run(parts, { end = true } = {}) {
  let current;
  let result;
  const streams = [];
  const waits = [];
  for (const [i, raw] of parts.entries()) {
    const part = typeof raw === "function" ? raw : toStream(raw, i);
    if (typeof part === "function") {
      const output = i === 0 ? part() : part(current);
      if (i < parts.length - 1) {
        current = Readable.from(output);
        streams.push(current);
      } else {
        result = output;
      }
      continue;
    }
    streams.push(part);
    const last = i === parts.length - 1;
    waits.push(
      new Promise((resolve, reject) => {
        finished(part, { readable: !last, writable: i > 0 && (end || !last) }, (err) =>
          err ? reject(err) : resolve(),
        );
      }),
    );
    if (i > 0) current.pipe(part, { end: end || !last });
    current = part;
  }
  try {
    if (result !== undefined) waits.push(Promise.resolve(result));
    await Promise.all(waits);
    return await result;
  } catch (err) {
    for (const stream of streams) stream.destroy?.(stream === current ? err : undefined);
    throw err;
  }
}

const promises = {
  finished: (stream, options) =>
    new Promise((resolve, reject) => {
      finished(stream, options ?? {}, (err) => (err ? reject(err) : resolve()));
    }),
  pipeline(...parts) {
    const options = isOptions(parts.at(-1)) ? parts.pop() : undefined;
    return run(parts, options);
  },
};

function isOptions(value) {
  return (
    value !== null &&
    typeof value === "object" &&
    !(value instanceof EventEmitter) &&
    typeof value[Symbol.asyncIterator] !== "function" &&
    typeof value[Symbol.iterator] !== "function"
  );
}

Object.assign(Stream, {
  Duplex,
  PassThrough,
  Readable,
  Stream,
  Transform,
  Writable,
  addAbortSignal(signal, stream) {
    const abort = () => stream.destroy(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return stream;
  },
  finished,
  getDefaultHighWaterMark: (objectMode) => (objectMode ? 16 : 65536),
  isReadable: (stream) => Boolean(stream?.readable),
  pipeline,
  promises,
});
for (const [f, custom] of [
  [finished, promises.finished],
  [pipeline, promises.pipeline],
]) {
  Object.defineProperty(f, Symbol.for("nodejs.util.promisify.custom"), { value: custom });
}

module.exports = Stream;
