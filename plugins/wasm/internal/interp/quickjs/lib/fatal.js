"use strict";
// What the program's user sees of an error that nobody caught.

const { inspect } = require("inspect");
const { placeOf } = require("stack");
const { sources } = require("modules");
const { readText } = require("resolve");

const longestLine = 300;

/** Shows the line where an error was made, with a mark below; "" if unknown. */
function excerpt(err) {
  const place = err !== null && typeof err === "object" ? placeOf(err) : undefined;
  if (!place) return "";
  let text;
  try {
    text = sources.get(place.file) ?? readText(place.file);
  } catch {
    return "";
  }
  const line = text.split("\n")[place.line - 1];
  if (line === undefined || line.length > longestLine) return "";
  const indent = line.slice(0, place.column - 1).replace(/[^\t]/g, " ");
  return `${place.file}:${place.line}\n${line}\n${indent}^\n\n`;
}

/** Describes an uncaught error for standard error. */
function report(err) {
  if (err?.compiler !== undefined) return err.compiler;
  if (err instanceof Error) return `${excerpt(err)}${inspect(err)}\n`;
  return `Uncaught ${inspect(err)}\n`;
}

/** Makes an error of a rejection's reason that is none. */
function rejectionError(reason) {
  const err = new Error(
    "This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). " +
      `The promise rejected with the reason "${typeof reason === "symbol" || typeof reason !== "object" ? String(reason) : inspect(reason)}".`,
  );
  err.name = "UnhandledPromiseRejection";
  err.stack = `${err.name}: ${err.message}`;
  Object.defineProperty(err, "name", { enumerable: false });
  err.code = "ERR_UNHANDLED_REJECTION";
  return err;
}

module.exports = { rejectionError, report };
