"use strict";
// The module fs: what each function does, once, as a synchronous function. The
// versions with callbacks and promises are made of these in fs_async.js, and
// those for open files are in fs_descriptors.js.

const { codedError, invalidArgType, systemError } = require("errors");
const { Dir, Dirent, Stats } = require("fs_types");
const {
  call,
  checkFd,
  dataOf,
  encoded,
  full,
  milliseconds,
  modeOf,
  named,
  optionsOf,
  pathOf,
} = require("fs_common");
const descriptors = require("fs_descriptors");
const { constants } = require("fs_flags");

const { closeSync, fstatSync, ftruncateSync, openSync, readChunk, readRest, withFile, writeBytes } =
  descriptors;
const { futimesSync, readSync, readvSync, writeSync, writevSync } = descriptors;

// ---- whole files ----

function readFileSync(path, options) {
  const { encoding, flag = "r" } = optionsOf(options);
  if (typeof path === "number") return encoded(readRest(checkFd(path)), encoding);
  path = pathOf(path);
  if (path === "/dev/stdin") return encoded(readRest(0), encoding);
  if (flag !== "r") return encoded(withFile(path, flag, undefined, readRest), encoding);
  let bytes;
  try {
    bytes = host.readFile(full(path));
  } catch (code) {
    // node opens a directory without complaint and then cannot read it.
    if (code === "EISDIR") throw systemError(code, "read");
    throw systemError(code, "open", path);
  }
  return encoded(bytes, encoding);
}

function writeFileSync(path, data, options) {
  const { encoding, flag = "w", mode } = optionsOf(options);
  if (typeof data !== "string" && !ArrayBuffer.isView(data)) {
    throw invalidArgType("data", "of type string or an instance of Buffer, TypedArray, or DataView", data);
  }
  const content = dataOf(data, encoding ?? undefined);
  if (typeof path === "number") {
    writeBytes(checkFd(path), content, -1);
    return;
  }
  path = pathOf(path);
  const own = { "/dev/stdout": 1, "/dev/stderr": 2 }[path];
  if (own) writeBytes(own, content, -1);
  else if (path !== "/dev/null") withFile(path, flag, mode, (fd) => writeBytes(fd, content, -1));
}

function appendFileSync(path, data, options) {
  writeFileSync(path, data, { flag: "a", ...optionsOf(options) });
}

function copyFileSync(src, dest, mode = 0) {
  src = pathOf(src, "src");
  dest = pathOf(dest, "dest");
  const wrapError = (err) => systemError(err.code, "copyfile", src, dest);
  try {
    if (full(src) === full(dest)) return;
    const from = openSync(src);
    try {
      if (fstatSync(from).isDirectory()) throw systemError("EISDIR", "copyfile");
      withFile(dest, mode & constants.COPYFILE_EXCL ? "wx" : "w", fstatSync(from).mode & 0o777, (to) => {
        for (;;) {
          const chunk = readChunk(from, 1 << 20, -1);
          if (chunk.length === 0) break;
          writeBytes(to, chunk, -1);
        }
      });
    } finally {
      closeSync(from);
    }
  } catch (err) {
    throw wrapError(err);
  }
}

function truncateSync(path, length = 0) {
  if (typeof path === "number") return ftruncateSync(path, length);
  return withFile(path, "r+", undefined, (fd) => ftruncateSync(fd, length));
}

// ---- names ----

function statWith(syscall, follow) {
  return (path, { bigint = false, throwIfNoEntry = true } = {}) => {
    path = pathOf(path);
    try {
      return new Stats(
        JSON.parse(call(syscall, path, undefined, () => host.stat(full(path), follow))),
        bigint,
      );
    } catch (err) {
      if (!throwIfNoEntry && (err.code === "ENOENT" || err.code === "ENOTDIR")) return undefined;
      throw err;
    }
  };
}

const statSync = statWith("stat", true);
const lstatSync = statWith("lstat", false);

function existsSync(path) {
  try {
    host.stat(full(pathOf(path)), true);
    return true;
  } catch {
    return false;
  }
}

function accessSync(path, mode = constants.F_OK) {
  path = pathOf(path);
  const st = JSON.parse(call("access", path, undefined, () => host.stat(full(path), true)));
  if (mode & constants.W_OK && full(path).startsWith("/run/")) throw systemError("EROFS", "access", path);
  if (mode & constants.X_OK && !(st.mode & 0o111)) throw systemError("EACCES", "access", path);
}

function mkdirSync(path, options) {
  if (typeof options === "number" || typeof options === "string") options = { mode: options };
  const { recursive = false, mode } = options ?? {};
  path = pathOf(path);
  const bits = modeOf(mode, 0o777);
  if (!recursive) {
    call("mkdir", path, undefined, () => host.mkdir(full(path), bits));
    return undefined;
  }
  const missing = [];
  for (let p = full(path); ; p = require("path").dirname(p)) {
    const st = statSync(p, { throwIfNoEntry: false });
    if (st?.isDirectory() || p === "/") break;
    if (st) throw systemError(missing.length === 0 ? "EEXIST" : "ENOTDIR", "mkdir", path);
    missing.push(p);
  }
  for (const p of [...missing].reverse()) call("mkdir", path, undefined, () => host.mkdir(p, bits));
  return missing.at(-1);
}

function mkdtempSync(prefix, options) {
  prefix = pathOf(prefix, "prefix");
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const suffix = Array.from(host.random(6), (b) => letters[b % letters.length]).join("");
  const path = prefix + suffix;
  call("mkdtemp", `${prefix}XXXXXX`, undefined, () => host.mkdir(full(path), 0o700));
  return named(path, optionsOf(options).encoding);
}

function entriesOf(path, syscall = "scandir") {
  const list = JSON.parse(call(syscall, path, undefined, () => host.readdir(full(path))));
  return list.sort(([a], [b]) => (a < b ? -1 : 1));
}

function readdirSync(path, options) {
  const { withFileTypes = false, recursive = false, encoding } = optionsOf(options);
  path = pathOf(path);
  const out = [];
  const walk = (dir, below) => {
    for (const [name, type] of entriesOf(dir)) {
      const relative = below === "" ? name : `${below}/${name}`;
      out.push(withFileTypes ? new Dirent(name, type, dir) : named(relative, encoding));
      if (recursive && type === "directory") walk(`${dir.replace(/\/$/, "")}/${name}`, relative);
    }
  };
  walk(path, "");
  return out;
}

function opendirSync(path) {
  path = pathOf(path);
  return new Dir(
    path,
    entriesOf(path, "opendir").map(([name, type]) => new Dirent(name, type, path)),
  );
}

function renameSync(from, to) {
  from = pathOf(from, "oldPath");
  to = pathOf(to, "newPath");
  call("rename", from, to, () => host.rename(full(from), full(to)));
}

function unlinkSync(path) {
  path = pathOf(path);
  call("unlink", path, undefined, () => host.unlink(full(path)));
}

function rmdirSync(path, { recursive = false } = {}) {
  path = pathOf(path);
  if (recursive) return rmSync(path, { recursive, force: true });
  return call("rmdir", path, undefined, () => host.rmdir(full(path)));
}

function rmSync(path, { recursive = false, force = false } = {}) {
  path = pathOf(path);
  const st = lstatSync(path, { throwIfNoEntry: false });
  if (!st) {
    if (force) return;
    throw systemError("ENOENT", "lstat", path);
  }
  if (!st.isDirectory()) {
    unlinkSync(path);
    return;
  }
  if (!recursive) {
    const err = codedError(
      Error,
      "ERR_FS_EISDIR",
      `Path is a directory: rm returned EISDIR (is a directory) ${path}`,
    );
    err.name = "SystemError";
    throw Object.assign(err, { errno: 21, syscall: "rm", path });
  }
  for (const [name] of entriesOf(path)) rmSync(`${path}/${name}`, { recursive, force: true });
  call("rm", path, undefined, () => host.rmdir(full(path)));
}

function cpSync(src, dest, options = {}) {
  const { recursive = false, force = true, errorOnExist = false, filter = () => true } = options;
  src = pathOf(src, "src");
  dest = pathOf(dest, "dest");
  if (!filter(src, dest)) return;
  const st = lstatSync(src);
  if (st.isDirectory()) {
    if (!recursive) {
      const err = codedError(
        Error,
        "ERR_FS_EISDIR",
        `Recursive option not enabled, cannot copy a directory: ${src}`,
      );
      throw Object.assign(err, { errno: 21, syscall: "cp", path: src });
    }
    if (`${full(dest)}/`.startsWith(`${full(src)}/`)) {
      throw codedError(Error, "ERR_FS_CP_EINVAL", `Cannot copy ${src} to a subdirectory of self ${dest}`);
    }
    mkdirSync(dest, { recursive: true });
    for (const [name] of entriesOf(src)) cpSync(`${src}/${name}`, `${dest}/${name}`, options);
    return;
  }
  if (existsSync(dest)) {
    if (errorOnExist && !force) throw codedError(Error, "ERR_FS_CP_EEXIST", `Target already exists: ${dest}`);
    if (!force) return;
  }
  mkdirSync(require("path").dirname(full(dest)), { recursive: true });
  if (st.isSymbolicLink()) {
    rmSync(dest, { force: true });
    symlinkSync(readlinkSync(src), dest);
  } else {
    copyFileSync(src, dest);
  }
}

function linkSync(from, to) {
  from = pathOf(from, "existingPath");
  to = pathOf(to, "newPath");
  call("link", from, to, () => host.link(full(from), full(to)));
}

function symlinkSync(target, path) {
  target = pathOf(target, "target");
  path = pathOf(path);
  call("symlink", target, path, () => host.symlink(target, full(path)));
}

function readlinkSync(path, options) {
  path = pathOf(path);
  return named(
    call("readlink", path, undefined, () => host.readlink(full(path))),
    optionsOf(options).encoding,
  );
}

function realpathSync(path, options) {
  path = pathOf(path);
  let real = "";
  let rest = full(path).split("/").filter(Boolean);
  for (let links = 0; rest.length > 0;) {
    const next = `${real}/${rest.shift()}`;
    const st = JSON.parse(call("lstat", path, undefined, () => host.stat(next, false)));
    if (st.type !== "symlink") {
      real = next;
      continue;
    }
    if (++links > 40) throw systemError("ELOOP", "lstat", path);
    const target = require("path").resolve(
      real || "/",
      call("readlink", path, undefined, () => host.readlink(next)),
    );
    rest = [...target.split("/").filter(Boolean), ...rest];
    real = "";
  }
  return named(real || "/", optionsOf(options).encoding);
}
realpathSync.native = realpathSync;

function chmodSync(path, mode) {
  path = pathOf(path);
  const bits = modeOf(mode, 0);
  call("chmod", path, undefined, () => host.chmod(full(path), bits));
}

function utimesSync(path, atime, mtime) {
  path = pathOf(path);
  const [a, m] = [milliseconds(atime, "atime"), milliseconds(mtime, "mtime")];
  call("utime", path, undefined, () => host.utimes(full(path), a, m));
}

function globSync(patterns, { cwd = process.cwd(), exclude = () => false, withFileTypes = false } = {}) {
  const { toRegExp } = require("glob");
  const tests = [patterns].flat().map(toRegExp);
  const all = readdirSync(pathOf(cwd), { recursive: true, withFileTypes });
  const relative = (entry) => {
    if (!withFileTypes) return entry;
    return require("path").relative(pathOf(cwd), `${entry.parentPath}/${entry.name}`);
  };
  return all.filter((entry) => tests.some((t) => t.test(relative(entry))) && !exclude(entry));
}

/** What the sandbox has one owner and one disk for. */
const nothing = () => undefined;

module.exports = {
  accessSync,
  appendFileSync,
  chmodSync,
  chownSync: nothing,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  fchmodSync: nothing,
  fchownSync: nothing,
  fdatasyncSync: nothing,
  fstatSync,
  fsyncSync: nothing,
  ftruncateSync,
  futimesSync,
  globSync,
  lchownSync: nothing,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  opendirSync,
  readFileSync,
  readSync,
  readdirSync,
  readlinkSync,
  readvSync,
  realpathSync,
  renameSync,
  rmSync,
  rmdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
  writevSync,
};
