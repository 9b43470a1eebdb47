"use strict";
// The order of words in a dictionary: letters first, then accents, then case.
// Close to what node does for English and most languages of Latin script.

const rank = (c) => {
  if (/\s/u.test(c)) return 0;
  if (/\p{P}/u.test(c)) return 1;
  if (/\p{S}/u.test(c)) return 2;
  if (/\p{N}/u.test(c)) return 3;
  return 4;
};

// The order of the commonest signs, which is not that of their codes.
const signs = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
const expansions = { ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", þ: "th", ı: "i" };
const expandable = new RegExp(`[${Object.keys(expansions).join("")}]`, "gu");

const ascii = /^[\x20-\x7e]*$/;

// The rank of each ASCII character by itself; letters have that of lower case.
const asciiRanks = new Uint8Array(128);
Array.from({ length: 128 }, (_, code) => String.fromCharCode(code))
  .sort((a, b) => compareChars(a.toLowerCase(), b.toLowerCase()) || (a < b ? -1 : 1))
  .forEach((c, i) => {
    asciiRanks[c.charCodeAt(0)] = i;
  });
for (let code = 65; code <= 90; code++) asciiRanks[code] = asciiRanks[code + 32];

/** Compares texts as far as only ASCII decides, else returns undefined. */
function compareASCII(a, b) {
  const n = Math.min(a.length, b.length);
  let byCase = 0;
  for (let i = 0; i < n; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) {
      if (x > 127) return undefined;
      continue;
    }
    if (x > 127 || y > 127) return undefined;
    const order = asciiRanks[x] - asciiRanks[y];
    if (order !== 0) return order;
    if (byCase === 0) byCase = y - x; // lower case, with the higher code, comes first
  }
  if (a.length !== b.length) {
    const rest = a.length > n ? a : b; // may begin with a mark on the last letter
    return rest.charCodeAt(n) > 127 ? undefined : a.length - b.length;
  }
  return byCase;
}

/** Splits a text into letters to compare by, and the marks on them. */
function keyOf(text) {
  const plain = text.toLowerCase();
  if (ascii.test(plain)) return { base: plain, marks: plain };
  const marks = plain.normalize("NFD");
  return { base: marks.replace(/\p{M}/gu, "").replace(expandable, (c) => expansions[c]), marks };
}

function compareChars(a, b) {
  if (a === b) return 0;
  const [x, y] = [signs.indexOf(a), signs.indexOf(b)];
  if (x >= 0 && y >= 0) return x - y;
  return rank(a) - rank(b) || (a < b ? -1 : 1);
}

function compareBase(a, b, numeric) {
  const [left, right] = [Array.from(a), Array.from(b)];
  let i = 0;
  let j = 0;
  while (i < left.length && j < right.length) {
    if (numeric && /\d/.test(left[i]) && /\d/.test(right[j])) {
      const [m, n] = [/^\d+/.exec(left.slice(i).join(""))[0], /^\d+/.exec(right.slice(j).join(""))[0]];
      const [p, q] = [BigInt(m), BigInt(n)];
      if (p !== q) return p < q ? -1 : 1;
      i += m.length;
      j += n.length;
      continue;
    }
    const order = compareChars(left[i++], right[j++]);
    if (order !== 0) return order;
  }
  return left.length - i - (right.length - j);
}

/** Lower case comes first. */
function compareCase(a, b, caseFirst) {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) {
    if (a[i] === b[i]) continue;
    const lower = a[i] === a[i].toLowerCase();
    return lower === (caseFirst !== "upper") ? -1 : 1;
  }
  return a.length - b.length;
}

/** Compares two texts; options are those of Intl.Collator. */
function compare(a, b, options) {
  if (a === b) return 0;
  if (options === undefined) {
    const quick = compareASCII(a, b);
    if (quick !== undefined) return Math.sign(quick);
  }
  const { numeric = false, sensitivity = "variant", caseFirst } = options ?? {};
  const caseMatters = sensitivity === "case" || sensitivity === "variant";
  const [x, y] = [keyOf(a), keyOf(b)];
  let order = compareBase(x.base, y.base, numeric);
  if (order === 0 && (sensitivity === "accent" || sensitivity === "variant")) {
    order = x.marks === y.marks ? 0 : x.marks < y.marks ? -1 : 1;
  }
  if (order === 0 && caseMatters) order = compareCase(a.normalize("NFD"), b.normalize("NFD"), caseFirst);
  return Math.sign(order);
}

module.exports = { compare };
