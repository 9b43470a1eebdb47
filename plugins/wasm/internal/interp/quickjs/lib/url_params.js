"use strict";
// URLSearchParams, and the encoding of forms that it shares with querystring.

const { codedError, invalidArgType } = require("errors");
const { inspect } = require("inspect");

function encode(text) {
  return encodeURIComponent(String(text).toWellFormed())
    .replace(/[!'()~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll("%20", "+");
}

/** Undoes percent escapes; what is no valid escape stays. */
function unescape(text) {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    const bytes = [];
    const raw = host.utf8Encode(text);
    for (let i = 0; i < raw.length; i++) {
      const hex = raw[i] === 0x25 ? String.fromCharCode(raw[i + 1] ?? 0, raw[i + 2] ?? 0) : "";
      if (/^[0-9a-fA-F]{2}$/.test(hex)) {
        bytes.push(parseInt(hex, 16));
        i += 2;
      } else {
        bytes.push(raw[i]);
      }
    }
    return host.utf8Decode(Uint8Array.from(bytes), false);
  }
}

function parse(text) {
  const pairs = [];
  for (const part of text.split("&")) {
    if (part === "") continue;
    const at = part.indexOf("=");
    const [key, value] = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
    pairs.push([unescape(key.replaceAll("+", " ")), unescape(value.replaceAll("+", " "))]);
  }
  return pairs;
}

function pairsOf(init) {
  if (init === undefined || init === null) return [];
  if (typeof init !== "object" && typeof init !== "function") {
    const text = String(init);
    return parse(text.startsWith("?") ? text.slice(1) : text);
  }
  if (typeof init[Symbol.iterator] === "function") {
    return Array.from(init, (pair) => {
      if (pair == null || typeof pair[Symbol.iterator] !== "function") {
        throw codedError(
          TypeError,
          "ERR_INVALID_TUPLE",
          "Each query pair must be an iterable [name, value] tuple",
        );
      }
      const list = [...pair];
      if (list.length !== 2)
        throw codedError(
          TypeError,
          "ERR_INVALID_TUPLE",
          "Each query pair must be an iterable [name, value] tuple",
        );
      return list.map((v) => String(v).toWellFormed());
    });
  }
  return Object.entries(init).map(([k, v]) => [k.toWellFormed(), String(v).toWellFormed()]);
}

class URLSearchParams {
  #list;
  #changed = () => {};

  constructor(init) {
    this.#list = pairsOf(init);
  }

  /** Makes the parameters of a URL; changed is told of every change. */
  static attached(query, changed) {
    const params = new URLSearchParams(query);
    params.#changed = changed;
    return params;
  }

  static refresh(params, query) {
    params.#list = parse(query);
  }

  get size() {
    return this.#list.length;
  }

  append(name, value) {
    this.#list.push([String(name).toWellFormed(), String(value).toWellFormed()]);
    this.#changed();
  }

  delete(name, value) {
    name = String(name);
    this.#list = this.#list.filter(([k, v]) => k !== name || (value !== undefined && v !== String(value)));
    this.#changed();
  }

  get(name) {
    return this.#list.find(([k]) => k === String(name))?.[1] ?? null;
  }

  getAll(name) {
    return this.#list.filter(([k]) => k === String(name)).map(([, v]) => v);
  }

  has(name, value) {
    return this.#list.some(([k, v]) => k === String(name) && (value === undefined || v === String(value)));
  }

  set(name, value) {
    name = String(name).toWellFormed();
    value = String(value).toWellFormed();
    const at = this.#list.findIndex(([k]) => k === name);
    if (at < 0) {
      this.#list.push([name, value]);
    } else {
      this.#list[at] = [name, value];
      this.#list = this.#list.filter(([k], i) => i <= at || k !== name);
    }
    this.#changed();
  }

  sort() {
    this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#changed();
  }

  forEach(callback, thisArg) {
    if (typeof callback !== "function") throw invalidArgType("callback", "of type function", callback);
    for (const [k, v] of this.#list) callback.call(thisArg, v, k, this);
  }

  *entries() {
    for (const [k, v] of this.#list) yield [k, v];
  }

  *keys() {
    for (const [k] of this.#list) yield k;
  }

  *values() {
    for (const [, v] of this.#list) yield v;
  }

  toString() {
    return this.#list.map(([k, v]) => `${encode(k)}=${encode(v)}`).join("&");
  }

  [inspect.custom](depth, options) {
    if (depth < 0) return "[URLSearchParams]";
    const show = (v) => inspect(v, options);
    const pairs = this.#list.map(([k, v]) => `${show(k)} => ${show(v)}`);
    if (pairs.length === 0) return "URLSearchParams {}";
    const line = pairs.join(", ");
    if (line.length <= options.breakLength) return `URLSearchParams { ${line} }`;
    return `URLSearchParams {\n  ${pairs.join(",\n  ")} }`;
  }
}

const { attached, refresh } = URLSearchParams;
delete URLSearchParams.attached;
delete URLSearchParams.refresh;
Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, {
  value: URLSearchParams.prototype.entries,
  writable: true,
  configurable: true,
});
Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, {
  value: "URLSearchParams",
  configurable: true,
});

module.exports = { URLSearchParams, attached, refresh, unescape };
