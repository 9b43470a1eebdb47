"use strict";
// process.stdin, stdout and stderr.

const { Readable } = require("stream_readable");
const { Writable } = require("stream_writable");

/** Standard input: reading waits for it, with everything else. */
function stdin() {
  const stream = new Readable({
    highWaterMark: 65536,
    read(size) {
      // Not at once: work that is due comes first.
      setImmediate(() => {
        let chunk;
        try {
          chunk = host.readStdin(size);
        } catch {
          chunk = undefined;
        }
        this.push(chunk ?? null);
      });
    },
  });
  return Object.assign(stream, { fd: 0, setRawMode: () => stream, ref: () => stream, unref: () => stream });
}

/** Standard output or error: what is written is out when write returns. */
function output(fd) {
  const stream = new Writable({
    decodeStrings: false,
    autoDestroy: false,
    write(chunk, encoding, callback) {
      host.write(fd, typeof chunk === "string" && !isText(encoding) ? Buffer.from(chunk, encoding) : chunk);
      callback();
    },
  });
  const { write } = stream;
  // Past the queue, so that the order of writes, console.log and exit is kept.
  stream.write = function (chunk, encoding, callback) {
    if (typeof encoding === "function") [encoding, callback] = [undefined, encoding];
    if (stream.writableEnded || (typeof chunk !== "string" && !ArrayBuffer.isView(chunk))) {
      return write.call(stream, chunk, encoding, callback);
    }
    host.write(fd, typeof chunk === "string" && !isText(encoding) ? Buffer.from(chunk, encoding) : chunk);
    if (callback) process.nextTick(callback);
    return true;
  };
  Object.defineProperty(stream, "write", { enumerable: false });
  return Object.assign(stream, {
    fd,
    getColorDepth: () => 1,
    hasColors: () => false,
    getWindowSize: () => [80, 24],
    cursorTo: () => true,
    moveCursor: () => true,
    clearLine: () => true,
    clearScreenDown: () => true,
  });
}

const isText = (encoding) => encoding === undefined || encoding === null || /^utf-?8$/i.test(encoding);

module.exports = { output, stdin };
