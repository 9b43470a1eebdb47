"use strict";
// Flags of open, by name and by number.

const { invalidArgValue } = require("errors");

const constants = {
  F_OK: 0,
  X_OK: 1,
  W_OK: 2,
  R_OK: 4,
  O_RDONLY: 0,
  O_WRONLY: 1,
  O_RDWR: 2,
  O_CREAT: 0o100,
  O_EXCL: 0o200,
  O_TRUNC: 0o1000,
  O_APPEND: 0o2000,
  O_SYNC: 0o4010000,
  S_IFMT: 0o170000,
  S_IFREG: 0o100000,
  S_IFDIR: 0o040000,
  S_IFLNK: 0o120000,
  S_IRWXU: 0o700,
  S_IRUSR: 0o400,
  S_IWUSR: 0o200,
  S_IXUSR: 0o100,
  S_IRGRP: 0o040,
  S_IWGRP: 0o020,
  S_IXGRP: 0o010,
  S_IROTH: 0o004,
  S_IWOTH: 0o002,
  S_IXOTH: 0o001,
  COPYFILE_EXCL: 1,
  COPYFILE_FICLONE: 2,
  COPYFILE_FICLONE_FORCE: 4,
};

// The bits that the host's open takes.
const read = 1;
const write = 2;
const create = 4;
const truncate = 8;
const append = 16;
const exclusive = 32;

const byName = {
  r: read,
  "r+": read | write,
  w: write | create | truncate,
  "w+": read | write | create | truncate,
  a: write | create | append,
  "a+": read | write | create | append,
};

/** Converts flags of a program to those of the host. */
function flagsOf(flags) {
  if (typeof flags === "number") {
    let bits = { 0: read, 1: write, 2: read | write }[flags & 3] ?? read;
    if (flags & constants.O_CREAT) bits |= create;
    if (flags & constants.O_TRUNC) bits |= truncate;
    if (flags & constants.O_APPEND) bits |= append;
    if (flags & constants.O_EXCL) bits |= exclusive;
    return bits;
  }
  const plain = String(flags).replace("s", "");
  const bits = byName[plain.replace("x", "")];
  if (bits === undefined) throw invalidArgValue("flags", flags);
  return plain.includes("x") ? bits | exclusive : bits;
}

module.exports = { constants, flagsOf };
