"use strict";
// Properties the way built-in objects have them.

/** Defines a property that listings do not show. */
function define(object, key, value) {
  Object.defineProperty(object, key, { value, writable: true, configurable: true, enumerable: false });
}

/** Copies methods and accessors to a prototype, hidden from listings. */
function methods(prototype, source) {
  for (const key of Reflect.ownKeys(source)) {
    const d = Object.getOwnPropertyDescriptor(source, key);
    Object.defineProperty(prototype, key, { ...d, enumerable: false });
  }
}

/** Makes a property that is computed when it is first asked for. */
function lazy(object, key, make) {
  Object.defineProperty(object, key, {
    get() {
      const value = make();
      define(object, key, value);
      return value;
    },
    set(value) {
      define(object, key, value);
    },
    configurable: true,
    enumerable: false,
  });
}

module.exports = { define, lazy, methods };
