"use strict";
// The global object, as programs for node expect it.

const { define, lazy } = require("objects");
const { unsupported } = require("errors");

const engineNow = performance.now.bind(performance);
let origin = 0; // of performance.now, in the engine's time

const measured = { entries: [] };

class PerformanceEntry {
  constructor(name, entryType, startTime, duration, detail) {
    Object.assign(this, { name, entryType, startTime, duration, detail });
  }
}

const clock = {
  timeOrigin: 0,
  now: () => engineNow() - origin,
  mark(name, { startTime = clock.now(), detail = null } = {}) {
    const entry = new PerformanceEntry(name, "mark", startTime, 0, detail);
    measured.entries.push(entry);
    return entry;
  },
  measure(name, start, end) {
    const options = typeof start === "object" && start !== null ? start : { start, end };
    const at = (mark, fallback) => {
      if (mark === undefined) return fallback;
      if (typeof mark === "number") return mark;
      const entry = measured.entries.findLast((e) => e.name === mark);
      if (!entry) throw new DOMException(`The "${mark}" performance mark has not been set`, "SyntaxError");
      return entry.startTime;
    };
    const from = at(options.start, 0);
    const entry = new PerformanceEntry(
      name,
      "measure",
      from,
      at(options.end, clock.now()) - from,
      options.detail ?? null,
    );
    measured.entries.push(entry);
    return entry;
  },
  clearMarks: (name) => clear("mark", name),
  clearMeasures: (name) => clear("measure", name),
  getEntries: () => [...measured.entries],
  getEntriesByName: (name) => measured.entries.filter((e) => e.name === name),
  getEntriesByType: (type) => measured.entries.filter((e) => e.entryType === type),
  timerify: (f) => f,
  eventLoopUtilization: () => ({ idle: 0, active: 0, utilization: 0 }),
  toJSON: () => ({ timeOrigin: clock.timeOrigin }),
};

function clear(type, name) {
  measured.entries = measured.entries.filter(
    (e) => e.entryType !== type || (name !== undefined && e.name !== name),
  );
}

define(globalThis, "performance", clock);

/** Numbers of Math.random, from the host's generator, many at a time. */
let pool = new Uint32Array(0);
let next = 0;

function random() {
  if (next >= pool.length) {
    pool = new Uint32Array(host.random(1024).buffer);
    next = 0;
  }
  const high = pool[next] >>> 5;
  const low = pool[next + 1] >>> 6;
  next += 2;
  return (high * 2 ** 26 + low) / 2 ** 53;
}

/** Defines the globals. All of it goes into the boot image. */
function install() {
  const { process } = require("process");
  define(globalThis, "process", process);
  define(globalThis, "global", globalThis);
  define(Math, "random", random);
  require("intl").install();
  const { timers } = require("timers");
  const { promises, ...functions } = timers;
  for (const [name, f] of Object.entries(functions)) define(globalThis, name, f);
  define(globalThis, "console", require("console").console);
  define(globalThis, "Buffer", require("buffer").Buffer);
  define(globalThis, "structuredClone", require("structured_clone").structuredClone);
  const { Blob, File } = require("buffer_module");
  define(globalThis, "Blob", Blob);
  define(globalThis, "File", File);
  for (const source of ["event_target", "encoding", "url"]) {
    const exported = require(source);
    for (const name of Object.keys(exported)) {
      if (/^[A-Z]/.test(name) && name !== "Url") define(globalThis, name, exported[name]);
    }
  }
  lazy(globalThis, "crypto", () => require("crypto").webcrypto);
  define(globalThis, "navigator", {
    hardwareConcurrency: 1,
    language: "en-US",
    languages: ["en-US"],
    platform: "linux",
    userAgent: "Node.js/22",
  });
  define(globalThis, "fetch", async (resource) => {
    throw new TypeError("fetch failed", {
      cause: unsupported(`fetch ${String(resource?.url ?? resource)}`, "this sandbox has no network"),
    });
  });
}

/** Sets what differs from run to run. */
function start() {
  origin = engineNow();
  clock.timeOrigin = Date.now();
  next = pool.length;
}

module.exports = { install, start };
