// Numbers, dates and the order of words in English, in UTC.
for (const n of [
  0,
  -0,
  1,
  1234.5678,
  -1234567.891,
  0.000123,
  1e21,
  123456789012,
  0.5,
  1.005,
  2.5,
  999.9999,
  NaN,
  Infinity,
  -Infinity,
  1e-10,
  12345678901234567890n,
  -5n,
])
  console.log(
    n.toLocaleString(),
    n.toLocaleString("en-US", { minimumFractionDigits: 2 }),
    n.toLocaleString("en-US", { maximumFractionDigits: 0 }),
    n.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 }),
  );
const c = (o, ...ns) => {
  const f = new Intl.NumberFormat("en-US", o);
  console.log(JSON.stringify(o), ...ns.map((n) => f.format(n)));
};
c({ style: "currency", currency: "USD" }, 0, 1234.5, -99.999, 1e9);
c({ style: "currency", currency: "EUR" }, 12.345);
c({ style: "currency", currency: "JPY" }, 1234.5);
c({ style: "currency", currency: "GBP", minimumFractionDigits: 0 }, 1234.5, 1234);
c({ style: "currency", currency: "USD", currencyDisplay: "code" }, 5);
c({ style: "currency", currency: "CHF" }, 5);
c({ style: "currency", currency: "USD", maximumFractionDigits: 0 }, 1234.5);
c({ style: "percent" }, 0.256, 1, -0.5, 0.005);
c({ style: "percent", minimumFractionDigits: 1 }, 0.2567, 0.1);
c({ style: "percent", maximumFractionDigits: 2 }, 0.12345);
c({ maximumSignificantDigits: 3 }, 123456, 0.0012345, 12.3, 1.999, 99950);
c({ minimumSignificantDigits: 3 }, 1, 1.23456);
c({ useGrouping: false }, 1234567.8);
c({ minimumIntegerDigits: 2 }, 5, 123);
c({ signDisplay: "always" }, 5, -5, 0);
c({ signDisplay: "exceptZero" }, 0, 3);
c({ notation: "compact" }, 999, 1234, 12345, 123456, 1.5e6, 2.55e9, 7e12);
c({ notation: "compact", compactDisplay: "long" }, 1234567);
c({ notation: "compact", maximumFractionDigits: 2 }, 1234567);
const d = new Date(Date.UTC(2024, 0, 5, 14, 3, 9, 45));
const midnight = new Date(Date.UTC(1999, 11, 31));
const show = (s) => JSON.stringify(s);
console.log(
  show(d.toLocaleString()),
  show(d.toLocaleDateString()),
  show(d.toLocaleTimeString()),
  show(midnight.toLocaleString()),
  show(d.toLocaleDateString("en-US")),
  new Date(NaN).toLocaleString(),
);
for (const o of [
  { weekday: "long", year: "numeric", month: "long", day: "numeric" },
  { year: "numeric", month: "short", day: "2-digit" },
  { month: "long", year: "numeric" },
  { month: "short", day: "numeric" },
  { year: "numeric", month: "2-digit", day: "2-digit" },
  { weekday: "short" },
  { month: "long" },
  { year: "numeric" },
  { day: "numeric" },
  { weekday: "short", month: "short", day: "numeric" },
  { dateStyle: "full" },
  { dateStyle: "long" },
  { dateStyle: "medium" },
  { dateStyle: "short" },
  { year: "2-digit", month: "numeric", day: "numeric" },
])
  console.log(show(o), show(d.toLocaleDateString("en-US", o)), show(new Intl.DateTimeFormat("en-US", o).format(d)));
for (const o of [
  { hour: "2-digit", minute: "2-digit" },
  { hour12: false },
  { hour: "numeric" },
  { timeStyle: "short" },
  { timeStyle: "medium" },
  { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false },
  { timeZone: "UTC", timeZoneName: "short" },
  { hour: "numeric", minute: "2-digit", hour12: true },
  { minute: "2-digit", second: "2-digit" },
])
  console.log(show(o), show(d.toLocaleTimeString("en-US", o)), show(midnight.toLocaleTimeString("en-US", o)));
console.log(
  show(d.toLocaleString("en-US", { timeZone: "UTC" })),
  show(d.toLocaleString("en-US", { dateStyle: "medium", timeStyle: "short" })),
  show(d.toLocaleString("en-US", { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" })),
  show(d.toLocaleString("en-US", { hour12: false })),
  d.toString(),
  d.toTimeString(),
  d.toUTCString(),
  d.toDateString(),
);
console.log(
  ["b", "a", "B", "A", "ä", "z", "Z", "é", "e", "f", "1", "10", "2", "_x", "-y", " ", "ab", "a b", "aB", "Ab"].sort(
    (x, y) => x.localeCompare(y),
  ),
  ["file10", "file2", "File1", "file1"].sort(new Intl.Collator("en", { numeric: true }).compare),
  ["résumé", "resume", "Resume", "Résumé"].sort(Intl.Collator().compare),
);
console.log(
  "a".localeCompare("b"),
  "a".localeCompare("A"),
  "a".localeCompare("á"),
  "a".localeCompare("A", undefined, { sensitivity: "base" }),
  "a".localeCompare("á", "en", { sensitivity: "base" }),
  "a".localeCompare("á", "en", { sensitivity: "accent" }),
  "2".localeCompare("10", undefined, { numeric: true }),
  "x".localeCompare("x"),
  "".localeCompare("a"),
);
console.log(
  new Intl.PluralRules("en-US").select(1),
  new Intl.PluralRules("en-US").select(2),
  [1, 2, 3, 4, 11, 21, 112].map((n) => new Intl.PluralRules("en-US", { type: "ordinal" }).select(n)),
  new Intl.ListFormat("en", { style: "long", type: "conjunction" }).format(["a", "b", "c"]),
  new Intl.ListFormat("en", { type: "disjunction" }).format(["a", "b"]),
  new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-1, "day"),
  new Intl.RelativeTimeFormat("en").format(-3, "hours"),
  new Intl.RelativeTimeFormat("en").format(1, "day"),
  new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(2, "week"),
);
console.log(
  [...new Intl.Segmenter("en").segment("a👨‍👩‍👧é🇩🇪")].map((s) => s.segment),
  [...new Intl.Segmenter("en", { granularity: "word" }).segment("Hi there, you.")]
    .filter((s) => s.isWordLike)
    .map((s) => s.segment),
  Intl.DateTimeFormat().resolvedOptions().locale,
  typeof Intl.NumberFormat,
  new Intl.DateTimeFormat("en-US", { dateStyle: "medium", timeStyle: "short" })
    .formatToParts(d)
    .map((p) => p.type)
    .join(),
  new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" })
    .formatToParts(-1234.5)
    .map((p) => p.type)
    .join(),
);
for (const f of [
  () => new Intl.NumberFormat("en", { style: "currency" }),
  () => (1).toFixed(101),
  () => (1).toLocaleString("en", { maximumFractionDigits: 200 }),
])
  try {
    f();
    console.log("ok");
  } catch (e) {
    console.log(e.name);
  }
