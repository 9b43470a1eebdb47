"use strict";
// Readable streams.

const { Buffer } = require("buffer");
const { Stream, closeWhenDone, commonState, sizeOf, toChunk } = require("stream_base");
const { StringDecoder } = require("string_decoder");
const { codedError, invalidArgType } = require("errors");
const { define, methods } = require("objects");

function Readable(options) {
  if (!(this instanceof Readable)) return new Readable(options);
  initReadable(this, options);
  return this;
}
Object.setPrototypeOf(Readable.prototype, Stream.prototype);
Object.setPrototypeOf(Readable, Stream);

function initReadable(stream, options) {
  Stream.call(stream, options);
  define(stream, "_readableState", {
    ...commonState(options, "readable"),
    buffer: [],
    flowing: null,
    ended: false,
    endEmitted: false,
    reading: false,
    decoder: null,
    encoding: null,
    awaited: false, // somebody wants "readable"
    scheduled: false,
    pipes: [],
  });
  if (typeof options?.read === "function") stream._read = options.read;
  if (typeof options?.destroy === "function") stream._destroy = options.destroy;
  if (options?.encoding) stream.setEncoding(options.encoding);
  if (typeof options?.construct === "function")
    options.construct.call(stream, (err) => err && stream.destroy(err));
}

/** Takes n bytes, or everything, out of the buffer. */
function take(state, n) {
  if (state.buffer.length === 0) return null;
  if (state.objectMode) {
    state.length--;
    return state.buffer.shift();
  }
  const join = (parts) =>
    parts.length === 1 ? parts[0] : state.decoder ? parts.join("") : Buffer.concat(parts);
  const all = join(state.buffer);
  if (n === undefined || n >= all.length) {
    state.buffer = [];
    state.length = 0;
    return all;
  }
  state.buffer = [all.slice(n)];
  state.length -= n;
  return all.slice(0, n);
}

/** Asks the source for more if there is room. */
function fetch(stream) {
  const s = stream._readableState;
  if (s.reading || s.ended || s.destroyed || s.length >= s.highWaterMark) return;
  s.reading = true;
  try {
    stream._read(s.highWaterMark);
  } catch (err) {
    stream.destroy(err);
  }
}

/** Delivers soon, on a turn of its own. */
function schedule(stream) {
  const s = stream._readableState;
  if (s.scheduled) return;
  s.scheduled = true;
  process.nextTick(() => {
    s.scheduled = false;
    if (s.flowing) flow(stream);
    else if (s.awaited && (s.length > 0 || s.ended) && !s.endEmitted) {
      stream.emit("readable");
      if (s.length === 0 && s.ended) finish(stream);
    }
  });
}

function flow(stream) {
  const s = stream._readableState;
  while (s.flowing && s.length > 0 && !s.destroyed) {
    const chunk = s.objectMode ? take(s) : s.buffer.shift();
    if (!s.objectMode) s.length -= chunk.length;
    stream.emit("data", chunk);
  }
  if (!s.flowing || s.destroyed) return;
  if (s.ended && s.length === 0) finish(stream);
  else fetch(stream);
}

function finish(stream) {
  const s = stream._readableState;
  if (s.endEmitted || s.errored || s.destroyed) return;
  s.endEmitted = true;
  process.nextTick(() => {
    stream.emit("end");
    closeWhenDone(stream);
  });
}

methods(Readable.prototype, {
  _read() {
    throw codedError(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _read() method is not implemented");
  },

  push(chunk, encoding) {
    const s = this._readableState;
    s.reading = false;
    if (chunk === null || (chunk === undefined && !s.objectMode)) {
      if (s.ended) return false;
      const rest = s.decoder?.end();
      if (rest) {
        s.buffer.push(rest);
        s.length += rest.length;
      }
      s.ended = true;
      schedule(this);
      return false;
    }
    if (s.ended) {
      this.destroy(codedError(Error, "ERR_STREAM_PUSH_AFTER_EOF", "stream.push() after EOF"));
      return false;
    }
    chunk = toChunk(chunk, encoding, s.objectMode);
    if (s.decoder) chunk = s.decoder.write(chunk);
    if (s.objectMode || chunk.length > 0) {
      s.buffer.push(chunk);
      s.length += sizeOf(chunk, s.objectMode);
    }
    schedule(this);
    return s.length < s.highWaterMark;
  },

  unshift(chunk, encoding) {
    const s = this._readableState;
    chunk = toChunk(chunk, encoding, s.objectMode);
    s.buffer.unshift(chunk);
    s.length += sizeOf(chunk, s.objectMode);
    schedule(this);
    return s.length < s.highWaterMark;
  },

  read(n) {
    const s = this._readableState;
    if (n === 0) {
      fetch(this);
      return null;
    }
    if (s.length < (n ?? 1) && !s.ended) fetch(this);
    if (n !== undefined && !s.objectMode && s.length < n && !s.ended) {
      s.awaited = true;
      return null;
    }
    const chunk = take(s, n);
    if (chunk !== null) this.emit("data", chunk);
    if (s.ended && s.length === 0) finish(this);
    else if (s.length < s.highWaterMark) process.nextTick(fetch, this);
    return chunk;
  },

  setEncoding(encoding) {
    const s = this._readableState;
    s.decoder = new StringDecoder(encoding);
    s.encoding = s.decoder.encoding;
    const text = s.buffer.map((chunk) => s.decoder.write(chunk)).join("");
    s.buffer = text === "" ? [] : [text];
    s.length = text.length;
    return this;
  },

  on(name, listener) {
    Stream.prototype.on.call(this, name, listener);
    const s = this._readableState;
    if (name === "data") {
      if (s.flowing !== false && !s.awaited) this.resume();
    } else if (name === "readable") {
      s.awaited = true;
      s.flowing = false;
      if (s.length > 0 || s.ended) schedule(this);
      else process.nextTick(fetch, this);
    }
    return this;
  },

  addListener(name, listener) {
    return this.on(name, listener);
  },

  resume() {
    const s = this._readableState;
    if (!s.flowing) {
      s.flowing = true;
      this.emit("resume");
      schedule(this);
    }
    return this;
  },

  pause() {
    const s = this._readableState;
    if (s.flowing !== false) {
      s.flowing = false;
      this.emit("pause");
    }
    return this;
  },

  isPaused() {
    return this._readableState.flowing === false;
  },

  pipe(target, options) {
    const s = this._readableState;
    const write = (chunk) => {
      if (target.write(chunk) === false) {
        this.pause();
        target.once("drain", () => this.resume());
      }
    };
    const closing = options?.end !== false && target !== process.stdout && target !== process.stderr;
    const end = () => target.end();
    s.pipes.push({ target, stop: () => this.off("data", write).off("end", end) });
    this.on("data", write);
    if (closing) {
      if (s.endEmitted) process.nextTick(end);
      else this.once("end", end);
    }
    target.emit("pipe", this);
    if (s.flowing !== true) this.resume();
    return target;
  },

  unpipe(target) {
    const s = this._readableState;
    s.pipes = s.pipes.filter((pipe) => {
      if (target !== undefined && pipe.target !== target) return true;
      pipe.stop();
      pipe.target.emit("unpipe", this);
      return false;
    });
    if (s.pipes.length === 0) this.pause();
    return this;
  },

  async *[Symbol.asyncIterator]() {
    const s = this._readableState;
    let failure = null;
    let wake = () => {};
    const changed = (err) => {
      if (err) failure = { err };
      wake();
    };
    const onClose = () => changed();
    const onReadable = () => changed();
    const onEnd = () => changed();
    this.on("error", changed).on("close", onClose).on("end", onEnd).on("readable", onReadable);
    try {
      for (;;) {
        const chunk = this.destroyed ? null : this.read();
        if (chunk !== null) {
          yield chunk;
          continue;
        }
        if (failure) throw failure.err;
        if (s.errored) throw s.errored;
        if (s.endEmitted) return;
        if (s.destroyed) throw codedError(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close");
        await new Promise((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      this.off("error", changed).off("close", onClose).off("end", onEnd).off("readable", onReadable);
      if (!failure) this.destroy();
    }
  },

  async toArray() {
    const out = [];
    for await (const chunk of this) out.push(chunk);
    return out;
  },

  async forEach(f) {
    for await (const chunk of this) await f(chunk);
  },

  map(f) {
    const source = this;
    return Readable.from(
      (async function* () {
        for await (const chunk of source) yield await f(chunk);
      })(),
    );
  },

  filter(f) {
    const source = this;
    return Readable.from(
      (async function* () {
        for await (const chunk of source) if (await f(chunk)) yield chunk;
      })(),
    );
  },

  async reduce(f, initial) {
    let result = initial;
    let first = arguments.length < 2;
    for await (const chunk of this) {
      result = first ? chunk : await f(result, chunk);
      first = false;
    }
    return result;
  },

  get readable() {
    const s = this._readableState;
    return s !== undefined && !s.destroyed && !s.endEmitted && !s.errored;
  },

  get readableEnded() {
    return this._readableState.endEmitted;
  },

  get readableFlowing() {
    return this._readableState.flowing;
  },

  get readableLength() {
    return this._readableState.length;
  },

  get readableHighWaterMark() {
    return this._readableState.highWaterMark;
  },

  get readableObjectMode() {
    return this._readableState.objectMode;
  },

  get readableEncoding() {
    return this._readableState.encoding;
  },
});

/** Makes a stream of what can be iterated. */
Readable.from = function from(source, options) {
  if (typeof source === "string" || source instanceof Buffer) source = [source];
  const iterator = source?.[Symbol.asyncIterator]?.() ?? source?.[Symbol.iterator]?.();
  if (!iterator) throw invalidArgType("iterable", "an instance of Iterable", source);
  return new Readable({
    objectMode: true,
    highWaterMark: 1,
    ...options,
    async read() {
      try {
        const { value, done } = await iterator.next();
        this.push(done ? null : await value);
      } catch (err) {
        this.destroy(err);
      }
    },
    async destroy(err, callback) {
      await iterator.return?.();
      callback(err);
    },
  });
};

module.exports = { Readable, initReadable };
