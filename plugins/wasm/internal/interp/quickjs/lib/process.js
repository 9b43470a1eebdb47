"use strict";
// The global process.

const EventEmitter = require("events");
const { checkFunction, codedError, invalidArgType, systemError, unsupported } = require("errors");
const { define, lazy } = require("objects");
const { inspect } = require("inspect");

// The release of node whose behaviour this library follows.
const nodeVersion = "22.0.0";

const process = new EventEmitter();
Object.setPrototypeOf(
  process,
  Object.create(EventEmitter.prototype, {
    [Symbol.toStringTag]: { value: "process", configurable: true },
    constructor: { value: function process() {}, configurable: true, writable: true },
  }),
);

const state = { exiting: false, cwd: "/", exitCode: undefined, memory: 0 };
const ticks = [];

Object.assign(process, {
  title: "node",
  version: `v${nodeVersion}`,
  versions: { node: nodeVersion, quickjs: "0.18.0" },
  arch: "wasm32",
  platform: "linux",
  release: { name: "node" },
  argv: [],
  execArgv: [],
  env: {},
  pid: 1,
  ppid: 0,
  execPath: "/usr/local/bin/node",
  debugPort: 0,
  features: {},
  config: { target_defaults: {}, variables: {} },

  cwd: () => state.cwd,
  chdir(directory) {
    const path = require("path").resolve(directory);
    let st;
    try {
      st = JSON.parse(host.stat(path, true));
    } catch (code) {
      throw systemError(code, "chdir", state.cwd, directory);
    }
    if (st.type !== "directory") throw systemError("ENOTDIR", "chdir", state.cwd, directory);
    state.cwd = path;
  },
  umask: () => 0o022,
  getuid: () => 1000,
  geteuid: () => 1000,
  getgid: () => 1000,
  getegid: () => 1000,
  getgroups: () => [1000],

  nextTick(callback, ...args) {
    checkFunction(callback, "callback");
    if (!state.exiting) ticks.push({ callback, args });
  },

  exit(code) {
    if (code !== undefined) process.exitCode = code;
    host.exit(runExitHandlers());
  },
  reallyExit: (code) => host.exit(code ?? 0),
  abort: () => host.exit(134),
  kill(pid, signal = "SIGTERM") {
    if (pid !== process.pid) throw systemError("ESRCH", "kill");
    if (signal === 0) return true;
    host.exit({ SIGKILL: 137, SIGINT: 130 }[signal] ?? 143);
    return true;
  },

  hrtime: Object.assign(
    (since) => {
      let [seconds, nanoseconds] = clock();
      if (since !== undefined) {
        if (!Array.isArray(since)) throw invalidArgType("time", "an instance of Array", since);
        seconds -= since[0];
        nanoseconds -= since[1];
        if (nanoseconds < 0) {
          seconds--;
          nanoseconds += 1e9;
        }
      }
      return [seconds, nanoseconds];
    },
    {
      bigint() {
        const [seconds, nanoseconds] = clock();
        return BigInt(seconds) * 1_000_000_000n + BigInt(nanoseconds);
      },
    },
  ),
  uptime: () => performance.now() / 1000,
  cpuUsage: (since) => {
    const user = Math.round(performance.now() * 1000);
    return { user: user - (since?.user ?? 0), system: 0 };
  },
  memoryUsage: Object.assign(
    () => ({ rss: state.memory, heapTotal: state.memory, heapUsed: 0, external: 0, arrayBuffers: 0 }),
    { rss: () => state.memory },
  ),
  resourceUsage: () => ({ userCPUTime: Math.round(performance.now() * 1000), systemCPUTime: 0, maxRSS: 0 }),
  constrainedMemory: () => state.memory,
  availableMemory: () => state.memory,

  emitWarning(warning, type = "Warning", code) {
    if (typeof type === "object" && type !== null) ({ type = "Warning", code } = type);
    if (typeof warning === "string") {
      const text = warning;
      warning = new Error(text);
      warning.name = type;
      if (code !== undefined) warning.code = code;
    }
    process.nextTick(() => {
      const where = warning.code ? `[${warning.code}] ` : "";
      host.write(2, `(node:${process.pid}) ${where}${warning.name}: ${warning.message}\n`);
      process.emit("warning", warning);
    });
  },
  binding(name) {
    throw unsupported(`process.binding("${name}")`, "this is no native node");
  },
  dlopen() {
    throw unsupported("process.dlopen", "native addons cannot be loaded in this sandbox");
  },
  getBuiltinModule: (name) => require("modules").builtin(name),
  setUncaughtExceptionCaptureCallback() {},
  hasUncaughtExceptionCaptureCallback: () => false,
  setSourceMapsEnabled() {},
  allowedNodeEnvironmentFlags: new Set(),
  report: {},
});

Object.defineProperty(process, "exitCode", {
  get: () => state.exitCode,
  set(code) {
    const n = typeof code === "string" && code !== "" ? Number(code) : code;
    if (n !== undefined && n !== null) {
      if (typeof n !== "number" || Number.isNaN(n)) throw invalidArgType("code", "of type number", code);
      if (!Number.isInteger(n)) {
        throw codedError(
          RangeError,
          "ERR_OUT_OF_RANGE",
          `The value of "code" is out of range. It must be an integer. Received ${inspect(code)}`,
        );
      }
    }
    state.exitCode = n ?? undefined;
  },
  enumerable: true,
});

lazy(process, "stdin", () => require("stdio").stdin());
lazy(process, "stdout", () => require("stdio").output(1));
lazy(process, "stderr", () => require("stdio").output(2));

function clock() {
  const ms = performance.now();
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}

/** Runs the handlers of "exit" once and returns the code to end with. */
function runExitHandlers() {
  if (!state.exiting) {
    state.exiting = true;
    process.emit("exit", state.exitCode ?? 0);
  }
  return state.exitCode ?? 0;
}

/** Runs all callbacks of nextTick, those included that they add. */
function runTicks() {
  while (ticks.length > 0) {
    const batch = ticks.splice(0);
    for (let i = 0; i < batch.length; i++) {
      try {
        batch[i].callback(...batch[i].args);
      } catch (err) {
        ticks.unshift(...batch.slice(i + 1));
        throw err;
      }
    }
  }
}

/** Fills in what differs from run to run. */
function start({ argv, env, cwd, memory }) {
  process.argv = argv;
  process.argv0 = "node";
  process.env = environment(env);
  state.cwd = cwd;
  state.memory = memory;
}

/** An object whose values are always strings, like node's. */
function environment(pairs) {
  const target = Object.fromEntries(pairs);
  return new Proxy(target, {
    set(object, key, value) {
      if (typeof key === "symbol") return false;
      object[key] = String(value);
      return true;
    },
    defineProperty(object, key, d) {
      if ("value" in d) d = { ...d, value: String(d.value) };
      return Reflect.defineProperty(object, key, {
        configurable: true,
        writable: true,
        enumerable: true,
        ...d,
      });
    },
  });
}

define(process, "_exiting", false);

module.exports = { process, runExitHandlers, runTicks, start, state, ticksPending: () => ticks.length > 0 };
