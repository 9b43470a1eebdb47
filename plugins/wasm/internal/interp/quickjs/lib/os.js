"use strict";
// The machine, as far as there is one.

const { state } = require("process");

const signals = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGABRT: 6, SIGKILL: 9, SIGTERM: 15 };

function errnos() {
  const { systemErrors } = require("errors");
  return Object.fromEntries(Object.entries(systemErrors).map(([code, [n]]) => [code, n]));
}

module.exports = {
  EOL: "\n",
  devNull: "/dev/null",
  arch: () => process.arch,
  availableParallelism: () => 1,
  cpus: () => [{ model: "WebAssembly", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
  endianness: () => "LE",
  freemem: () => state.memory,
  getPriority: () => 0,
  homedir: () => process.env.HOME ?? "/mnt/data",
  hostname: () => "sandbox",
  loadavg: () => [0, 0, 0],
  machine: () => "wasm32",
  networkInterfaces: () => ({}),
  platform: () => "linux",
  release: () => "0",
  setPriority() {},
  tmpdir: () => process.env.TMPDIR ?? "/tmp",
  totalmem: () => state.memory,
  type: () => "Linux",
  uptime: () => process.uptime(),
  userInfo: () => ({
    uid: 1000,
    gid: 1000,
    username: "sandbox",
    homedir: module.exports.homedir(),
    shell: null,
  }),
  version: () => "Caisson",
  constants: { signals, errno: errnos(), priority: { PRIORITY_NORMAL: 0 }, dlopen: {}, UV_UDP_REUSEADDR: 4 },
};
