"use strict";
// The part of the module fs that works on open files.

const { Buffer } = require("buffer");
const { bytesOf } = require("encoding");
const { checkInteger } = require("errors");
const { Stats } = require("fs_types");
const { call, checkFd, dataOf, full, milliseconds, modeOf, pathOf } = require("fs_common");
const { flagsOf } = require("fs_flags");

function openSync(path, flags = "r", mode = undefined) {
  path = pathOf(path);
  return call("open", path, undefined, () => host.open(full(path), flagsOf(flags), modeOf(mode, 0o666)));
}

function closeSync(fd) {
  if (checkFd(fd) <= 2) return;
  call("close", undefined, undefined, () => host.close(fd));
}

/** Reads all that is left of a descriptor. */
function readRest(fd) {
  const chunks = [];
  for (;;) {
    const chunk = readChunk(fd, 1 << 20, -1);
    if (chunk.length === 0) return Buffer.concat(chunks);
    chunks.push(chunk);
  }
}

function readChunk(fd, length, position) {
  if (fd === 0) return call("read", undefined, undefined, () => host.readStdin(length)) ?? new Uint8Array(0);
  return call("read", undefined, undefined, () => host.read(fd, length, position));
}

function readSync(fd, buffer, offset, length, position) {
  if (offset !== null && typeof offset === "object") ({ offset, length, position } = offset);
  const target = bytesOf(buffer, "buffer");
  offset ??= 0;
  length ??= target.length - offset;
  checkInteger(offset, "offset", 0, target.length);
  checkInteger(length, "length", 0, target.length - offset);
  if (length === 0) return 0;
  const chunk = readChunk(
    checkFd(fd),
    length,
    position === null || position === undefined ? -1 : Number(position),
  );
  target.set(chunk, offset);
  return chunk.length;
}

function writeBytes(fd, data, position) {
  if (fd === 1 || fd === 2) {
    host.write(fd, data);
    return typeof data === "string" ? Buffer.byteLength(data) : data.length;
  }
  return call("write", undefined, undefined, () => host.writeAt(fd, data, position));
}

function writeSync(fd, data, offset, length, position) {
  checkFd(fd);
  if (typeof data === "string") {
    return writeBytes(fd, dataOf(data, length), typeof offset === "number" ? offset : -1);
  }
  if (offset !== null && typeof offset === "object") ({ offset, length, position } = offset);
  const bytes = dataOf(data);
  offset ??= 0;
  length ??= bytes.length - offset;
  checkInteger(offset, "offset", 0, bytes.length);
  checkInteger(length, "length", 0, bytes.length - offset);
  return writeBytes(
    fd,
    bytes.subarray(offset, offset + length),
    typeof position === "number" ? position : -1,
  );
}

function readvSync(fd, buffers, position) {
  let total = 0;
  for (const buffer of buffers) {
    const n = readSync(
      fd,
      buffer,
      0,
      buffer.byteLength,
      typeof position === "number" ? position + total : null,
    );
    total += n;
    if (n < buffer.byteLength) break;
  }
  return total;
}

function writevSync(fd, buffers, position) {
  let total = 0;
  for (const buffer of buffers) {
    total += writeSync(
      fd,
      buffer,
      0,
      buffer.byteLength,
      typeof position === "number" ? position + total : null,
    );
  }
  return total;
}

function fstatSync(fd, { bigint = false } = {}) {
  if (checkFd(fd) <= 2)
    return new Stats(
      { type: "other", mode: 0o600, size: 0, ino: 0, dev: 0, nlink: 1, atime: 0, mtime: 0, ctime: 0 },
      bigint,
    );
  return new Stats(JSON.parse(call("fstat", undefined, undefined, () => host.fstat(fd))), bigint);
}

function ftruncateSync(fd, length = 0) {
  checkFd(fd);
  call("ftruncate", undefined, undefined, () => host.truncate(fd, Math.max(0, length)));
}

function futimesSync(fd, atime, mtime) {
  const [a, m] = [milliseconds(atime, "atime"), milliseconds(mtime, "mtime")];
  call("futime", undefined, undefined, () => host.futimes(checkFd(fd), a, m));
}

function withFile(path, flags, mode, f) {
  const fd = openSync(path, flags, mode);
  try {
    return f(fd);
  } finally {
    closeSync(fd);
  }
}

module.exports = {
  closeSync,
  fstatSync,
  ftruncateSync,
  futimesSync,
  openSync,
  readChunk,
  readRest,
  readSync,
  readvSync,
  withFile,
  writeBytes,
  writeSync,
  writevSync,
};
