"use strict";
// What the functions of the module fs share: arguments and errors.

const { Buffer, wrap } = require("buffer");
const { bytesOf } = require("encoding");
const { checkInteger, invalidArgType, invalidArgValue, systemError } = require("errors");

/** Calls the host; what it throws becomes an error of the file system. */
function call(syscall, path, dest, f) {
  try {
    return f();
  } catch (code) {
    if (typeof code !== "string") throw code;
    throw systemError(code, syscall, path, dest);
  }
}

/** Converts a path to a string as the caller wrote it. */
function pathOf(path, name = "path") {
  if (path instanceof URL) path = require("url").fileURLToPath(path);
  else if (ArrayBuffer.isView(path)) path = Buffer.from(bytesOf(path)).toString();
  if (typeof path !== "string")
    throw invalidArgType(name, "of type string or an instance of Buffer or URL", path);
  if (path.includes("\0"))
    throw invalidArgValue(name, path, "must be a string, Uint8Array, or URL without null bytes");
  return path;
}

const full = (path) => (path === "" ? "" : require("path").resolve(path));

function optionsOf(options, defaults = {}) {
  if (typeof options === "string") return { ...defaults, encoding: options };
  if (options !== undefined && options !== null && typeof options !== "object") {
    throw invalidArgType("options", "of type string or an instance of Object", options);
  }
  return { ...defaults, ...options };
}

function encoded(bytes, encoding) {
  const buffer = wrap(bytes);
  return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
}

function named(text, encoding) {
  return encoding === "buffer" ? Buffer.from(text) : text;
}

function modeOf(mode, fallback) {
  if (mode === undefined || mode === null) return fallback;
  if (typeof mode === "string" && /^[0-7]+$/.test(mode)) return parseInt(mode, 8);
  checkInteger(mode, "mode", 0, 2 ** 32 - 1);
  return mode;
}

function checkFd(fd) {
  checkInteger(fd, "fd", 0, 2 ** 31 - 1);
  return fd;
}

function dataOf(data, encoding) {
  if (typeof data === "string")
    return encoding === undefined || encoding === "utf8" ? data : Buffer.from(data, encoding);
  if (ArrayBuffer.isView(data)) return bytesOf(data);
  throw invalidArgType("data", "of type string or an instance of Buffer, TypedArray, or DataView", data);
}

function milliseconds(time, name) {
  if (typeof time === "string" && time.trim() !== "" && Number.isFinite(Number(time)))
    return Number(time) * 1000;
  if (typeof time === "number" && Number.isFinite(time)) return time * 1000;
  if (time instanceof Date) return time.getTime();
  throw invalidArgType(name, "an instance of Date or of type number or string", time);
}

module.exports = { call, checkFd, dataOf, encoded, full, milliseconds, modeOf, named, optionsOf, pathOf };
