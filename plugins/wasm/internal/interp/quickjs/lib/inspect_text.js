"use strict";
// The small parts of inspect: quotes, numbers, colours and columns.

const styles = {
  special: "cyan",
  number: "yellow",
  bigint: "yellow",
  boolean: "yellow",
  undefined: "grey",
  null: "bold",
  string: "green",
  symbol: "green",
  date: "magenta",
  regexp: "red",
  module: "underline",
};

const styleColors = {
  reset: [0, 0],
  bold: [1, 22],
  dim: [2, 22],
  italic: [3, 23],
  underline: [4, 24],
  inverse: [7, 27],
  black: [30, 39],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
  white: [37, 39],
  gray: [90, 39],
  grey: [90, 39],
};

const escapeSequence = /\x1b\[[0-9;]*[A-Za-z]/g;

function stripColors(text) {
  return text.replace(escapeSequence, "");
}

function plainLength(text) {
  return stripColors(text).length;
}

const shortEscapes = { "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\\": "\\\\" };
const unprintable =
  /[\x00-\x1f\x7f-\x9f\\]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function escape(c) {
  if (c in shortEscapes) return shortEscapes[c];
  const code = c.charCodeAt(0);
  if (code >= 0xd800) return `\\u${code.toString(16).toUpperCase()}`;
  return `\\x${code.toString(16).toUpperCase().padStart(2, "0")}`;
}

/** Writes a string as a literal, with the quotes that need the least escapes. */
function quoted(text) {
  let quote = "'";
  if (text.includes("'")) {
    if (!text.includes('"')) quote = '"';
    else if (!text.includes("`") && !text.includes("${")) quote = "`";
  }
  let inner = text.replace(unprintable, escape);
  if (quote === "'") inner = inner.replaceAll("'", "\\'");
  return quote + inner + quote;
}

function formatKey(key, ctx) {
  if (typeof key === "symbol") {
    return `[${ctx.style(key.toString().replace(unprintable, escape), "symbol")}]`;
  }
  if (key === "__proto__") return "['__proto__']";
  if (/^[a-zA-Z_][a-zA-Z_0-9]*$/.test(key)) return ctx.style(key, "name");
  return ctx.style(quoted(key), "string");
}

function formatNumber(value, separate) {
  if (Object.is(value, -0)) return "-0";
  const text = String(value);
  if (!separate || !/^-?\d/.test(text) || text.includes("e")) return text;
  const [whole, fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "_");
  if (fraction === undefined) return grouped;
  return `${grouped}.${fraction.replace(/(\d{3})(?=\d)/g, "$1_")}`;
}

/**
 * Arranges the entries of a long list in columns, about as wide as they are
 * high. A last entry that counts the ones left out keeps a line of its own.
 */
function lineUp(output, ctx, shape, list) {
  const gap = 2;
  const count = shape.more ? output.length - 1 : output.length;
  const widths = [];
  let total = 0;
  let widest = 0;
  for (let i = 0; i < count; i++) {
    const width = ctx.colors ? plainLength(output[i]) : output[i].length;
    widths.push(width);
    total += width + gap;
    widest = Math.max(widest, width);
  }
  const cell = widest + gap;
  if (cell * 3 + ctx.indentation >= ctx.breakLength) return output;
  if (total / cell <= 5 && widest > 6) return output;
  const bias = Math.sqrt(cell - total / output.length);
  const biased = Math.max(cell - 3 - bias, 1);
  const columns = Math.min(
    Math.round(Math.sqrt(2.5 * biased * count) / biased),
    Math.floor((ctx.breakLength - ctx.indentation) / cell),
    ctx.compact * 4,
    15,
  );
  if (columns <= 1) return output;
  const columnWidths = [];
  for (let c = 0; c < columns; c++) {
    let width = 0;
    for (let i = c; i < count; i += columns) width = Math.max(width, widths[i]);
    columnWidths.push(width + gap);
  }
  const right = shape.numeric(list);
  const rows = [];
  for (let start = 0; start < count; start += columns) {
    const end = Math.min(start + columns, count);
    let row = "";
    for (let i = start; i < end; i++) {
      const last = i === end - 1;
      const cellText = last ? output[i] : `${output[i]}, `;
      const pad = " ".repeat(Math.max(0, columnWidths[i - start] - widths[i] - gap));
      if (right) row += pad + cellText;
      else row += last ? cellText : cellText + pad;
    }
    rows.push(row);
  }
  if (shape.more) rows.push(output[count]);
  return rows;
}

module.exports = {
  escape,
  formatKey,
  formatNumber,
  lineUp,
  plainLength,
  quoted,
  stripColors,
  styleColors,
  styles,
};
