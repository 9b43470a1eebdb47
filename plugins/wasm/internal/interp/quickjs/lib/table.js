"use strict";
// console.table.

const { inspect } = require("inspect");
const types = require("types");

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;

/** How many columns of a terminal a text takes. */
function width(text) {
  let n = 0;
  for (const c of text.normalize("NFC")) {
    if (/\p{Mn}|\p{Me}|\p{Cf}/u.test(c)) continue;
    n += wide.test(c) ? 2 : 1;
  }
  return n;
}

function cell(value) {
  const depth =
    value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 2
      ? -1
      : 0;
  return inspect(value, { maxArrayLength: 3, breakLength: Infinity, depth });
}

const aligned = (text, n) => ` ${text}${" ".repeat(n - width(text) - 1)}`;

/** Draws a table of named columns. */
function draw(head, columns) {
  const rows = Math.max(...columns.map((c) => c.length));
  const widths = head.map((title, i) => Math.max(width(title), ...columns[i].map(width)) + 2);
  const bar = (left, middle, right) => left + widths.map((n) => "─".repeat(n)).join(middle) + right;
  const line = (cells, put) => `│${cells.map((c, i) => put(c, widths[i])).join("│")}│`;
  const lines = [bar("┌", "┬", "┐"), line(head, aligned), bar("├", "┼", "┤")];
  for (let r = 0; r < rows; r++) {
    lines.push(
      line(
        columns.map((c) => c[r] ?? ""),
        aligned,
      ),
    );
  }
  lines.push(bar("└", "┴", "┘"));
  return lines.join("\n");
}

const indexTitle = "(index)";
const iterationTitle = "(iteration index)";
const valueTitle = "Values";

function table(data, only) {
  if (types.isMap(data)) {
    const entries = [...data];
    return draw(
      [iterationTitle, "Key", valueTitle],
      [entries.map((_, i) => String(i)), entries.map(([k]) => cell(k)), entries.map(([, v]) => cell(v))],
    );
  }
  const isSet = types.isSet(data);
  const rows = isSet ? [...data].map((v, i) => [String(i), v]) : Object.entries(data);
  const titles = []; // of the properties, in order of appearance
  const cells = new Map();
  const values = [];
  let hasValues = false;
  rows.forEach(([, row], r) => {
    const primitive = row === null || (typeof row !== "object" && typeof row !== "function");
    if (primitive) {
      hasValues = true;
      values[r] = cell(row);
      return;
    }
    for (const key of only ?? Object.keys(row)) {
      if (!cells.has(key)) {
        cells.set(key, []);
        titles.push(key);
      }
      if (Object.hasOwn(row, key)) cells.get(key)[r] = cell(row[key]);
    }
  });
  const fill = (list) => Array.from({ length: rows.length }, (_, i) => list[i] ?? "");
  const head = [isSet ? iterationTitle : indexTitle, ...titles];
  const columns = [rows.map(([k]) => k), ...titles.map((t) => fill(cells.get(t)))];
  if (hasValues) {
    head.push(valueTitle);
    columns.push(fill(values));
  }
  return draw(head, columns);
}

module.exports = { table, width };
