"use strict";
// How inspect writes errors: the stack, and what the stack does not say.

function stackOf(error) {
  const stack = error.stack;
  if (typeof stack === "string" && stack !== "") return stack;
  return Error.prototype.toString.call(error);
}

/**
 * Puts the class of the error into the first line when only the class says it:
 * many subclasses set no name.
 */
function withClass(stack, error, className, tag) {
  let name = "Error";
  try {
    if (error.name != null) name = String(error.name);
  } catch {
    // keep the default
  }
  const follows = stack.startsWith(name) && [undefined, ":", "\n"].includes(stack[name.length]);
  if (className === null) {
    stack = `[${name}: null prototype]${follows ? stack.slice(name.length) : stack}`;
  } else if (name !== className && name.endsWith("Error") && follows) {
    const shown = className.includes(name) ? className : `${className} [${name}]`;
    stack = shown + stack.slice(name.length);
  }
  return tag !== "" ? stack.replace(/^[^\n:]*/, (head) => `${head} [${tag}]`) : stack;
}

/** Drops own properties whose content the stack shows anyway. */
function dropShown(error, keys, stack) {
  for (const name of ["name", "message", "stack"]) {
    const at = keys.indexOf(name);
    if (at >= 0 && typeof error[name] === "string" && stack.includes(error[name])) keys.splice(at, 1);
  }
}

/** Formats an error; keys are its own keys, to which hidden ones are added. */
function errorText(ctx, error, className, tag, keys) {
  let stack = stackOf(error);
  dropShown(error, keys, stack);
  if (Object.hasOwn(error, "cause") && !keys.includes("cause")) keys.push("cause");
  if (Array.isArray(error.errors) && Object.hasOwn(error, "errors") && !keys.includes("errors"))
    keys.push("errors");
  stack = withClass(stack, error, className, tag);
  const message = error.message ? stack.indexOf(error.message) : -1;
  const from = message >= 0 ? message + error.message.length : 0;
  if (stack.indexOf("\n    at", from) < 0) stack = `[${stack}]`;
  if (ctx.indentation !== 0) stack = stack.replaceAll("\n", `\n${" ".repeat(ctx.indentation)}`);
  return stack;
}

module.exports = { errorText };
