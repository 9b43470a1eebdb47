"use strict";
// Numbers as people in the United States write them. The engine has no data
// about others, so every locale gets these.

const symbols = {
  USD: "$",
  EUR: "€",
  GBP: "£",
  JPY: "¥",
  INR: "₹",
  CNY: "CN¥",
  KRW: "₩",
  CAD: "CA$",
  AUD: "A$",
  MXN: "MX$",
  BRL: "R$",
  NZD: "NZ$",
  ILS: "₪",
  VND: "₫",
  TWD: "NT$",
  HKD: "HK$",
  PHP: "₱",
};
const currencyDigits = {
  JPY: 0,
  KRW: 0,
  VND: 0,
  CLP: 0,
  ISK: 0,
  XAF: 0,
  XOF: 0,
  BHD: 3,
  JOD: 3,
  KWD: 3,
  OMR: 3,
  TND: 3,
};
const shortUnits = {
  byte: " byte",
  kilobyte: " kB",
  megabyte: " MB",
  gigabyte: " GB",
  second: " sec",
  minute: " min",
  hour: " hr",
  day: " day",
  meter: " m",
  kilometer: " km",
  centimeter: " cm",
  mile: " mi",
  kilogram: " kg",
  gram: " g",
  liter: " L",
  celsius: "°C",
  fahrenheit: "°F",
  percent: "%",
  "kilometer-per-hour": " km/h",
  "mile-per-hour": " mph",
};
const compactSteps = [
  [1e12, "T", " trillion"],
  [1e9, "B", " billion"],
  [1e6, "M", " million"],
  [1e3, "K", " thousand"],
];

function checkDigits(value, name, min, max) {
  if (value === undefined) return undefined;
  const n = Number(value);
  if (!(n >= min && n <= max)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(n);
}

/** Fills in what follows from the options that are given. */
function resolve(options = {}) {
  const {
    style = "decimal",
    currency,
    notation = "standard",
    useGrouping = notation === "compact" ? "min2" : "auto",
  } = options;
  if (style === "currency" && currency === undefined)
    throw new TypeError("Currency code is required with currency style.");
  if (currency !== undefined && !/^[a-z]{3}$/i.test(currency))
    throw new RangeError(`Invalid currency code : ${currency}`);
  const code = currency?.toUpperCase();
  const cents = style === "currency" ? (currencyDigits[code] ?? 2) : undefined;
  let min = checkDigits(options.minimumFractionDigits, "minimumFractionDigits", 0, 100);
  let max = checkDigits(options.maximumFractionDigits, "maximumFractionDigits", 0, 100);
  const given = min !== undefined || max !== undefined;
  const usualMin = cents ?? 0;
  const usualMax = cents ?? (style === "percent" ? 0 : 3);
  if (min === undefined) min = Math.min(usualMin, max ?? usualMin);
  if (max === undefined) max = Math.max(usualMax, min);
  if (min > max) throw new RangeError("maximumFractionDigits value is out of range.");
  const minimumSignificantDigits = checkDigits(
    options.minimumSignificantDigits,
    "minimumSignificantDigits",
    1,
    21,
  );
  const maximumSignificantDigits = checkDigits(
    options.maximumSignificantDigits,
    "maximumSignificantDigits",
    1,
    21,
  );
  return {
    ...options,
    style,
    currency: code,
    notation,
    useGrouping,
    minimumIntegerDigits: checkDigits(options.minimumIntegerDigits, "minimumIntegerDigits", 1, 21) ?? 1,
    minimumFractionDigits: min,
    maximumFractionDigits: max,
    fractionGiven: given,
    ...(minimumSignificantDigits || maximumSignificantDigits
      ? {
          minimumSignificantDigits: minimumSignificantDigits ?? 1,
          maximumSignificantDigits: maximumSignificantDigits ?? 21,
        }
      : {}),
  };
}

/** Writes 1.5e+21 without an exponent. */
function plain(text) {
  const m = /^(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (!m) return text;
  const digits = m[1] + (m[2] ?? "");
  const point = 1 + Number(m[3]);
  if (point <= 0) return `0.${"0".repeat(-point)}${digits}`;
  return digits.length <= point
    ? digits.padEnd(point, "0")
    : `${digits.slice(0, point)}.${digits.slice(point)}`;
}

/**
 * Rounds decimal digits half away from zero, as the standard wants; toFixed
 * would round the binary value instead.
 */
function roundDecimal(text, places) {
  const [whole, fraction = ""] = text.split(".");
  if (fraction.length <= places) return text;
  let digits = BigInt(whole + fraction.slice(0, places));
  if (fraction[places] >= "5") digits += 1n;
  const out = digits.toString().padStart(places + 1, "0");
  return places === 0 ? out : `${out.slice(0, -places)}.${out.slice(-places)}`;
}

function trimZeros(text, keep) {
  if (!text.includes(".")) return keep > 0 ? `${text}.${"0".repeat(keep)}` : text;
  let [whole, fraction] = text.split(".");
  fraction = fraction.replace(/0+$/, "").padEnd(keep, "0");
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

function significant(text, o) {
  const digits = text.replace(".", "").replace(/^0+/, "");
  const point = text.indexOf(".") < 0 ? text.length : text.indexOf(".");
  const leading = /^0*\.?0*/.exec(text)[0].replace(".", "").length;
  const places = Math.max(0, o.maximumSignificantDigits - (point - leading));
  let out = roundDecimal(text, places);
  const over = digits.length === 0 ? 0 : point - leading - o.maximumSignificantDigits;
  if (over > 0 && point > leading) {
    const unit = 10n ** BigInt(over);
    const n = BigInt(roundDecimal(text, 0));
    out = String(((n + unit / 2n) / unit) * unit);
  }
  const used = out.replace(".", "").replace(/^0+/, "").length;
  return trimZeros(out, Math.max(0, o.minimumSignificantDigits - used + (out.split(".")[1]?.length ?? 0)));
}

function group(whole, o) {
  if (o.useGrouping === false || o.useGrouping === "false") return whole;
  if (o.useGrouping === "min2" && whole.length < 5) return whole;
  return whole.replace(/\B(?=(\d{3})+$)/g, ",");
}

/** The digits of a number that is not negative. */
function digitsOf(text, o) {
  let out;
  if (o.maximumSignificantDigits) out = significant(text, o);
  else out = trimZeros(roundDecimal(text, o.maximumFractionDigits), o.minimumFractionDigits);
  const [whole, fraction] = out.split(".");
  const padded = group(whole.padStart(o.minimumIntegerDigits, "0"), o);
  return fraction === undefined ? padded : `${padded}.${fraction}`;
}

function compact(value, o) {
  const size = Math.abs(Number(value));
  const [unit, short, long] = compactSteps.find(([n]) => size >= n) ?? [1, "", ""];
  const scaled = size / unit;
  const chosen = o.fractionGiven || o.maximumSignificantDigits !== undefined;
  // Two digits, or all those before the point.
  const rounding = chosen
    ? o
    : { ...o, minimumFractionDigits: 0, maximumFractionDigits: scaled < 10 ? 1 : 0 };
  return digitsOf(plain(String(scaled)), rounding) + (o.compactDisplay === "long" ? long : short);
}

function signOf(negative, zero, display) {
  switch (display) {
    case "never":
      return "";
    case "always":
      return negative ? "-" : "+";
    case "exceptZero":
      return zero ? "" : negative ? "-" : "+";
    default:
      return negative ? "-" : "";
  }
}

/** The digits of any number, without its sign. */
function bodyOf(value, o) {
  if (Number.isNaN(value)) return "NaN";
  if (value === Infinity || value === -Infinity) return "∞";
  if (o.notation === "compact") return compact(value, o);
  if (o.style === "percent") {
    // Fewer digits than there are, to hide what the multiplication adds.
    value = typeof value === "bigint" ? value * 100n : Number((value * 100).toPrecision(15));
  }
  return digitsOf(plain(String(value).replace(/^-/, "")), o);
}

function currencySymbol({ currency, currencyDisplay }) {
  const usual = symbols[currency] ?? `${currency}\u00a0`;
  if (currencyDisplay === "code") return `${currency}\u00a0`;
  return currencyDisplay === "narrowSymbol" ? usual.replace(/^[A-Z]+(?=[^\w\s])/, "") : usual;
}

/** Formats a number or bigint by resolved options. */
function formatNumber(value, o) {
  if (typeof value !== "bigint") value = Number(value);
  const negative = value < 0 || Object.is(value, -0);
  const body = bodyOf(value, o);
  const sign = body === "NaN" ? "" : signOf(negative, !/[1-9∞]/.test(body), o.signDisplay);
  if (o.style === "percent") return `${sign}${body}%`;
  if (o.style === "unit") return `${sign}${body}${shortUnits[o.unit] ?? ` ${o.unit}`}`;
  if (o.style !== "currency") return sign + body;
  if (o.currencyDisplay === "name") return `${sign}${body} ${o.currency}`;
  const symbol = currencySymbol(o);
  return o.currencySign === "accounting" && negative ? `(${symbol}${body})` : `${sign}${symbol}${body}`;
}

module.exports = { formatNumber, resolve };
