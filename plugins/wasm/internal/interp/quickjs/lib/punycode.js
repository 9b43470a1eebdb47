"use strict";
// Host names beyond ASCII, after RFC 3492.

const base = 36;

function adapt(delta, count, first) {
  delta = first ? Math.floor(delta / 700) : delta >> 1;
  delta += Math.floor(delta / count);
  let k = 0;
  for (; delta > 455; k += base) delta = Math.floor(delta / 35);
  return k + Math.floor((36 * delta) / (delta + 38));
}

const threshold = (k, bias) => Math.min(Math.max(k - bias, 1), 26);
const digit = (d) => String.fromCharCode(d < 26 ? 97 + d : 22 + d);

function encodeLabel(label) {
  const points = Array.from(label, (c) => c.codePointAt(0));
  const basic = points.filter((p) => p < 0x80);
  let out = String.fromCharCode(...basic);
  if (basic.length > 0) out += "-";
  let n = 0x80;
  let delta = 0;
  let bias = 72;
  let done = basic.length;
  while (done < points.length) {
    const next = Math.min(...points.filter((p) => p >= n));
    delta += (next - n) * (done + 1);
    n = next;
    for (const p of points) {
      if (p < n) delta++;
      if (p !== n) continue;
      let q = delta;
      for (let k = base; ; k += base) {
        const t = threshold(k, bias);
        if (q < t) break;
        out += digit(t + ((q - t) % (base - t)));
        q = Math.floor((q - t) / (base - t));
      }
      out += digit(q);
      bias = adapt(delta, done + 1, done === basic.length);
      delta = 0;
      done++;
    }
    delta++;
    n++;
  }
  return out;
}

function decodeLabel(text) {
  const at = text.lastIndexOf("-");
  const out = Array.from(at > 0 ? text.slice(0, at) : "", (c) => c.charCodeAt(0));
  let n = 0x80;
  let bias = 72;
  let i = 0;
  for (let pos = at > 0 ? at + 1 : 0; pos < text.length;) {
    const before = i;
    let weight = 1;
    for (let k = base; ; k += base) {
      const c = text.charCodeAt(pos++);
      const d = c >= 97 && c <= 122 ? c - 97 : c >= 48 && c <= 57 ? c - 22 : NaN;
      if (Number.isNaN(d)) return null;
      i += d * weight;
      const t = threshold(k, bias);
      if (d < t) break;
      weight *= base - t;
    }
    bias = adapt(i - before, out.length + 1, before === 0);
    n += Math.floor(i / (out.length + 1));
    i %= out.length + 1;
    if (n > 0x10ffff) return null;
    out.splice(i++, 0, n);
  }
  return String.fromCodePoint(...out);
}

/** Converts a host name to ASCII; null if it cannot be. */
function toASCII(name) {
  const labels = name
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[\u3002\uff0e\uff61]/g, ".")
    .split(".");
  if (name.length > 2000) return null;
  return labels.map((l) => (/^[\0-\x7f]*$/.test(l) ? l : `xn--${encodeLabel(l)}`)).join(".");
}

function toUnicode(name) {
  return name
    .split(".")
    .map((l) => (l.startsWith("xn--") ? (decodeLabel(l.slice(4)) ?? l) : l))
    .join(".");
}

module.exports = { toASCII, toUnicode };
