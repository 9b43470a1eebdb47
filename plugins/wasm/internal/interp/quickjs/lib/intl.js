"use strict";
// Intl, and the methods named after locales. The engine has neither; this knows
// English and UTC, whatever locale is asked for.

const { compare } = require("collate");
const dates = require("intl_dates");
const numbers = require("intl_numbers");
const { define, methods } = require("objects");

const locale = "en-US";

function checkLocales(locales) {
  if (locales === undefined || locales === locale) return;
  for (const tag of [locales ?? []].flat()) {
    if (typeof tag !== "string" && typeof tag !== "object")
      throw new TypeError(`Incorrect locale information provided`);
    if (!/^[a-z]{2,8}(?:[-_][a-z0-9]{1,8})*$/i.test(String(tag)))
      throw new RangeError(`Incorrect locale information provided`);
  }
}

class Base {
  constructor(locales) {
    checkLocales(locales);
  }

  static supportedLocalesOf(locales) {
    return [locales ?? []].flat().filter((tag) => /^en\b/i.test(tag));
  }
}

class NumberFormat extends Base {
  #options;

  constructor(locales, options) {
    super(locales);
    this.#options = numbers.resolve(options);
    this.format = (value) => numbers.formatNumber(value, this.#options);
  }

  formatRange(from, to) {
    return `${this.format(from)} – ${this.format(to)}`;
  }

  formatToParts(value) {
    const names = {
      ",": "group",
      ".": "decimal",
      "-": "minusSign",
      "+": "plusSign",
      "%": "percentSign",
      "∞": "infinity",
    };
    let digits = "integer";
    return this.format(value)
      .match(/\d+|NaN|[-+,.%∞]|\s+|[^\d\s.,%+-]+/g)
      .map((text) => {
        if (/^\d/.test(text)) return { type: digits, value: text };
        if (text === ".") digits = "fraction";
        const other = /^\s/.test(text) ? "literal" : text === "NaN" ? "nan" : "currency";
        return { type: names[text] ?? other, value: text };
      });
  }

  resolvedOptions() {
    const { fractionGiven, ...options } = this.#options;
    return { locale, numberingSystem: "latn", ...options };
  }
}

class DateTimeFormat extends Base {
  #options;

  constructor(locales, options) {
    super(locales);
    this.#options = dates.resolve(options);
    this.format = (date = Date.now()) => dates.formatDateTime(date, this.#options);
  }

  formatToParts(date = Date.now()) {
    const o = this.#options;
    const order = ["weekday", "month", "day", "year", "hour", "minute", "second"];
    const wanted = order.filter((field) => o[field]);
    return dates.split(this.format(date), wanted);
  }

  formatRange(from, to) {
    return `${this.format(from)} – ${this.format(to)}`;
  }

  resolvedOptions() {
    return { locale, calendar: "gregory", numberingSystem: "latn", timeZone: "UTC", ...this.#options };
  }
}

class Collator extends Base {
  #options;

  constructor(locales, options) {
    super(locales);
    this.#options = options;
    this.compare = (a, b) => compare(String(a), String(b), this.#options);
  }

  resolvedOptions() {
    return {
      locale,
      usage: "sort",
      sensitivity: "variant",
      ignorePunctuation: false,
      collation: "default",
      numeric: false,
      caseFirst: "false",
      ...this.#options,
    };
  }
}

class PluralRules extends Base {
  #type;

  constructor(locales, { type = "cardinal" } = {}) {
    super(locales);
    this.#type = type;
  }

  select(n) {
    if (this.#type === "cardinal") return Number(n) === 1 ? "one" : "other";
    const teen = n % 100 >= 11 && n % 100 <= 13;
    return teen ? "other" : ({ 1: "one", 2: "two", 3: "few" }[n % 10] ?? "other");
  }

  resolvedOptions() {
    return {
      locale,
      type: this.#type,
      pluralCategories: this.#type === "cardinal" ? ["one", "other"] : ["few", "one", "two", "other"],
    };
  }
}

class ListFormat extends Base {
  #word;

  constructor(locales, { type = "conjunction", style = "long" } = {}) {
    super(locales);
    this.#word = { conjunction: style === "long" ? "and" : "&", disjunction: "or", unit: "" }[type];
    if (style === "narrow" && type === "conjunction") this.#word = "";
  }

  format(list) {
    const items = [...list];
    const word = this.#word === "" ? "" : `${this.#word} `;
    if (items.length <= 1) return items.join("");
    if (items.length === 2) return word ? `${items[0]} ${word}${items[1]}` : items.join(", ");
    return `${items.slice(0, -1).join(", ")}, ${word}${items.at(-1)}`;
  }
}

class RelativeTimeFormat extends Base {
  #auto;

  constructor(locales, { numeric = "always" } = {}) {
    super(locales);
    this.#auto = numeric === "auto";
  }

  format(value, unit) {
    const name = String(unit).replace(/s$/, "");
    const words = { day: ["yesterday", "today", "tomorrow"] }[name] ?? [
      `last ${name}`,
      `this ${name}`,
      `next ${name}`,
    ];
    if (this.#auto && [-1, 0, 1].includes(value) && !["second", "minute", "hour"].includes(name))
      return words[value + 1];
    if (this.#auto && value === 0) return name === "second" ? "now" : `this ${name}`;
    const n = Math.abs(value);
    const text = `${numbers.formatNumber(n, numbers.resolve())} ${name}${n === 1 ? "" : "s"}`;
    return value < 0 || Object.is(value, -0) ? `${text} ago` : `in ${text}`;
  }
}

class Segmenter extends Base {
  #granularity;

  constructor(locales, { granularity = "grapheme" } = {}) {
    super(locales);
    this.#granularity = granularity;
  }

  segment(text) {
    const pattern = {
      grapheme:
        /\p{RI}\p{RI}|\p{Emoji}(?:\p{EMod}|\ufe0f)?(?:\u200d\p{Emoji}(?:\p{EMod}|\ufe0f)?)*|.\p{M}*/gsu,
      word: /[\p{L}\p{N}\p{M}'’]+|\s+|./gsu,
      sentence: /[^.!?]+[.!?]*\s*/gsu,
    }[this.#granularity];
    const word = this.#granularity === "word";
    return {
      *[Symbol.iterator]() {
        for (const m of text.matchAll(pattern)) {
          const part = { segment: m[0], index: m.index, input: text };
          yield word ? { ...part, isWordLike: /[\p{L}\p{N}]/u.test(m[0]) } : part;
        }
      },
    };
  }
}

/** Lets a class be called without new, as most of Intl can be. */
function callable(Class) {
  return new Proxy(Class, { apply: (target, self, args) => new target(...args) });
}

const Intl = {};
for (const Class of [
  NumberFormat,
  DateTimeFormat,
  Collator,
  PluralRules,
  ListFormat,
  RelativeTimeFormat,
  Segmenter,
]) {
  Object.defineProperty(Class.prototype, Symbol.toStringTag, {
    value: `Intl.${Class.name}`,
    configurable: true,
  });
  define(Intl, Class.name, callable(Class));
}
define(Intl, "getCanonicalLocales", (locales) => {
  checkLocales(locales);
  return [locales ?? []].flat().map(String);
});
define(Intl, "supportedValuesOf", (key) => (key === "timeZone" ? ["UTC"] : []));
Object.defineProperty(Intl, Symbol.toStringTag, { value: "Intl", configurable: true });

/** Replaces the methods of built-in objects that depend on the locale. */
function install() {
  define(globalThis, "Intl", Intl);
  methods(Number.prototype, {
    toLocaleString(locales, options) {
      checkLocales(locales);
      return numbers.formatNumber(Number.prototype.valueOf.call(this), numbers.resolve(options));
    },
  });
  methods(BigInt.prototype, {
    toLocaleString(locales, options) {
      checkLocales(locales);
      return numbers.formatNumber(BigInt.prototype.valueOf.call(this), numbers.resolve(options));
    },
  });
  const dateMethod = (defaults) =>
    function (locales, options) {
      checkLocales(locales);
      const time = Date.prototype.getTime.call(this);
      return Number.isNaN(time)
        ? "Invalid Date"
        : dates.formatDateTime(time, dates.resolve(options, defaults));
    };
  const { toString, toTimeString } = Date.prototype;
  const withZone = (text) => (text === "Invalid Date" ? text : `${text} (Coordinated Universal Time)`);
  methods(Date.prototype, {
    toLocaleString: dateMethod("all"),
    toLocaleDateString: dateMethod("date"),
    toLocaleTimeString: dateMethod("time"),
    toString() {
      return withZone(toString.call(this));
    },
    toTimeString() {
      return withZone(toTimeString.call(this));
    },
  });
  methods(String.prototype, {
    localeCompare(other, locales, options) {
      checkLocales(locales);
      return compare(String(this), String(other), options);
    },
  });
}

module.exports = { install };
