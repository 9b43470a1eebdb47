"use strict";
// POSIX paths.

const { checkString, unsupported } = require("errors");

/** Resolves "." and ".." in the segments of a path. */
function simplify(path, absolute) {
  const out = [];
  for (const segment of path.split("/")) {
    if (segment === "" || segment === ".") continue;
    if (segment !== "..") out.push(segment);
    else if (out.length > 0 && out.at(-1) !== "..") out.pop();
    else if (!absolute) out.push("..");
  }
  return out.join("/");
}

function normalize(path) {
  checkString(path, "path");
  if (path === "") return ".";
  const absolute = path.startsWith("/");
  let result = simplify(path, absolute);
  if (result === "") {
    if (absolute) return "/";
    return path.endsWith("/") ? "./" : ".";
  }
  if (path.endsWith("/")) result += "/";
  return absolute ? `/${result}` : result;
}

function resolve(...paths) {
  let path = "";
  for (let i = paths.length - 1; i >= 0 && !path.startsWith("/"); i--) {
    checkString(paths[i], `paths[${i}]`);
    if (paths[i] !== "") path = path === "" ? paths[i] : `${paths[i]}/${path}`;
  }
  if (!path.startsWith("/")) path = `${process.cwd()}/${path}`;
  return `/${simplify(path, true)}`;
}

function join(...paths) {
  for (const p of paths) checkString(p, "path");
  const joined = paths.filter((p) => p !== "").join("/");
  return joined === "" ? "." : normalize(joined);
}

function isAbsolute(path) {
  checkString(path, "path");
  return path.startsWith("/");
}

function relative(from, to) {
  const a = resolve(from).split("/").filter(Boolean);
  const b = resolve(to).split("/").filter(Boolean);
  let common = 0;
  while (common < a.length && common < b.length && a[common] === b[common]) common++;
  return [...a.slice(common).map(() => ".."), ...b.slice(common)].join("/");
}

function withoutTrailing(path) {
  return path.replace(/(?<=.)\/+$/, "");
}

function dirname(path) {
  checkString(path, "path");
  if (path === "") return ".";
  const trimmed = withoutTrailing(path);
  const at = trimmed.lastIndexOf("/");
  if (at < 0) return ".";
  return at === 0 ? "/" : trimmed.slice(0, at);
}

function basename(path, suffix) {
  checkString(path, "path");
  if (suffix !== undefined) checkString(suffix, "ext");
  if (suffix && suffix === path) return "";
  const trimmed = withoutTrailing(path);
  const base = trimmed.slice(trimmed.lastIndexOf("/") + 1);
  if (suffix && base.endsWith(suffix) && base !== suffix) return base.slice(0, -suffix.length);
  return base;
}

function extname(path) {
  const base = basename(path);
  const at = base.lastIndexOf(".");
  return at <= 0 || base === ".." ? "" : base.slice(at);
}

function parse(path) {
  checkString(path, "path");
  const root = path.startsWith("/") ? "/" : "";
  const base = basename(path);
  const ext = extname(path);
  const trimmed = withoutTrailing(path);
  let dir = trimmed.slice(0, Math.max(0, trimmed.length - base.length));
  dir = dir === "/" ? "/" : dir.replace(/\/$/, "");
  return { root, dir: dir || root, base, ext, name: ext ? base.slice(0, -ext.length) : base };
}

function format({ root = "", dir, base, name = "", ext = "" }) {
  const dotted = ext && !ext.startsWith(".") ? `.${ext}` : ext;
  const file = base ?? `${name}${dotted}`;
  if (!dir) return `${root}${file}`;
  return dir === root ? `${dir}${file}` : `${dir}/${file}`;
}

/** Tells whether a path matches a pattern with *, **, ?, [] and {}. */
function matchesGlob(path, pattern) {
  return require("glob").toRegExp(pattern).test(path);
}

const path = {
  sep: "/",
  delimiter: ":",
  basename,
  dirname,
  extname,
  format,
  isAbsolute,
  join,
  matchesGlob,
  normalize,
  parse,
  relative,
  resolve,
  toNamespacedPath: (p) => p,
};
path.posix = path;
Object.defineProperty(path, "win32", {
  get() {
    throw unsupported("path.win32", "this sandbox has no Windows paths");
  },
});

module.exports = path;
