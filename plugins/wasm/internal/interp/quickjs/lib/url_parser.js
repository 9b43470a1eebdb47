"use strict";
// Takes URLs apart, following the URL standard.

const { toASCII } = require("punycode");
const { unescape } = require("url_params");

const defaultPorts = {
  "http:": "80",
  "https:": "443",
  "ws:": "80",
  "wss:": "443",
  "ftp:": "21",
  "file:": "",
};

function isSpecial(protocol) {
  return Object.hasOwn(defaultPorts, protocol);
}

/** Percent-encodes, in UTF-8, whatever is not ASCII or matches. */
function escapeMatching(text, pattern) {
  return text.toWellFormed().replace(pattern, (c) => {
    const bytes = host.utf8Encode(c);
    return Array.from(bytes, (b) => `%${b.toString(16).toUpperCase().padStart(2, "0")}`).join("");
  });
}

const controls = "\\u0000-\\u001f\\u007f-\\u{10ffff}";
const sets = {
  control: new RegExp(`[${controls}]`, "gu"),
  fragment: new RegExp(`[${controls} "<>\`]`, "gu"),
  query: new RegExp(`[${controls} "#<>]`, "gu"),
  specialQuery: new RegExp(`[${controls} "#<>']`, "gu"),
  path: new RegExp(`[${controls} "#<>?\`{}^]`, "gu"),
  userinfo: new RegExp(`[${controls} "#<>?\`{}/:;=@[\\\\\\]^|]`, "gu"),
};

function parseIPv4(text) {
  const parts = text.split(".");
  if (parts.at(-1) === "" && parts.length > 1) parts.pop();
  if (!/^(0x[0-9a-f]*|[0-9]+)$/i.test(parts.at(-1))) return undefined; // a name
  if (parts.length > 4) return null;
  const numbers = parts.map((part) => {
    if (/^0x[0-9a-f]*$/i.test(part)) return parseInt(part.slice(2) || "0", 16);
    if (/^0[0-7]+$/.test(part)) return parseInt(part, 8);
    return /^[0-9]+$/.test(part) && !/^0[0-9]/.test(part) ? Number(part) : NaN;
  });
  if (numbers.some(Number.isNaN) || numbers.slice(0, -1).some((n) => n > 255)) return null;
  const last = numbers.pop();
  if (last >= 256 ** (4 - numbers.length)) return null;
  let address = last;
  numbers.forEach((n, i) => {
    address += n * 256 ** (3 - i);
  });
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}

function parseIPv6(text) {
  const v4 = /^(.*:)(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (v4) {
    const [a, b, c, d] = v4.slice(2).map(Number);
    if ([a, b, c, d].some((n) => n > 255)) return null;
    text = `${v4[1]}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  }
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const groups = halves.map((half) => (half === "" ? [] : half.split(":")));
  if (groups.flat().some((g) => !/^[0-9a-f]{1,4}$/i.test(g))) return null;
  const count = groups.flat().length;
  if (halves.length === 2 ? count > 7 : count !== 8) return null;
  const all = halves.length === 2 ? [...groups[0], ...Array(8 - count).fill("0"), ...groups[1]] : groups[0];
  const short = all.map((g) => parseInt(g, 16).toString(16));
  let best = { start: -1, length: 1 };
  for (let i = 0; i < 8; i++) {
    let n = 0;
    while (i + n < 8 && short[i + n] === "0") n++;
    if (n > best.length) best = { start: i, length: n };
  }
  if (best.start < 0) return short.join(":");
  return `${short.slice(0, best.start).join(":")}::${short.slice(best.start + best.length).join(":")}`;
}

/** Returns the normal form of a host, null if it is none. */
function parseHost(text, special) {
  if (text.startsWith("[")) {
    if (!text.endsWith("]")) return null;
    const address = parseIPv6(text.slice(1, -1));
    return address === null ? null : `[${address}]`;
  }
  if (!special) return /[\0\t\n\r #/:<>?@[\\\]^|]/.test(text) ? null : escapeMatching(text, sets.control);
  const name = toASCII(unescape(text));
  if (name === null || name === "" || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(name)) return null;
  const address = parseIPv4(name);
  return address === undefined ? name : address;
}

/** Resolves dot segments; returns the segments of a path. */
function parsePath(text, special, file) {
  const out = [];
  const segments = (special ? text.replaceAll("\\", "/") : text).split("/");
  segments.forEach((segment, i) => {
    const last = i === segments.length - 1;
    const plain = segment.replace(/%2e/gi, ".");
    if (plain === "..") {
      if (!(file && out.length === 1 && /^[a-z]:$/i.test(out[0]))) out.pop();
      if (last) out.push("");
    } else if (plain === ".") {
      if (last) out.push("");
    } else {
      out.push(escapeMatching(segment, sets.path));
    }
  });
  return out;
}

function splitTail(text) {
  let hash = null;
  let query = null;
  const h = text.indexOf("#");
  if (h >= 0) {
    hash = text.slice(h + 1);
    text = text.slice(0, h);
  }
  const q = text.indexOf("?");
  if (q >= 0) {
    query = text.slice(q + 1);
    text = text.slice(0, q);
  }
  return { text, query, hash };
}

/** Fills in user, host and port from "user:password@host:port". */
function parseAuthority(url, text, special) {
  const at = text.lastIndexOf("@");
  if (at >= 0) {
    const [user, ...password] = text.slice(0, at).split(":");
    url.username = escapeMatching(user, sets.userinfo);
    url.password = escapeMatching(password.join(":"), sets.userinfo);
    text = text.slice(at + 1);
    if (text === "") return false;
  }
  const port = /:([0-9]*)$/.exec(text);
  if (port && !(text.startsWith("[") && text.endsWith("]"))) {
    text = text.slice(0, port.index);
    if (port[1] !== "") {
      if (Number(port[1]) > 65535) return false;
      url.port = String(Number(port[1]));
      if (url.port === defaultPorts[url.protocol]) url.port = "";
    }
  }
  if (text === "") return !special && url.port === "" && at < 0 && ((url.host = ""), true);
  url.host = parseHost(text, special);
  return url.host !== null;
}

/**
 * Parses a URL, relative to a parsed base if given. Returns { protocol,
 * username, password, host, port, path, query, hash }, where path is a list of
 * segments, or a string for URLs like mailto:, and absent parts are null; or
 * null for what is no URL.
 */
function parseURL(input, base) {
  input = input.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(input);
  const url = {
    protocol: "",
    username: "",
    password: "",
    host: null,
    port: "",
    path: [],
    query: null,
    hash: null,
  };
  let rest = input;
  let inherit = base;
  if (scheme) {
    url.protocol = `${scheme[1].toLowerCase()}:`;
    rest = input.slice(scheme[0].length);
    const relative =
      base && isSpecial(url.protocol) && base.protocol === url.protocol && !/^[/\\]/.test(rest);
    if (!relative) inherit = null;
  } else if (!base) {
    return null;
  } else {
    url.protocol = base.protocol;
  }
  const special = isSpecial(url.protocol);
  const { text, query, hash } = splitTail(rest);
  if (query !== null) url.query = escapeMatching(query, special ? sets.specialQuery : sets.query);
  if (hash !== null) url.hash = escapeMatching(hash, sets.fragment);
  const slashes = special ? /^[/\\]{2}/.test(text) : text.startsWith("//");

  if (!inherit && !slashes && !special) {
    if (text.startsWith("/")) url.path = parsePath(text.slice(1), false, false);
    else url.path = escapeMatching(text, sets.control);
    return url;
  }
  if (url.protocol === "file:") return parseFile(url, text, inherit);
  if (slashes || (special && !inherit)) {
    const body = text.replace(special ? /^[/\\]*/ : /^\/\//, "");
    const end = body.search(special ? /[/\\]/ : /\//);
    const authority = end < 0 ? body : body.slice(0, end);
    if (!parseAuthority(url, authority, special)) return null;
    if (end >= 0) url.path = parsePath(body.slice(end + 1), special, false);
    else if (special) url.path = [""];
    return url;
  }
  return relativeTo(url, text, inherit, special);
}

function relativeTo(url, text, base, special) {
  if (typeof base.path === "string") {
    if (text !== "" || url.query !== null) return null; // only a fragment can be relative to these
    return { ...base, hash: url.hash };
  }
  Object.assign(url, { username: base.username, password: base.password, host: base.host, port: base.port });
  if (text === "") {
    url.path = base.path;
    if (url.query === null) url.query = base.query;
  } else if (special ? /^[/\\]/.test(text) : text.startsWith("/")) {
    url.path = parsePath(text.slice(1), special, false);
  } else {
    url.path = parsePath([...base.path.slice(0, -1), text].join("/"), special, url.protocol === "file:");
  }
  return url;
}

function parseFile(url, text, base) {
  url.host = "";
  if (/^[/\\]{2}/.test(text)) {
    const body = text.slice(2);
    const end = body.search(/[/\\]/);
    const name = end < 0 ? body : body.slice(0, end);
    if (name !== "") {
      const parsed = parseHost(name, true);
      if (parsed === null) return null;
      url.host = parsed === "localhost" ? "" : parsed;
    }
    url.path = parsePath(end < 0 ? "" : body.slice(end + 1), true, true);
    return url;
  }
  if (base && base.protocol === "file:") return relativeTo(url, text, base, true);
  url.path = parsePath(text.replace(/^[/\\]/, ""), true, true);
  return url;
}

function serializePath(url) {
  if (typeof url.path === "string") return url.path;
  const joined = url.path.map((segment) => `/${segment}`).join("");
  return url.host === null && url.path.length > 1 && url.path[0] === "" ? `/.${joined}` : joined;
}

function serialize(url, { hash = true } = {}) {
  let out = url.protocol;
  if (url.host !== null) {
    out += "//";
    if (url.username !== "" || url.password !== "") {
      out += url.username;
      if (url.password !== "") out += `:${url.password}`;
      out += "@";
    }
    out += url.host;
    if (url.port !== "") out += `:${url.port}`;
  }
  out += serializePath(url);
  if (url.query !== null) out += `?${url.query}`;
  if (hash && url.hash !== null) out += `#${url.hash}`;
  return out;
}

module.exports = {
  escapeMatching,
  isSpecial,
  parseAuthority,
  parseHost,
  parsePath,
  parseURL,
  serialize,
  serializePath,
  sets,
};
