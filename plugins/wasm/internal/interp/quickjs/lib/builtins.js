"use strict";
// The modules that programs can import, and why the others are missing.

const { codedError, unsupported } = require("errors");

const available = {
  assert: () => require("assert"),
  "assert/strict": () => require("assert").strict,
  buffer: () => require("buffer_module"),
  console: () => globalThis.console,
  constants: () => ({ ...require("fs_flags").constants, ...require("os").constants.signals }),
  crypto: () => require("crypto"),
  events: () => require("events"),
  fs: () => require("fs_async"),
  "fs/promises": () => require("fs_async").promises,
  module: () => require("modules").Module,
  os: () => require("os"),
  path: () => require("path"),
  "path/posix": () => require("path"),
  perf_hooks: () => ({ performance: globalThis.performance, constants: {} }),
  process: () => globalThis.process,
  punycode: () => require("punycode"),
  querystring: () => require("querystring"),
  readline: () => require("readline"),
  "readline/promises": () => require("readline").promises,
  stream: () => require("stream"),
  "stream/promises": () => require("stream").promises,
  string_decoder: () => require("string_decoder"),
  sys: () => require("util"),
  timers: () => require("timers").timers,
  "timers/promises": () => require("timers").promises,
  tty: () => ({ isatty: () => false }),
  url: () => require("url"),
  util: () => require("util"),
  "util/types": () => require("types"),
};

const noNetwork = "this sandbox has no network";
const noProcesses = "this sandbox cannot start processes";
const noThreads = "this sandbox has no threads";
const notHere = "this sandbox does not have it";

const missing = {
  async_hooks: notHere,
  child_process: noProcesses,
  cluster: noProcesses,
  dgram: noNetwork,
  diagnostics_channel: notHere,
  dns: noNetwork,
  "dns/promises": noNetwork,
  domain: notHere,
  http: noNetwork,
  http2: noNetwork,
  https: noNetwork,
  inspector: notHere,
  net: noNetwork,
  repl: notHere,
  sqlite: notHere,
  "stream/web": notHere,
  test: notHere,
  tls: noNetwork,
  trace_events: notHere,
  v8: notHere,
  vm: notHere,
  wasi: notHere,
  worker_threads: noThreads,
  zlib: notHere,
};

const onlyWithScheme = ["sqlite", "test"];

const bare = (name) => name.replace(/^node:/, "");

/** Tells whether a name stands for a module of node, whether it is here or not. */
function isBuiltin(name) {
  const plain = bare(name);
  if (onlyWithScheme.includes(plain)) return name !== plain;
  return Object.hasOwn(available, plain) || Object.hasOwn(missing, plain);
}

/** Returns a module of node. */
function builtin(name) {
  const plain = bare(name);
  if (Object.hasOwn(available, plain)) return available[plain]();
  if (Object.hasOwn(missing, plain)) throw unsupported(`node:${plain}`, missing[plain]);
  throw codedError(Error, "ERR_UNKNOWN_BUILTIN_MODULE", `No such built-in module: ${name}`);
}

module.exports = { builtin, builtinModules: Object.keys(available).sort(), isBuiltin };
