"use strict";
// Patterns for file names.

const escapeChar = (c) => c.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/** Makes a regular expression of a pattern with *, **, ?, [] and {}. */
function toRegExp(pattern) {
  let out = "";
  let depth = 0;
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === "*" && pattern[i + 1] === "*") {
      i++;
      if (pattern[i + 1] === "/") {
        i++;
        out += "(?:[^/]+/)*";
      } else {
        out += ".*";
      }
    } else if (c === "*") {
      out += "[^/]*";
    } else if (c === "?") {
      out += "[^/]";
    } else if (c === "[") {
      const end = pattern.indexOf("]", i + 2);
      if (end < 0) {
        out += "\\[";
        continue;
      }
      const set = pattern
        .slice(i + 1, end)
        .replace(/^!/, "^")
        .replaceAll("\\", "\\\\");
      out += `[${set}]`;
      i = end;
    } else if (c === "{") {
      depth++;
      out += "(?:";
    } else if (c === "}" && depth > 0) {
      depth--;
      out += ")";
    } else if (c === "," && depth > 0) {
      out += "|";
    } else {
      out += escapeChar(c);
    }
  }
  return new RegExp(`^${out}${")".repeat(depth)}$`);
}

module.exports = { toRegExp };
