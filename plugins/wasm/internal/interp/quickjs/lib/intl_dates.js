"use strict";
// Dates as people in the United States write them, in UTC: there is no data
// about other places and zones.

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const months = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

const dateStyles = {
  full: { weekday: "long", year: "numeric", month: "long", day: "numeric" },
  long: { year: "numeric", month: "long", day: "numeric" },
  medium: { year: "numeric", month: "short", day: "numeric" },
  short: { year: "2-digit", month: "numeric", day: "numeric" },
};
const timeStyles = {
  full: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "long" },
  long: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
  medium: { hour: "numeric", minute: "2-digit", second: "2-digit" },
  short: { hour: "numeric", minute: "2-digit" },
};

const dateFields = ["weekday", "era", "year", "month", "day"];
const timeFields = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];
const utcNames = /^(?:utc|gmt|etc\/(?:utc|gmt|uct|zulu)|uct|zulu|\+00:?00|-00:?00)$/i;

/** Fills in the fields that are written when the options name none. */
function resolve(options = {}, defaults = "date") {
  const { dateStyle, timeStyle, timeZone, ...rest } = options;
  if (timeZone !== undefined && !utcNames.test(timeZone)) {
    throw new RangeError(`Time zone ${timeZone} is not known: this sandbox has UTC only`);
  }
  if (dateStyle || timeStyle)
    return { ...rest, dateStyle, timeStyle, ...dateStyles[dateStyle], ...timeStyles[timeStyle] };
  const has = (fields) => fields.some((f) => rest[f] !== undefined);
  const wantsDate = defaults === "date" || defaults === "all";
  const wantsTime = defaults === "time" || defaults === "all";
  const given =
    (wantsDate && has(dateFields)) ||
    (wantsTime && has(timeFields)) ||
    (defaults === "date" && has(timeFields));
  const o = { ...rest };
  if (!given && wantsDate) Object.assign(o, { year: "numeric", month: "numeric", day: "numeric" });
  if (!given && wantsTime) Object.assign(o, { hour: "numeric", minute: "2-digit", second: "2-digit" });
  return o;
}

const two = (n) => String(n).padStart(2, "0");
const digits = (n, form) => (form === "2-digit" ? two(n % 100) : String(n));

function name(list, index, form) {
  if (form === "long") return list[index];
  return form === "narrow" ? list[index][0] : list[index].slice(0, 3);
}

function yearOf(date, o) {
  const year = date.getUTCFullYear();
  return year <= 0 ? digits(1 - year, o.year) : digits(year, o.year);
}

function formatDate(date, o) {
  const weekday = o.weekday && name(weekdays, date.getUTCDay(), o.weekday);
  const year = o.year && yearOf(date, o);
  const day = o.day && digits(date.getUTCDate(), o.day);
  const numeric = o.month === "numeric" || o.month === "2-digit";
  if (numeric || !o.month) {
    const month = o.month && digits(date.getUTCMonth() + 1, o.month);
    const body = [month, day, year].filter(Boolean).join("/");
    if (weekday && body && !o.month && !o.year) return `${body} ${weekday}`;
    return [weekday, body].filter(Boolean).join(", ");
  }
  const month = name(months, date.getUTCMonth(), o.month);
  let body = day ? `${month} ${day}` : month;
  if (year) body += day ? `, ${year}` : ` ${year}`;
  return weekday ? `${weekday}, ${body}` : body;
}

function formatTime(date, o) {
  // That hour12: false begins the day with 24 is what node does.
  const cycle = o.hour12 === undefined ? (o.hourCycle ?? "h12") : o.hour12 ? "h12" : "h24";
  const half = cycle === "h12" || cycle === "h11";
  let hour = date.getUTCHours();
  const period = hour < 12 ? "AM" : "PM";
  if (half) hour %= 12;
  if (hour === 0 && (cycle === "h12" || cycle === "h24")) hour = half ? 12 : 24;
  const parts = [];
  if (o.hour) parts.push(o.hour === "2-digit" || !half ? two(hour) : String(hour));
  for (const [form, value] of [
    [o.minute, date.getUTCMinutes()],
    [o.second, date.getUTCSeconds()],
  ]) {
    const alone = parts.length === 0 && !(o.minute && o.second);
    if (form) parts.push(alone ? digits(value, form === "2-digit" ? "numeric" : form) : two(value));
  }
  let text = parts.join(":");
  if (o.fractionalSecondDigits) {
    const fraction = String(date.getUTCMilliseconds()).padStart(3, "0").slice(0, o.fractionalSecondDigits);
    text += text ? `.${fraction}` : fraction;
  }
  if (o.hour && half) text += ` ${period}`;
  return text;
}

/** Formats a date by resolved options. */
function formatDateTime(date, o) {
  const time = new Date(date);
  if (Number.isNaN(time.getTime())) throw new RangeError("Invalid time value");
  const day = formatDate(time, o);
  let clock = formatTime(time, o);
  if (o.timeZoneName) {
    const zone = o.timeZoneName === "long" ? "Coordinated Universal Time" : "UTC";
    clock = clock ? `${clock} ${zone}` : zone;
  }
  const between =
    o.dateStyle === "full" ||
    o.dateStyle === "long" ||
    (o.month === "long" && o.dateStyle === undefined && clock)
      ? " at "
      : ", ";
  return [day, clock].filter(Boolean).join(between);
}

/** Splits a formatted date into the fields that it has, in their order. */
function split(text, fields) {
  const parts = [];
  const left = [...fields];
  for (const piece of text.match(/[A-Za-z]+|\d+|[^A-Za-z\d]+/g) ?? []) {
    if (/^(?:AM|PM)$/.test(piece)) parts.push({ type: "dayPeriod", value: piece });
    else if (/^(?:UTC|Coordinated|Universal|Time)$/.test(piece))
      parts.push({ type: "timeZoneName", value: piece });
    else if (piece !== "at" && /^[A-Za-z\d]/.test(piece))
      parts.push({ type: left.shift() ?? "literal", value: piece });
    else parts.push({ type: "literal", value: piece });
  }
  return parts;
}

module.exports = { formatDateTime, resolve, split };
