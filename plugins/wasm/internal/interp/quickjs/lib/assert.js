"use strict";
// The module assert.

const { isDeepEqual, isDeepStrictEqual } = require("deep_equal");
const { inspect } = require("inspect");
const { codedError, invalidArgType } = require("errors");
const types = require("types");

const headlines = {
  deepStrictEqual: "Expected values to be strictly deep-equal:",
  strictEqual: "Expected values to be strictly equal:",
  deepEqual: "Expected values to be loosely deep-equal:",
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
};

const full = {
  compact: false,
  customInspect: false,
  depth: 1000,
  maxArrayLength: Infinity,
  sorted: true,
  showHidden: false,
  breakLength: Infinity,
};

const shortest = 12; // characters that two values on one line may have together

/** Lists both values line by line: + what was there, - what was expected. */
function difference(actual, expected, headline) {
  const left = inspect(actual, full).split("\n");
  const right = inspect(expected, full).split("\n");
  let mark = "";
  if (left.length === 1 && right.length === 1 && left[0] !== right[0]) {
    const [a, b] = [left[0], right[0]];
    if (a.length + b.length <= shortest && typeof actual !== "object" && typeof expected !== "object") {
      return `${headline}\n\n${a} !== ${b}\n`;
    }
    let same = 0;
    while (a[same] === b[same]) same++;
    if (same > 2 && a.length + b.length < 80) mark = `\n  ${" ".repeat(same)}^`;
  }
  return `${headline}\n+ actual - expected\n\n${diff(left, right).join("\n")}${mark}\n`;
}

/** Lines are the same but for the comma that only the last entry lacks. */
const sameLine = (a, b) => a === b || `${a},` === b || a === `${b},`;
const longer = (a, b) => (a.length > b.length ? a : b);

/** The shortest edit of one list of lines into another, or a plain one if long. */
function diff(left, right) {
  let start = 0;
  while (start < left.length && start < right.length && sameLine(left[start], right[start])) start++;
  let end = 0;
  while (
    end < left.length - start &&
    end < right.length - start &&
    sameLine(left.at(-1 - end), right.at(-1 - end))
  )
    end++;
  const a = left.slice(start, left.length - end);
  const b = right.slice(start, right.length - end);
  const middle =
    a.length * b.length > 1e6 ? [...a.map((l) => `+ ${l}`), ...b.map((l) => `- ${l}`)] : align(a, b);
  const same = (lines) => lines.map((line) => `  ${line}`);
  const head = same(left.slice(0, start).map((line, i) => longer(line, right[i])));
  const tail = same(left.slice(left.length - end));
  const context = (lines, keep) => (lines.length > 5 ? keep(lines) : lines);
  return [
    ...context(head, (l) => ["...", ...l.slice(-3)]),
    ...middle,
    ...context(tail, (l) => [...l.slice(0, 3), "..."]),
  ];
}

function align(a, b) {
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = sameLine(a[i], b[j])
        ? common[i + 1][j + 1] + 1
        : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && sameLine(a[i], b[j])) {
      out.push(`  ${longer(a[i], b[j])}`);
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || common[i + 1][j] >= common[i][j + 1])) {
      out.push(`+ ${a[i++]}`);
    } else {
      out.push(`- ${b[j++]}`);
    }
  }
  return out;
}

function generatedMessage({ actual, expected, operator }) {
  if (operator === "deepStrictEqual" || operator === "strictEqual") {
    const sameText = inspect(actual, full) === inspect(expected, full);
    if (operator === "strictEqual" && sameText && typeof actual === "object" && actual !== null) {
      return `Values have same structure but are not reference-equal:\n\n${inspect(actual, full)}\n`;
    }
    if (sameText && operator === "deepStrictEqual") {
      return `Values identical but not reference-equal or different in kind:\n\n${inspect(actual, full)}\n`;
    }
    return difference(actual, expected, headlines[operator]);
  }
  if (operator in headlines && operator.startsWith("not")) {
    const text = inspect(actual, full);
    return text.includes("\n") ? `${headlines[operator]}\n\n${text}\n` : `${headlines[operator]} ${text}`;
  }
  if (operator === "deepEqual") {
    return `${headlines.deepEqual}\n\n${inspect(actual, full)}\n\nshould loosely deep-equal\n\n${inspect(expected, full)}`;
  }
  return `${inspect(actual)} ${operator} ${inspect(expected)}`;
}

class AssertionError extends Error {
  constructor(options) {
    if (typeof options !== "object" || options === null)
      throw invalidArgType("options", "of type object", options);
    const { message, operator, actual, expected } = options;
    super(message === undefined ? generatedMessage(options) : String(message));
    this.generatedMessage = message === undefined;
    this.code = "ERR_ASSERTION";
    this.actual = actual;
    this.expected = expected;
    this.operator = operator;
    Object.defineProperty(this, "name", { value: "AssertionError", configurable: true, writable: true });
    this.stack = this.stack.replace(/^Error/, "AssertionError [ERR_ASSERTION]");
  }

  toString() {
    return `${this.name} [${this.code}]: ${this.message}`;
  }
}

/** Throws the caller's message, or the generated text if there is none. */
function fail({ message, text, ...options }) {
  if (message instanceof Error) throw message;
  const err = new AssertionError({ ...options, message: message ?? text });
  err.generatedMessage = message === undefined;
  throw err;
}

function check(holds, actual, expected, message, operator) {
  if (!holds) fail({ actual, expected, message, operator });
}

function ok(...args) {
  const [value, message] = args;
  if (value) return;
  const text =
    args.length === 0
      ? "No value argument passed to `assert.ok()`"
      : "The expression evaluated to a falsy value";
  fail({ actual: value, expected: true, message, text, operator: "==" });
}

function assert(...args) {
  ok(...args);
}

/** Tells whether a thrown value is what the caller expects, or throws why not. */
function matches(actual, expected, message, operator) {
  if (expected === undefined) return;
  if (types.isRegExp(expected)) {
    if (expected.test(String(actual))) return;
    fail({
      actual,
      expected,
      message,
      text: `The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(String(actual))}\n`,
      operator,
    });
  }
  if (typeof expected === "function") {
    if (expected.prototype !== undefined && actual instanceof expected) return;
    if (Object.prototype.isPrototypeOf.call(Error, expected)) {
      fail({
        actual,
        expected,
        message,
        text: `The error is expected to be an instance of "${expected.name}". Received "${actual?.constructor?.name ?? actual}"\n\nError message:\n\n${actual?.message ?? inspect(actual)}`,
        operator,
      });
    }
    if (expected.call({}, actual) === true) return;
    fail({
      actual,
      expected,
      message,
      text: `The ${expected.name ? `"${expected.name}" ` : ""}validation function is expected to return "true". Received ${inspect(expected.call({}, actual))}`,
      operator,
    });
  }
  const keys = Object.keys(expected);
  if (expected instanceof Error) keys.push("name", "message");
  for (const key of keys) {
    const wanted = expected[key];
    const has = actual !== null && typeof actual === "object" && key in actual;
    if (has && types.isRegExp(wanted) && typeof actual[key] === "string" && wanted.test(actual[key]))
      continue;
    if (has && isDeepStrictEqual(actual[key], wanted)) continue;
    const pick = (o) =>
      Object.fromEntries(
        keys.filter((k) => o !== null && typeof o === "object" && k in o).map((k) => [k, o[k]]),
      );
    fail({
      actual,
      expected,
      message,
      text: difference(pick(actual), pick(expected), headlines.deepStrictEqual),
      operator,
    });
  }
}

function missing(operator, expected, message) {
  const what = operator === "rejects" ? "rejection" : "exception";
  let text = `Missing expected ${what}`;
  if (expected?.name) text += ` (${expected.name})`;
  text += message === undefined ? "." : `: ${message}`;
  fail({ actual: undefined, expected, message: message === undefined ? undefined : text, text, operator });
}

function unwanted(err, expected, message, operator) {
  if (expected !== undefined && typeof expected !== "string" && !isA(err, expected)) throw err;
  const text = typeof expected === "string" ? expected : message;
  fail({
    actual: err,
    expected,
    message: `Got unwanted ${operator === "doesNotReject" ? "rejection" : "exception"}${text ? `: ${text}` : "."}\nActual message: "${err?.message}"`,
    operator,
  });
}

function isA(err, expected) {
  try {
    matches(err, expected, undefined, "");
    return true;
  } catch {
    return false;
  }
}

function expectation(expected, message) {
  return typeof expected === "string" ? [undefined, expected] : [expected, message];
}

function throws(f, expected, message) {
  if (typeof f !== "function") throw invalidArgType("fn", "of type function", f);
  [expected, message] = expectation(expected, message);
  try {
    f();
  } catch (err) {
    return matches(err, expected, message, "throws");
  }
  return missing("throws", expected, message);
}

function doesNotThrow(f, expected, message) {
  if (typeof f !== "function") throw invalidArgType("fn", "of type function", f);
  try {
    f();
  } catch (err) {
    unwanted(err, expected, message, "doesNotThrow");
  }
}

function settle(promiseOrFunction) {
  if (typeof promiseOrFunction !== "function") {
    if (typeof promiseOrFunction?.then !== "function")
      throw invalidArgType("promiseFn", "of type function or an instance of Promise", promiseOrFunction);
    return promiseOrFunction;
  }
  const promise = promiseOrFunction();
  if (typeof promise?.then !== "function") {
    throw codedError(
      TypeError,
      "ERR_INVALID_RETURN_VALUE",
      `Expected instance of Promise to be returned from the "promiseFn" function but got ${promise === undefined ? "undefined" : inspect(promise)}.`,
    );
  }
  return promise;
}

async function rejects(promise, expected, message) {
  [expected, message] = expectation(expected, message);
  try {
    await settle(promise);
  } catch (err) {
    return matches(err, expected, message, "rejects");
  }
  return missing("rejects", expected, message);
}

async function doesNotReject(promise, expected, message) {
  try {
    await settle(promise);
  } catch (err) {
    unwanted(err, expected, message, "doesNotReject");
  }
}

const looseSame = (a, b) => a == b || (a !== a && b !== b);

Object.assign(assert, {
  AssertionError,
  ok,
  fail: (message) => fail({ message, text: "Failed", operator: "fail" }),
  equal: (a, b, message) => check(looseSame(a, b), a, b, message, "=="),
  notEqual: (a, b, message) => check(!looseSame(a, b), a, b, message, "!="),
  strictEqual: (a, b, message) => check(Object.is(a, b), a, b, message, "strictEqual"),
  notStrictEqual: (a, b, message) => check(!Object.is(a, b), a, b, message, "notStrictEqual"),
  deepEqual: (a, b, message) => check(isDeepEqual(a, b), a, b, message, "deepEqual"),
  notDeepEqual: (a, b, message) => check(!isDeepEqual(a, b), a, b, message, "notDeepEqual"),
  deepStrictEqual: (a, b, message) => check(isDeepStrictEqual(a, b), a, b, message, "deepStrictEqual"),
  notDeepStrictEqual: (a, b, message) => check(!isDeepStrictEqual(a, b), a, b, message, "notDeepStrictEqual"),
  throws,
  doesNotThrow,
  rejects,
  doesNotReject,
  match(text, pattern, message) {
    if (typeof text === "string" && pattern.test(text)) return;
    const generated =
      typeof text === "string"
        ? `The input did not match the regular expression ${inspect(pattern)}. Input:\n\n${inspect(text)}\n`
        : `The "string" argument must be of type string. Received type ${typeof text} (${inspect(text)})`;
    fail({ actual: text, expected: pattern, message, text: generated, operator: "match" });
  },
  doesNotMatch(text, pattern, message) {
    if (!pattern.test(text)) return;
    fail({
      actual: text,
      expected: pattern,
      message,
      text: `The input was expected to not match the regular expression ${inspect(pattern)}. Input:\n\n${inspect(text)}\n`,
      operator: "doesNotMatch",
    });
  },
  ifError(value) {
    if (value === null || value === undefined) return;
    const text = value instanceof Error ? value.message : inspect(value);
    fail({
      actual: value,
      expected: null,
      message: `ifError got unwanted exception: ${text}`,
      operator: "ifError",
    });
  },
});

function strict(...args) {
  ok(...args);
}
assert.strict = Object.assign(strict, assert, {
  equal: assert.strictEqual,
  notEqual: assert.notStrictEqual,
  deepEqual: assert.deepStrictEqual,
  notDeepEqual: assert.notDeepStrictEqual,
});
assert.strict.strict = assert.strict;

module.exports = assert;
