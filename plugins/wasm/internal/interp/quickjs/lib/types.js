"use strict";
// util.types: tells built-in objects apart by what they are, not by what their
// prototypes or tags say.

const TypedArray = Object.getPrototypeOf(Uint8Array);
const typedArrayName = Object.getOwnPropertyDescriptor(TypedArray.prototype, Symbol.toStringTag).get;

/**
 * Makes a test that calls a method which only works on the real thing. Values
 * that are no instances are sorted out first, since exceptions are dear.
 */
function brand(Class, probe) {
  return (value) => {
    if (!(value instanceof Class)) return false;
    try {
      probe(value);
      return true;
    } catch {
      return false;
    }
  };
}

function getter(prototype, name) {
  const { get } = Object.getOwnPropertyDescriptor(prototype, name);
  return (value) => get.call(value);
}

function method(prototype, name, ...args) {
  const f = prototype[name];
  return (value) => f.call(value, ...args);
}

const tagOf = Object.prototype.toString;
const tagged = (tag) => (value) =>
  typeof value === "object" && value !== null && tagOf.call(value) === `[object ${tag}]`;

const arrayNamed = (name) => (value) => ArrayBuffer.isView(value) && typedArrayName.call(value) === name;

const prototypeOfAsync = Object.getPrototypeOf(async () => {});
const prototypesOfGenerators = [
  Object.getPrototypeOf(function* () {}),
  Object.getPrototypeOf(async function* () {}),
];

const types = {
  isDate: brand(Date, method(Date.prototype, "getTime")),
  isRegExp: brand(RegExp, (value) => {
    if (value === RegExp.prototype) throw new TypeError();
    Object.getOwnPropertyDescriptor(RegExp.prototype, "source").get.call(value);
  }),
  isMap: brand(Map, getter(Map.prototype, "size")),
  isSet: brand(Set, getter(Set.prototype, "size")),
  isWeakMap: brand(WeakMap, method(WeakMap.prototype, "has", {})),
  isWeakSet: brand(WeakSet, method(WeakSet.prototype, "has", {})),
  isWeakRef: brand(WeakRef, method(WeakRef.prototype, "deref")),
  isPromise: (value) => value instanceof Promise && host.promise(value)[0] >= 0,
  isArrayBuffer: brand(ArrayBuffer, getter(ArrayBuffer.prototype, "byteLength")),
  isSharedArrayBuffer: brand(SharedArrayBuffer, getter(SharedArrayBuffer.prototype, "byteLength")),
  isAnyArrayBuffer: (value) => types.isArrayBuffer(value) || types.isSharedArrayBuffer(value),
  isArrayBufferView: (value) => ArrayBuffer.isView(value),
  isTypedArray: (value) => ArrayBuffer.isView(value) && typedArrayName.call(value) !== undefined,
  isDataView: (value) => ArrayBuffer.isView(value) && typedArrayName.call(value) === undefined,
  isNativeError: (value) => Error.isError(value),
  isNumberObject: brand(Number, method(Number.prototype, "valueOf")),
  isStringObject: brand(String, method(String.prototype, "valueOf")),
  isBooleanObject: brand(Boolean, method(Boolean.prototype, "valueOf")),
  isBigIntObject: brand(BigInt, method(BigInt.prototype, "valueOf")),
  isSymbolObject: brand(Symbol, method(Symbol.prototype, "valueOf")),
  isBoxedPrimitive: (value) =>
    types.isNumberObject(value) ||
    types.isStringObject(value) ||
    types.isBooleanObject(value) ||
    types.isBigIntObject(value) ||
    types.isSymbolObject(value),
  isAsyncFunction: (value) =>
    typeof value === "function" && Object.getPrototypeOf(value) === prototypeOfAsync,
  isGeneratorFunction: (value) =>
    typeof value === "function" && prototypesOfGenerators.includes(Object.getPrototypeOf(value)),
  isGeneratorObject: (value) => tagged("Generator")(value) || tagged("AsyncGenerator")(value),
  isMapIterator: tagged("Map Iterator"),
  isSetIterator: tagged("Set Iterator"),
  isModuleNamespaceObject: tagged("Module"),
  isArgumentsObject: (value) => tagged("Arguments")(value) && !(Symbol.toStringTag in value),
  // The engine does not say.
  isProxy: () => false,
  isExternal: () => false,
};

for (const name of [
  "Uint8Array",
  "Uint8ClampedArray",
  "Uint16Array",
  "Uint32Array",
  "Int8Array",
  "Int16Array",
  "Int32Array",
  "Float16Array",
  "Float32Array",
  "Float64Array",
  "BigInt64Array",
  "BigUint64Array",
]) {
  types[`is${name}`] = arrayNamed(name);
}

module.exports = types;
