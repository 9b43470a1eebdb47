"use strict";
// Errors that look like node's: codes, numbers and texts that programs test for.

const { inspect } = require("inspect");

// Linux error numbers, as node shows them.
const systemErrors = {
  E2BIG: [7, "argument list too long"],
  EACCES: [13, "permission denied"],
  EBADF: [9, "bad file descriptor"],
  EEXIST: [17, "file already exists"],
  EFBIG: [27, "file too large"],
  EINVAL: [22, "invalid argument"],
  EIO: [5, "i/o error"],
  EISDIR: [21, "illegal operation on a directory"],
  ELOOP: [40, "too many symbolic links encountered"],
  EMFILE: [24, "too many open files"],
  ENAMETOOLONG: [36, "name too long"],
  ENOENT: [2, "no such file or directory"],
  ENOMEM: [12, "not enough memory"],
  ENOSPC: [28, "no space left on device"],
  ENOSYS: [38, "function not implemented"],
  ENOTDIR: [20, "not a directory"],
  ENOTEMPTY: [39, "directory not empty"],
  ENOTSUP: [95, "operation not supported on socket"],
  EPERM: [1, "operation not permitted"],
  EROFS: [30, "read-only file system"],
  EXDEV: [18, "cross-device link not permitted"],
};

/** Makes the error of a failed system call. */
function systemError(code, syscall, path, dest) {
  const [errno, text] = systemErrors[code] ?? systemErrors.EIO;
  let message = `${code}: ${text}, ${syscall}`;
  if (path !== undefined) message += ` '${path}'`;
  if (dest !== undefined) message += ` -> '${dest}'`;
  const err = new Error(message);
  err.errno = -errno;
  err.code = code;
  err.syscall = syscall;
  if (path !== undefined) err.path = path;
  if (dest !== undefined) err.dest = dest;
  return err;
}

/** Makes an error with a code, which its stack shows in brackets. */
function codedError(Base, code, message) {
  const err = new Base(message);
  err.stack = err.stack.replace(err.name, `${err.name} [${code}]`);
  err.code = code;
  Object.defineProperty(err, "toString", {
    value() {
      return `${this.name} [${code}]: ${this.message}`;
    },
    configurable: true,
    writable: true,
  });
  return err;
}

/** Describes a value of the wrong type. */
function received(value) {
  if (value == null) return ` Received ${value}`;
  if (typeof value === "function") return ` Received function ${value.name}`;
  if (typeof value === "object") {
    if (value.constructor?.name) return ` Received an instance of ${value.constructor.name}`;
    return ` Received ${inspect(value, { depth: -1 })}`;
  }
  let text = inspect(value, { colors: false });
  if (text.length > 28) text = `${text.slice(0, 25)}...`;
  return ` Received type ${typeof value} (${text})`;
}

function invalidArgType(name, expected, actual) {
  const what = name.includes(".") ? "property" : "argument";
  const subject = name.endsWith(" argument") ? name : `"${name}" ${what}`;
  return codedError(
    TypeError,
    "ERR_INVALID_ARG_TYPE",
    `The ${subject} must be ${expected}.${received(actual)}`,
  );
}

function invalidArgValue(name, actual, reason = "is invalid") {
  const what = name.includes(".") ? "property" : "argument";
  let text = inspect(actual);
  if (text.length > 128) text = `${text.slice(0, 128)}...`;
  return codedError(TypeError, "ERR_INVALID_ARG_VALUE", `The ${what} '${name}' ${reason}. Received ${text}`);
}

function outOfRange(name, range, actual) {
  let text = String(actual);
  if (Number.isInteger(actual) && Math.abs(actual) > 2 ** 32) {
    text = text.replace(/\B(?=(\d{3})+$)/g, "_");
  }
  return codedError(
    RangeError,
    "ERR_OUT_OF_RANGE",
    `The value of "${name}" is out of range. It must be ${range}. Received ${text}`,
  );
}

/** The error of everything that the sandbox does not have. */
function unsupported(what, reason) {
  const err = new Error(`${what}: ${reason}`);
  err.code = "ERR_SANDBOX_UNSUPPORTED";
  return err;
}

function checkFunction(value, name) {
  if (typeof value !== "function") throw invalidArgType(name, "of type function", value);
}

function checkString(value, name) {
  if (typeof value !== "string") throw invalidArgType(name, "of type string", value);
}

function checkInteger(value, name, min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== "number") throw invalidArgType(name, "of type number", value);
  if (!Number.isInteger(value)) throw outOfRange(name, "an integer", value);
  if (value < min || value > max) throw outOfRange(name, `>= ${min} && <= ${max}`, value);
}

module.exports = {
  checkFunction,
  checkInteger,
  checkString,
  codedError,
  invalidArgType,
  invalidArgValue,
  outOfRange,
  systemError,
  systemErrors,
  unsupported,
};
