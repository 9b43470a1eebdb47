"use strict";
// The module url: URL, and the older functions.

const { URLSearchParams, attached, refresh, unescape } = require("url_params");
const {
  escapeMatching,
  isSpecial,
  parseAuthority,
  parseHost,
  parsePath,
  parseURL,
  serialize,
  serializePath,
  sets,
} = require("url_parser");
const { codedError, invalidArgType } = require("errors");
const { inspect } = require("inspect");
const { toASCII, toUnicode } = require("punycode");

function invalidURL(input, base) {
  const err = codedError(TypeError, "ERR_INVALID_URL", "Invalid URL");
  err.input = input;
  if (base !== undefined) err.base = base;
  return err;
}

class URL {
  #url;
  #params;

  constructor(input, base) {
    input = `${input}`;
    let parsedBase;
    if (base !== undefined) {
      parsedBase = parseURL(`${base}`);
      if (!parsedBase) throw invalidURL(input, `${base}`);
    }
    this.#url = parseURL(input, parsedBase);
    if (!this.#url) throw invalidURL(input, base === undefined ? undefined : `${base}`);
  }

  static canParse(input, base) {
    try {
      new URL(input, base);
      return true;
    } catch {
      return false;
    }
  }

  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }

  static createObjectURL() {
    throw new Error("URL.createObjectURL: this sandbox has no object URLs");
  }

  static revokeObjectURL() {}

  #replace(url) {
    if (!url) return;
    this.#url = url;
    if (this.#params) refresh(this.#params, url.query ?? "");
  }

  get href() {
    return serialize(this.#url);
  }

  set href(value) {
    const url = parseURL(`${value}`);
    if (!url) throw invalidURL(`${value}`);
    this.#replace(url);
  }

  get origin() {
    const { protocol, host, port } = this.#url;
    if (protocol === "blob:")
      return parseURL(serializePath(this.#url)) ? new URL(serializePath(this.#url)).origin : "null";
    if (!isSpecial(protocol) || protocol === "file:") return "null";
    return `${protocol}//${host}${port === "" ? "" : `:${port}`}`;
  }

  get protocol() {
    return this.#url.protocol;
  }

  set protocol(value) {
    const scheme = /^([a-z][a-z0-9+.-]*):?/i.exec(`${value}`)?.[1].toLowerCase();
    if (!scheme || isSpecial(`${scheme}:`) !== isSpecial(this.#url.protocol)) return;
    this.#replace(parseURL(serialize({ ...this.#url, protocol: `${scheme}:` })));
  }

  get username() {
    return this.#url.username;
  }

  set username(value) {
    if (this.#url.host) this.#url.username = escapeMatching(`${value}`, sets.userinfo);
  }

  get password() {
    return this.#url.password;
  }

  set password(value) {
    if (this.#url.host) this.#url.password = escapeMatching(`${value}`, sets.userinfo);
  }

  get host() {
    const { host, port } = this.#url;
    return host === null ? "" : `${host}${port === "" ? "" : `:${port}`}`;
  }

  set host(value) {
    const changed = { ...this.#url };
    const text = `${value}`.replace(/[/?#].*$/s, "");
    if (typeof changed.path === "string" || text.includes("@")) return;
    if (parseAuthority(changed, text, isSpecial(changed.protocol))) this.#url = changed;
  }

  get hostname() {
    return this.#url.host ?? "";
  }

  set hostname(value) {
    if (typeof this.#url.path === "string") return;
    const host = parseHost(`${value}`.replace(/[/?#:].*$/s, ""), isSpecial(this.#url.protocol));
    if (host !== null) this.#url.host = host;
  }

  get port() {
    return this.#url.port;
  }

  set port(value) {
    if (!this.#url.host || this.#url.protocol === "file:") return;
    const digits = /^[0-9]*/.exec(`${value}`)[0];
    if (`${value}` === "") this.#url.port = "";
    else if (digits !== "")
      parseAuthority(this.#url, `${this.#url.host}:${digits}`, isSpecial(this.#url.protocol));
  }

  get pathname() {
    return serializePath(this.#url);
  }

  set pathname(value) {
    const { protocol, path } = this.#url;
    if (typeof path === "string") return;
    const special = isSpecial(protocol);
    this.#url.path = parsePath(
      `${value}`.replace(special ? /^[/\\]/ : /^\//, ""),
      special,
      protocol === "file:",
    );
  }

  get search() {
    return this.#url.query ? `?${this.#url.query}` : "";
  }

  set search(value) {
    const text = `${value}`.replace(/^\?/, "");
    const set = isSpecial(this.#url.protocol) ? sets.specialQuery : sets.query;
    this.#url.query = text === "" ? null : escapeMatching(text, set);
    if (this.#params) refresh(this.#params, text);
  }

  get searchParams() {
    this.#params ??= attached(this.#url.query ?? "", () => {
      const text = this.#params.toString();
      this.#url.query = text === "" ? null : text;
    });
    return this.#params;
  }

  get hash() {
    return this.#url.hash ? `#${this.#url.hash}` : "";
  }

  set hash(value) {
    const text = `${value}`.replace(/^#/, "");
    this.#url.hash = text === "" ? null : escapeMatching(text, sets.fragment);
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }

  [inspect.custom](depth, options) {
    if (depth < 0) return "[URL]";
    const parts = {};
    for (const name of [
      "href",
      "origin",
      "protocol",
      "username",
      "password",
      "host",
      "hostname",
      "port",
      "pathname",
      "search",
      "searchParams",
      "hash",
    ]) {
      parts[name] = this[name];
    }
    return `URL ${inspect(parts, options)}`;
  }
}

for (const name of Object.getOwnPropertyNames(URL.prototype)) {
  const d = Object.getOwnPropertyDescriptor(URL.prototype, name);
  if (name !== "constructor") Object.defineProperty(URL.prototype, name, { ...d, enumerable: true });
}
Object.defineProperty(URL.prototype, Symbol.toStringTag, { value: "URL", configurable: true });

function fileURLToPath(url) {
  if (typeof url === "string") url = new URL(url);
  else if (!(url instanceof URL)) throw invalidArgType("path", "of type string or an instance of URL", url);
  if (url.protocol !== "file:")
    throw codedError(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  if (url.hostname !== "") {
    throw codedError(
      TypeError,
      "ERR_INVALID_FILE_URL_HOST",
      'File URL host must be "localhost" or empty on linux',
    );
  }
  if (/%2f/i.test(url.pathname)) {
    throw codedError(
      TypeError,
      "ERR_INVALID_FILE_URL_PATH",
      "File URL path must not include encoded / characters",
    );
  }
  return unescape(url.pathname);
}

function pathToFileURL(path) {
  const url = new URL("file:///");
  let resolved = require("path").resolve(path);
  if (path.endsWith("/") && resolved !== "/") resolved += "/";
  url.pathname = resolved.replace(
    /[%\\\n\r\t?#]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
  return url;
}

/** The record that the older url.parse returns. */
function Url() {
  for (const name of [
    "protocol",
    "slashes",
    "auth",
    "host",
    "port",
    "hostname",
    "hash",
    "search",
    "query",
    "pathname",
    "path",
    "href",
  ]) {
    this[name] = null;
  }
}

function legacyParse(input, parseQuery = false, slashesDenoteHost = false) {
  if (input instanceof Url) return input;
  if (typeof input !== "string") throw invalidArgType("url", "of type string", input);
  const out = new Url();
  let rest = input.trim();
  const take = (pattern) => {
    const m = pattern.exec(rest);
    if (m) rest = rest.slice(0, m.index) + rest.slice(m.index + m[0].length);
    return m;
  };
  out.hash = take(/#.*$/s)?.[0] ?? null;
  out.search = take(/\?.*$/s)?.[0] ?? null;
  out.protocol = take(/^[a-z0-9.+-]+:/i)?.[0].toLowerCase() ?? null;
  if (/^\/\//.test(rest) && (out.protocol || slashesDenoteHost)) {
    out.slashes = true;
    const authority = take(/^\/\/[^/]*/)[0].slice(2);
    const at = authority.lastIndexOf("@");
    if (at >= 0) out.auth = decodeURIComponent(authority.slice(0, at));
    out.host = authority.slice(at + 1).toLowerCase();
    out.port = /:(\d+)$/.exec(out.host)?.[1] ?? null;
    out.hostname = toASCII(out.host.replace(/:\d*$/, "").replace(/^\[|\]$/g, "")) ?? "";
    if (rest === "" && isSpecial(out.protocol ?? "")) rest = "/";
  }
  out.pathname = rest || null;
  if (out.pathname || out.search) out.path = (out.pathname ?? "") + (out.search ?? "");
  const query = out.search === null ? null : out.search.slice(1);
  out.query = parseQuery ? require("querystring").parse(query ?? "") : query;
  if (parseQuery && out.search === null) out.search = "";
  out.href = legacyFormat(out);
  return out;
}

function legacyFormat(url, { auth = true, fragment = true, search = true, unicode = false } = {}) {
  if (typeof url === "string") return legacyParse(url).href;
  if (url instanceof URL) {
    const copy = new URL(url.href);
    if (!auth) copy.username = copy.password = "";
    if (!fragment) copy.hash = "";
    if (!search) copy.search = "";
    return unicode ? copy.href.replace(copy.hostname, toUnicode(copy.hostname)) : copy.href;
  }
  let out = url.protocol ? url.protocol.replace(/:?$/, ":") : "";
  let place = url.host ?? "";
  if (!place && url.hostname)
    place = `${url.hostname.includes(":") ? `[${url.hostname}]` : url.hostname}${url.port ? `:${url.port}` : ""}`;
  if (url.auth && place) place = `${encodeURIComponent(url.auth).replace(/%3A/i, ":")}@${place}`;
  if (url.slashes || (place && isSpecial(out))) out += `//${place}`;
  let path = url.pathname ?? "";
  if (place && path && !path.startsWith("/")) path = `/${path}`;
  let query = url.search ?? "";
  if (!query && url.query && typeof url.query === "object")
    query = require("querystring").stringify(url.query);
  if (query && !query.startsWith("?")) query = `?${query}`;
  let hash = url.hash ?? "";
  if (hash && !hash.startsWith("#")) hash = `#${hash}`;
  return out + path.replace(/[?#]/g, encodeURIComponent) + query.replaceAll("#", "%23") + hash;
}

function legacyResolve(from, to) {
  const dummy = "resolve://host";
  const resolved = new URL(to, new URL(from, `${dummy}/`));
  const { href } = resolved;
  if (!href.startsWith(dummy)) return href;
  const path = href.slice(dummy.length);
  return from.startsWith("/") || to.startsWith("/") ? path : path.replace(/^\//, "");
}

function urlToHttpOptions(url) {
  const { protocol, hostname, hash, search, pathname, href, port, username, password } = url;
  const options = { protocol, hostname, hash, search, pathname, path: `${pathname}${search}`, href };
  if (port !== "") options.port = Number(port);
  if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return options;
}

module.exports = {
  URL,
  URLSearchParams,
  Url,
  domainToASCII: (name) => toASCII(name) ?? "",
  domainToUnicode: toUnicode,
  fileURLToPath,
  format: legacyFormat,
  parse: legacyParse,
  pathToFileURL,
  resolve: legacyResolve,
  urlToHttpOptions,
};
