"use strict";
// CommonJS and ECMAScript modules.

const path = require("path");
const { builtin, builtinModules, isBuiltin } = require("builtins");
const { checkString, codedError, invalidArgValue } = require("errors");
const { define } = require("objects");
const { describeFile, placeOf } = require("stack");
const { isFile, readText, resolveFile, scopeOf } = require("resolve");

const wrapperHead = "(function (exports, require, module, __filename, __dirname) { ";
const wrapperTail = "\n})";

const cache = Object.create(null); // CommonJS modules by file
const sources = new Map(); // of files that are no files, such as [eval]

// Lets the source of made-up modules get at real objects.
const registry = new Map();
const registryKey = Symbol.for("caisson.modules");
define(globalThis, registryKey, registry);
const registryText = 'globalThis[Symbol.for("caisson.modules")]';

class Module {
  constructor(id = "", parent = undefined) {
    this.id = id;
    this.path = path.dirname(id);
    this.exports = {};
    this.filename = null;
    this.loaded = false;
    this.children = [];
    this.paths = [];
    define(this, "parent", parent);
    parent?.children.push(this);
  }

  require(name) {
    return requireFrom(this, name);
  }

  _compile(code, file) {
    const f = compileCommonJS(code, file, false);
    f.call(this.exports, this.exports, requireOf(this), this, file, path.dirname(file));
  }
}

/** The types of file whose content is not plain JavaScript. */
const isTypeScript = (file) => /\.(?:[cm]?ts|tsx)$/.test(file);

/** Reads a file as JavaScript: { code, mappings }, the latter for TypeScript. */
function readCode(file, typescript = false) {
  let code = sources.get(file) ?? readText(file);
  let mappings;
  if (typescript || isTypeScript(file) || file.endsWith(".jsx")) {
    try {
      ({ code, mappings } = JSON.parse(host.strip(code, file)));
    } catch (message) {
      if (typeof message !== "string") throw message;
      const err = codedError(SyntaxError, "ERR_INVALID_TYPESCRIPT_SYNTAX", message);
      err.compiler = message;
      throw err;
    }
  }
  return { code: code.replace(/^#!.*/, (line) => `//${line.slice(2)}`), mappings };
}

/** Tells what the name of a file says about its kind: undefined if nothing. */
function kindByName(file) {
  if (/\.m[jt]s$/.test(file)) return "module";
  if (/\.c[jt]s$/.test(file)) return "commonjs";
  if (file.endsWith(".json")) return "json";
  if (!file.startsWith("/")) return undefined;
  return { module: "module", commonjs: "commonjs" }[scopeOf(file)?.content.type];
}

function compileCommonJS(code, file, mappings) {
  describeFile(file, { shift: wrapperHead.length, mappings });
  return host.evalScript(wrapperHead + code + wrapperTail, file);
}

const mayBeModule = /\b(?:import|export|await)\b/;

/**
 * Compiles a file: { kind: "commonjs", f }, or { kind: "module", code, failure }
 * for what is no CommonJS, because of the failure if that had to be tried.
 */
function compile(file, typescript) {
  const kind = kindByName(file);
  const { code, mappings } = readCode(file, typescript);
  if (kind === "module") return { kind, code, mappings };
  try {
    return { kind: "commonjs", f: compileCommonJS(code, file, mappings), mappings };
  } catch (failure) {
    if (kind === "commonjs" || !(failure instanceof SyntaxError) || !mayBeModule.test(code)) throw failure;
    return { kind: "module", code, failure, mappings };
  }
}

/** Adds what import.meta has. The first line moves to the right by that. */
function moduleSource(file, code, mappings) {
  let head = "";
  if (code.includes("import.meta")) {
    registry.set("meta", (meta, name) => {
      meta.dirname = path.dirname(name);
      meta.filename = name;
      meta.resolve = (specifier) => toURL(resolveImport(name, specifier));
      meta.url = toURL(name);
    });
    head = `${registryText}.get("meta")(import.meta, ${JSON.stringify(file)});`;
  }
  describeFile(file, { shift: head.length, mappings });
  return head + code;
}

function toURL(name) {
  return name.startsWith("/") ? require("url").pathToFileURL(name).href : name;
}

/** Of two attempts at a file, the one that understood more of it is right. */
function betterError(asScript, asModule, file) {
  const [a, b] = [placeOf(asScript), placeOf(asModule)];
  if (!a || b?.file !== file || !(asModule instanceof SyntaxError)) return asModule;
  return a.line > b.line || (a.line === b.line && a.column > b.column) ? asScript : asModule;
}

/** Evaluates a module and returns the promise of its namespace. */
function evaluateModule(file, { code, failure, mappings }) {
  try {
    return host.evalModule(moduleSource(file, code, mappings), file);
  } catch (err) {
    throw failure ? betterError(failure, err, file) : err;
  }
}

// ---- CommonJS ----

function notFound(name, parent) {
  let text = `Cannot find module '${name}'`;
  const stack = [];
  for (let m = parent; m?.filename; m = m.parent) stack.push(m.filename);
  if (stack.length > 0) text += `\nRequire stack:\n- ${stack.join("\n- ")}`;
  const err = new Error(text);
  err.code = "MODULE_NOT_FOUND";
  err.requireStack = stack;
  return err;
}

function requireFrom(parent, name) {
  checkString(name, "id");
  if (name === "") throw invalidArgValue("id", name, "must be a non-empty string");
  if (isBuiltin(name) || name.startsWith("node:")) return builtin(name);
  const file = resolveFile(name, parent.path, "require");
  if (!file) throw notFound(name, parent);
  return loadFile(file, parent);
}

function loadFile(file, parent) {
  if (cache[file]) return cache[file].exports;
  const module = new Module(file, parent);
  module.filename = file;
  cache[file] = module;
  try {
    runFile(module, file);
  } catch (err) {
    delete cache[file];
    throw err;
  }
  module.loaded = true;
  return module.exports;
}

function runFile(module, file) {
  if (file.endsWith(".json")) {
    module.exports = parseJSON(file);
    return;
  }
  const compiled = compile(file);
  if (compiled.kind === "module") {
    module.exports = requireModule(file);
    return;
  }
  runCommonJS(module, compiled.f, file);
}

function runCommonJS(module, f, file) {
  f.call(module.exports, module.exports, requireOf(module), module, file, path.dirname(file));
}

function parseJSON(file) {
  try {
    return JSON.parse(readText(file));
  } catch (err) {
    err.message = `${file}: ${err.message}`;
    err.stack = `${err.name}: ${err.message}`;
    throw err;
  }
}

let required = 0;

/** require() of an ECMAScript module, which must not wait for anything. */
function requireModule(file) {
  const key = `require ${++required}`;
  const promise = host.evalModule(
    `import * as ns from ${JSON.stringify(file)}; ${registryText}.set(${JSON.stringify(key)}, ns);`,
    `node:internal/${key}`,
  );
  promise.then(undefined, () => {});
  if (registry.has(key)) {
    const namespace = registry.get(key);
    registry.delete(key);
    return namespace["module.exports"] ?? namespace;
  }
  host.drain();
  const [state, reason] = host.promise(promise);
  if (state === 2) throw reason;
  throw codedError(
    Error,
    "ERR_REQUIRE_ASYNC_MODULE",
    `require() cannot be used on an ESM graph with top-level await. Use import() instead: ${file}`,
  );
}

/** Makes the function require of a module. */
function requireOf(module) {
  const require = (name) => requireFrom(module, name);
  require.resolve = (name) => {
    if (isBuiltin(name)) return name;
    const file = resolveFile(name, module.path, "require");
    if (!file) throw notFound(name, module);
    return file;
  };
  require.main = Module.main;
  require.cache = cache;
  require.extensions = Object.create(null);
  return require;
}

function createRequire(from) {
  if (from instanceof URL || String(from).startsWith("file:")) from = require("url").fileURLToPath(from);
  const module = new Module(path.resolve(from));
  module.filename = module.id;
  if (String(from).endsWith("/")) module.path = path.resolve(from);
  return requireOf(module);
}

// ---- ECMAScript modules, as the engine asks for them ----

/** Returns the absolute name of what a module imports. */
function resolveImport(base, name) {
  if (isBuiltin(name)) return `node:${name.replace(/^node:/, "")}`;
  if (name.startsWith("node:")) builtin(name);
  if (name.startsWith("data:")) return name;
  if (/^(?!file:)[a-z][a-z0-9+.-]+:/i.test(name)) {
    throw codedError(
      Error,
      "ERR_UNSUPPORTED_ESM_URL_SCHEME",
      `Only URLs with a scheme in: file, data, and node are supported; this sandbox has no network. Received '${name}'`,
    );
  }
  const from = base.startsWith("/") ? path.dirname(base) : process.cwd();
  const file = resolveFile(name, from, "import");
  if (file) return file;
  const isPath = /^(?:\.{0,2}\/|file:)/.test(name);
  const what = isPath
    ? `module '${name.startsWith(".") ? path.resolve(from, name) : name}'`
    : `package '${name}'`;
  throw codedError(Error, "ERR_MODULE_NOT_FOUND", `Cannot find ${what} imported from ${base}`);
}

/** Returns the source of a module that the engine does not have yet. */
function loadModule(name) {
  if (name.startsWith("node:")) return synthetic(name, builtin(name));
  if (name.startsWith("data:")) return dataSource(name);
  const kind = kindByName(name);
  if (kind === "json") return synthetic(name, parseJSON(name), []);
  if (cache[name]?.loaded) return synthetic(name, cache[name].exports);
  const compiled = compile(name);
  if (compiled.kind === "module") return moduleSource(name, compiled.code, compiled.mappings);
  const module = new Module(name);
  module.filename = name;
  cache[name] = module;
  runCommonJS(module, compiled.f, name);
  module.loaded = true;
  return synthetic(name, module.exports);
}

function dataSource(url) {
  const [, type, base64, body] = /^data:([^,;]*)(?:;[^,;]*)*?(;base64)?,(.*)$/s.exec(url) ?? [];
  const text = base64
    ? Buffer.from(decodeURIComponent(body), "base64").toString()
    : decodeURIComponent(body ?? "");
  if (type === "application/json") return synthetic(url, JSON.parse(text), []);
  return text;
}

const identifier = /^[A-Za-z_$][\w$]*$/;

/** Writes a module that exports an object and, by name, what is in it. */
function synthetic(name, value, names = exportNames(value)) {
  registry.set(name, value);
  const lines = [`const value = ${registryText}.get(${JSON.stringify(name)}); export { value as default };`];
  names.forEach((n, i) => {
    lines.push(`const v${i} = value[${JSON.stringify(n)}]; export { v${i} as ${n} };`);
  });
  return lines.join("\n");
}

function exportNames(value) {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return [];
  const names = new Set(Object.keys(value));
  if (value === globalThis.process)
    for (const n of ["on", "once", "off", "emit", "stdin", "stdout", "stderr"]) names.add(n);
  return [...names].filter((n) => identifier.test(n) && n !== "default");
}

// ---- the program ----

/**
 * Runs the entry. Returns the promise of its end if it is an ECMAScript module.
 */
function runMain({ entry, source, typescript }) {
  if (source !== undefined) sources.set(entry, source);
  const file = source !== undefined || isFile(entry) ? entry : resolveFile(entry, process.cwd(), "require");
  if (!file) throw notFound(entry);
  const module = new Module(source === undefined ? "." : entry);
  module.filename = file;
  module.path = source === undefined ? path.dirname(file) : process.cwd();
  Module.main = process.mainModule = module;
  if (file.endsWith(".json")) {
    parseJSON(file);
    return undefined;
  }
  const compiled = compile(file, typescript);
  if (compiled.kind === "module") {
    Module.main = process.mainModule = undefined;
    // node refuses require together with top-level await; there is no harm in it.
    if (compiled.failure) define(globalThis, "require", requireOf(module));
    return evaluateModule(file, compiled);
  }
  cache[file] = module;
  if (source !== undefined) define(globalThis, "require", requireOf(module));
  runCommonJS(module, compiled.f, file);
  module.loaded = true;
  return undefined;
}

Object.assign(Module, {
  Module,
  _cache: cache,
  _extensions: Object.create(null),
  _load: (name, parent) => requireFrom(parent ?? new Module(path.join(process.cwd(), "x")), name),
  _resolveFilename: (name, parent) => resolveFile(name, parent?.path ?? process.cwd(), "require"),
  builtinModules,
  createRequire,
  isBuiltin,
  main: undefined,
  syncBuiltinESMExports() {},
});

module.exports = {
  Module,
  builtin: (name) => (isBuiltin(name) ? builtin(name) : undefined),
  loadModule,
  resolveImport,
  runMain,
  sources,
};
