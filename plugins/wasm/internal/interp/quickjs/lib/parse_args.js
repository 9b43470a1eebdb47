"use strict";
// util.parseArgs.

const { checkString, codedError, invalidArgType } = require("errors");

const problem = (code, text) => codedError(TypeError, code, text);

/** Splits arguments into options, positionals and the terminator. */
function* tokens(args, options) {
  const byShort = Object.fromEntries(
    Object.entries(options)
      .filter(([, o]) => o.short)
      .map(([name, o]) => [o.short, name]),
  );
  const takesValue = (name) => options[name]?.type === "string";
  const queue = [...args];
  while (queue.length > 0) {
    const arg = queue.shift();
    if (arg === "--") {
      yield { kind: "option-terminator" };
      for (const value of queue) yield { kind: "positional", value };
      return;
    }
    if (/^--[^=]+/.test(arg)) {
      const at = arg.indexOf("=");
      const name = at < 0 ? arg.slice(2) : arg.slice(2, at);
      let value = at < 0 ? undefined : arg.slice(at + 1);
      if (value === undefined && takesValue(name) && queue.length > 0) value = queue.shift();
      yield { kind: "option", name, rawName: `--${name}`, value };
    } else if (/^-[^-]/.test(arg)) {
      const letters = arg.slice(1);
      for (let i = 0; i < letters.length; i++) {
        const name = byShort[letters[i]] ?? letters[i];
        let value;
        if (takesValue(name)) {
          value = letters.slice(i + 1) || queue.shift();
          i = letters.length;
        }
        yield { kind: "option", name, rawName: `-${letters[i] ?? name}`, value };
      }
    } else {
      yield { kind: "positional", value: arg };
    }
  }
}

function check(token, options, strict, allowNegative) {
  let { name, rawName, value } = token;
  let known = Object.hasOwn(options, name) ? options[name] : undefined;
  let negative = false;
  if (!known && allowNegative && name.startsWith("no-") && options[name.slice(3)]?.type === "boolean") {
    name = name.slice(3);
    known = options[name];
    negative = true;
  }
  if (strict) {
    if (!known) throw problem("ERR_PARSE_ARGS_UNKNOWN_OPTION", `Unknown option '${rawName}'`);
    if (known.type === "string" && value === undefined) {
      throw problem("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${rawName} <value>' argument missing`);
    }
    if (known.type === "boolean" && value !== undefined) {
      throw problem("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${rawName}' does not take an argument`);
    }
  }
  return { name, value: value ?? !negative, multiple: known?.multiple };
}

function parseArgs({
  args = process.argv.slice(2),
  options = {},
  strict = true,
  allowPositionals = !strict,
  allowNegative = false,
  tokens: wantTokens = false,
} = {}) {
  if (!Array.isArray(args)) throw invalidArgType("args", "an instance of Array", args);
  for (const [name, option] of Object.entries(options)) checkString(option.type, `options.${name}.type`);
  const values = Object.create(null);
  const positionals = [];
  const seen = [...tokens(args, options)];
  for (const token of seen) {
    if (token.kind === "positional") {
      if (!allowPositionals) {
        throw problem(
          "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL",
          `Unexpected argument '${token.value}'. This command does not take positional arguments`,
        );
      }
      positionals.push(token.value);
    } else if (token.kind === "option") {
      const { name, value, multiple } = check(token, options, strict, allowNegative);
      if (multiple) (values[name] ??= []).push(value);
      else values[name] = value;
    }
  }
  for (const [name, option] of Object.entries(options)) {
    if (option.default !== undefined && !(name in values)) values[name] = option.default;
  }
  return wantTokens ? { values, positionals, tokens: seen } : { values, positionals };
}

module.exports = { parseArgs };
