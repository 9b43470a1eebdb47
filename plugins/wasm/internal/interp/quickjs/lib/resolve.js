"use strict";
// Finds the file that a module's name stands for.

const path = require("path");
const { codedError } = require("errors");

const extensions = [".js", ".json", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx"];
const typescriptOf = { ".js": [".ts", ".tsx"], ".mjs": [".mts"], ".cjs": [".cts"], ".jsx": [".tsx"] };

let entryDir = "/";
let dataDir = "/";

/** Tells where the program's entry is and where its other files are. */
function start(options) {
  entryDir = options.entryDir;
  dataDir = options.cwd;
}

function typeOf(file) {
  try {
    return host.type(file);
  } catch {
    return "";
  }
}

const isFile = (file) => typeOf(file) === "file";

function readText(file) {
  return host.utf8Decode(host.readFile(file), false).replace(/^\ufeff/, "");
}

const packages = new Map(); // content of package.json by directory

/** Returns the package.json of a directory, undefined if it has none. */
function packageOf(dir) {
  if (packages.has(dir)) return packages.get(dir);
  const file = path.join(dir, "package.json");
  let content;
  if (isFile(file)) {
    try {
      content = JSON.parse(readText(file));
    } catch (err) {
      throw codedError(Error, "ERR_INVALID_PACKAGE_CONFIG", `Invalid package config ${file}: ${err.message}`);
    }
  }
  packages.set(dir, content);
  return content;
}

/** Finds the package that a file belongs to: { dir, content }, or undefined. */
function scopeOf(file) {
  for (let dir = path.dirname(file); ; dir = path.dirname(dir)) {
    if (path.basename(dir) === "node_modules") return undefined;
    const content = packageOf(dir);
    if (content) return { dir, content };
    if (dir === "/" || dir === ".") return undefined; // "." is that of "[eval]"
  }
}

/** A file as named, with an extension left out, or the TypeScript behind a ".js". */
function asFile(file) {
  if (isFile(file)) return file;
  for (const ext of extensions) if (isFile(file + ext)) return file + ext;
  const ext = path.extname(file);
  for (const other of typescriptOf[ext] ?? []) {
    const candidate = file.slice(0, -ext.length) + other;
    if (isFile(candidate)) return candidate;
  }
  return undefined;
}

function asPath(file) {
  const found = file.endsWith("/") ? undefined : asFile(file);
  if (found) return found;
  if (typeOf(file) !== "directory") return undefined;
  const main = packageOf(file)?.main;
  if (typeof main === "string") {
    const target = path.join(file, main);
    const inside = asFile(target) ?? asFile(path.join(target, "index"));
    if (inside) return inside;
  }
  return asFile(path.join(file, "index"));
}

/** Chooses the target of an entry of "exports" or "imports" by conditions. */
function choose(target, conditions) {
  if (typeof target === "string") return target;
  if (Array.isArray(target)) {
    for (const t of target) {
      const chosen = choose(t, conditions);
      if (chosen) return chosen;
    }
    return undefined;
  }
  if (target === null || typeof target !== "object") return undefined;
  for (const [condition, t] of Object.entries(target)) {
    if (!conditions.includes(condition)) continue;
    const chosen = choose(t, conditions);
    if (chosen) return chosen;
  }
  return undefined;
}

/** Looks a key up in "exports" or "imports", where keys may have a "*". */
function lookUp(table, key, conditions) {
  if (Object.hasOwn(table, key)) return choose(table[key], conditions);
  let best = "";
  for (const pattern of Object.keys(table)) {
    const [head, tail, extra] = pattern.split("*");
    if (tail === undefined || extra !== undefined) continue;
    if (
      key.startsWith(head) &&
      key.endsWith(tail) &&
      key.length >= pattern.length &&
      head.length > best.length
    )
      best = pattern;
  }
  if (best === "") return undefined;
  const [head, tail] = best.split("*");
  const middle = key.slice(head.length, key.length - tail.length);
  return choose(table[best], conditions)?.replaceAll("*", middle);
}

function exported(dir, content, subpath, conditions) {
  let table = content.exports;
  const isTable =
    table !== null &&
    typeof table === "object" &&
    !Array.isArray(table) &&
    Object.keys(table).some((k) => k.startsWith("."));
  if (!isTable) table = { ".": table };
  const target = lookUp(table, subpath, conditions);
  if (target) return path.join(dir, target);
  throw codedError(
    Error,
    "ERR_PACKAGE_PATH_NOT_EXPORTED",
    `Package subpath '${subpath}' is not defined by "exports" in ${path.join(dir, "package.json")}`,
  );
}

function asPackage(name, from, conditions) {
  const [, pkg, rest] = /^((?:@[^/]+\/)?[^/]+)(.*)$/.exec(name);
  const dirs = [];
  for (let dir = from; ; dir = path.dirname(dir)) {
    dirs.push(dir);
    if (dir === "/") break;
  }
  if (from === entryDir || from.startsWith(`${entryDir}/`)) dirs.push(dataDir);
  for (const dir of dirs) {
    const root = path.join(dir, "node_modules", pkg);
    const content = packageOf(root);
    if (content?.exports !== undefined && content.exports !== null)
      return exported(root, content, `.${rest}`, conditions);
    const found = asPath(root + rest);
    if (found) return found;
  }
  const own = scopeOf(path.join(from, "x"));
  if (own?.content.name === pkg && own.content.exports)
    return exported(own.dir, own.content, `.${rest}`, conditions);
  return undefined;
}

function find(name, from, conditions) {
  if (/^\.{0,2}\//.test(name) || name === "." || name === "..") {
    const found = asPath(path.resolve(from, name) + (name.endsWith("/") ? "/" : ""));
    if (found) return found;
    // The program's own source lies apart from the files it works with.
    if (!name.startsWith("/") && (from === entryDir || from.startsWith(`${entryDir}/`))) {
      return asPath(path.resolve(dataDir, path.relative(entryDir, from), name));
    }
    return undefined;
  }
  if (name.startsWith("#")) {
    const own = scopeOf(path.join(from, "x"));
    const target = own && lookUp(own.content.imports ?? {}, name, conditions);
    if (!target) return undefined;
    return target.startsWith(".") ? path.join(own.dir, target) : asPackage(target, own.dir, conditions);
  }
  return asPackage(name, from, conditions);
}

/**
 * Returns the absolute path of the file that a name stands for in a module of
 * the directory from; undefined if there is none.
 */
function resolveFile(name, from, kind) {
  if (name.startsWith("file:")) name = require("url").fileURLToPath(name);
  return find(name, from, ["node", kind, "module-sync", "default"]);
}

module.exports = { isFile, readText, resolveFile, scopeOf, start };
