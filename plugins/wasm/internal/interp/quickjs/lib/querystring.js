"use strict";
// The module querystring.

const { unescape } = require("url_params");

const escape = (text) => encodeURIComponent(typeof text === "string" ? text.toWellFormed() : String(text));

function primitive(value) {
  if (typeof value === "string") return value;
  if (typeof value === "number") return Number.isFinite(value) ? `${value}` : "";
  if (typeof value === "bigint" || typeof value === "boolean") return `${value}`;
  return "";
}

function stringify(object, sep, eq, { encodeURIComponent: encode = escape } = {}) {
  sep ||= "&";
  eq ||= "=";
  if (object === null || typeof object !== "object") return "";
  const pair = (key, value) => `${encode(key)}${eq}${encode(primitive(value))}`;
  return Object.entries(object)
    .flatMap(([key, value]) => (Array.isArray(value) ? value.map((v) => pair(key, v)) : [pair(key, value)]))
    .join(sep);
}

function parse(text, sep, eq, { decodeURIComponent: decode = unescape, maxKeys = 1000 } = {}) {
  sep ||= "&";
  eq ||= "=";
  const out = Object.create(null);
  if (typeof text !== "string" || text === "") return out;
  let parts = text.split(sep);
  if (maxKeys > 0) parts = parts.slice(0, maxKeys);
  for (const part of parts) {
    if (part === "") continue;
    const at = part.indexOf(eq);
    const raw = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + eq.length)];
    const [key, value] = raw.map((piece) => {
      const spaced = piece.replaceAll("+", " ");
      try {
        return decode(spaced);
      } catch {
        return unescape(spaced);
      }
    });
    if (!(key in out)) out[key] = value;
    else if (Array.isArray(out[key])) out[key].push(value);
    else out[key] = [out[key], value];
  }
  return out;
}

module.exports = { decode: parse, encode: stringify, escape, parse, stringify, unescape };
