"use strict";
// What all streams share: destroying, and the order of their last events.

const EventEmitter = require("events");
const { Buffer } = require("buffer");
const { bytesOf } = require("encoding");
const { invalidArgType } = require("errors");
const { methods } = require("objects");

function Stream(options) {
  EventEmitter.call(this, options);
}
Object.setPrototypeOf(Stream.prototype, EventEmitter.prototype);
Object.setPrototypeOf(Stream, EventEmitter);

methods(Stream.prototype, {
  destroy(err, callback) {
    const states = [this._readableState, this._writableState].filter(Boolean);
    if (states.some((s) => s.destroyed)) return this;
    for (const s of states) {
      s.destroyed = true;
      s.errored ??= err ?? null;
    }
    this._destroy(err ?? null, (failure) => {
      const reason = failure ?? err ?? null;
      process.nextTick(() => {
        callback?.(reason);
        if (reason && !callback) {
          for (const s of states) s.errored ??= reason;
          if (!states.some((s) => s.errorEmitted)) {
            for (const s of states) s.errorEmitted = true;
            this.emit("error", reason);
          }
        }
        for (const s of states) s.closed = true;
        if (states[0]?.emitClose !== false) this.emit("close");
      });
    });
    return this;
  },

  _destroy(err, callback) {
    callback(err);
  },

  get destroyed() {
    return [this._readableState, this._writableState].some((s) => s?.destroyed);
  },

  get closed() {
    return [this._readableState, this._writableState].some((s) => s?.closed);
  },

  get errored() {
    return this._readableState?.errored ?? this._writableState?.errored ?? null;
  },

  async [Symbol.asyncDispose]() {
    this.destroy();
  },
});

/** Destroys a stream once both of its sides are done. */
function closeWhenDone(stream) {
  const r = stream._readableState;
  const w = stream._writableState;
  if ((!r || r.endEmitted) && (!w || w.finished) && (r ?? w).autoDestroy) stream.destroy();
}

/** Converts what is written or pushed to a Buffer, unless objects are meant. */
function toChunk(chunk, encoding, objectMode) {
  if (objectMode) return chunk;
  if (typeof chunk === "string") return Buffer.from(chunk, encoding);
  if (chunk instanceof Buffer) return chunk;
  if (ArrayBuffer.isView(chunk)) return Buffer.from(bytesOf(chunk));
  throw invalidArgType("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", chunk);
}

const sizeOf = (chunk, objectMode) => (objectMode ? 1 : chunk.length);

function commonState(options = {}, side) {
  const objectMode = Boolean(options.objectMode || options[`${side}ObjectMode`]);
  return {
    objectMode,
    highWaterMark: options[`${side}HighWaterMark`] ?? options.highWaterMark ?? (objectMode ? 16 : 65536),
    autoDestroy: options.autoDestroy ?? true,
    emitClose: options.emitClose ?? true,
    destroyed: false,
    closed: false,
    errored: null,
    errorEmitted: false,
    length: 0,
  };
}

module.exports = { Stream, closeWhenDone, commonState, sizeOf, toChunk };
