"use strict";
// Ties the library together. The host evaluates this file last, with a factory
// for each other file and its own operations, and keeps what it returns: the
// functions by which it drives a program.

const loaded = new Map();

function load(name) {
  if (!loaded.has(name)) {
    const module = { exports: {} };
    loaded.set(name, module);
    factories[name](module.exports, load, module, host);
  }
  return loaded.get(name).exports;
}

// Positions and stacks first, so that errors in here can be understood.
load("stack");
const globals = load("globals");
globals.install();
// Everything else now, so that it is part of the boot image.
for (const name of Object.keys(factories)) load(name);

const { process, runExitHandlers, runTicks, start: startProcess } = load("process");
const { rejectionError, report } = load("fatal");
const modules = load("modules");
const timers = load("timers");
const resolve = load("resolve");

let options;
let main = "none"; // or "pending" while the entry is a module that waits
let announced = false; // whether beforeExit was emitted since the last event

function end(code) {
  process.exitCode = code;
  host.exit(runExitHandlers());
}

/** Lets the program handle an uncaught error, or reports it and ends. */
function uncaught(err, origin = "uncaughtException") {
  process.emit("uncaughtExceptionMonitor", err, origin);
  if (process.listenerCount("uncaughtException") > 0) {
    process.emit("uncaughtException", err, origin);
    return;
  }
  host.write(2, report(err));
  end(1);
}

return {
  /** Takes the facts of this run, as JSON. */
  start(json) {
    options = JSON.parse(json);
    globals.start();
    startProcess(options);
    resolve.start(options);
  },

  /** Runs the entry, up to the first wait. */
  runMain() {
    const inline = options.source !== null;
    const entry = inline ? "[eval]" : load("path").resolve(options.argv[1]);
    if (!inline) process.argv[1] = entry;
    const promise = modules.runMain({
      entry,
      source: inline ? options.source : undefined,
      typescript: options.typescript,
    });
    if (promise === undefined) return;
    main = "pending";
    const over = () => {
      main = "over";
    };
    promise.then(over, (err) => {
      over();
      uncaught(err);
    });
  },

  uncaught,

  /** Deals with a promise that was rejected and has no handler. */
  unhandled(reason, promise) {
    if (process.listenerCount("unhandledRejection") > 0) {
      process.emit("unhandledRejection", reason, promise);
      return;
    }
    uncaught(reason instanceof Error ? reason : rejectionError(reason), "unhandledRejection");
  },

  ticks: runTicks,

  /** Runs one thing that is due; see timers.turn. */
  turn() {
    const wait = timers.turn();
    if (wait >= 0) {
      announced = false;
      return wait;
    }
    if (announced) return -1;
    announced = true;
    if (process.listenerCount("beforeExit") === 0) return -1;
    process.emit("beforeExit", process.exitCode ?? 0);
    return 0;
  },

  /** Ends a program that has nothing left to do; returns its exit code. */
  exiting() {
    if (main === "pending" && process.exitCode === undefined) {
      host.write(2, `Warning: Detected unsettled top-level await at ${process.argv[1] ?? "[eval]"}\n`);
      process.exitCode = 13;
    }
    return runExitHandlers();
  },

  resolveImport: modules.resolveImport,
  loadModule: modules.loadModule,
};
