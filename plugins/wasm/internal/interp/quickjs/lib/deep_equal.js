"use strict";
// Structural equality, as util.isDeepStrictEqual and assert.deepEqual mean it.

const types = require("types");

const enumerable = Object.prototype.propertyIsEnumerable;

function enumerableSymbols(object) {
  return Object.getOwnPropertySymbols(object).filter((s) => enumerable.call(object, s));
}

class Comparison {
  constructor(strict) {
    this.strict = strict;
    this.left = []; // pairs that contain the current one
    this.right = [];
  }

  equal(a, b) {
    if (a === b) return a !== 0 || Object.is(a, b) || !this.strict;
    if (this.strict) {
      if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) {
        return typeof a === "number" && Number.isNaN(a) && Number.isNaN(b);
      }
      if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
    } else {
      if (a === null || typeof a !== "object") {
        if (b === null || typeof b !== "object") return a == b || (Number.isNaN(a) && Number.isNaN(b));
        return false;
      }
      if (b === null || typeof b !== "object") return false;
    }
    return this.objects(a, b);
  }

  objects(a, b) {
    const tag = Object.prototype.toString.call(a);
    if (tag !== Object.prototype.toString.call(b)) return false;
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    if (!this.sameContent(a, b)) return false;
    if (types.isTypedArray(a)) return this.keys(a, b, (key) => !/^\d+$/.test(key));
    const at = this.left.indexOf(a);
    if (at >= 0) return this.right[at] === b;
    this.left.push(a);
    this.right.push(b);
    try {
      return this.keys(a, b, () => true) && this.members(a, b);
    } finally {
      this.left.pop();
      this.right.pop();
    }
  }

  /** Compares what built-in objects hold apart from properties. */
  sameContent(a, b) {
    if (Array.isArray(a)) return a.length === b.length;
    if (types.isDate(a)) return types.isDate(b) && Object.is(a.getTime(), b.getTime());
    if (types.isRegExp(a)) return types.isRegExp(b) && String(a) === String(b) && a.lastIndex === b.lastIndex;
    if (types.isNativeError(a) || a instanceof Error) {
      if (a.message !== b.message || a.name !== b.name) return false;
      for (const key of ["cause", "errors"]) {
        if (Object.hasOwn(a, key) !== Object.hasOwn(b, key) || !this.equal(a[key], b[key])) return false;
      }
      return true;
    }
    if (types.isTypedArray(a)) {
      if (!types.isTypedArray(b) || a.length !== b.length) return false;
      for (let i = 0; i < a.length; i++) {
        if (this.strict ? !Object.is(a[i], b[i]) : a[i] !== b[i] && !(a[i] !== a[i] && b[i] !== b[i]))
          return false;
      }
      return true;
    }
    if (types.isAnyArrayBuffer(a)) {
      return types.isAnyArrayBuffer(b) && this.sameContent(new Uint8Array(a), new Uint8Array(b));
    }
    if (types.isDataView(a)) {
      const bytes = (v) => new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
      return types.isDataView(b) && this.sameContent(bytes(a), bytes(b));
    }
    if (types.isSet(a)) return types.isSet(b) && a.size === b.size;
    if (types.isMap(a)) return types.isMap(b) && a.size === b.size;
    if (types.isBoxedPrimitive(a)) return types.isBoxedPrimitive(b) && Object.is(a.valueOf(), b.valueOf());
    if (types.isWeakMap(a) || types.isWeakSet(a) || types.isPromise(a)) return false;
    return true;
  }

  keys(a, b, wanted) {
    const left = Object.keys(a).filter(wanted);
    const right = Object.keys(b).filter(wanted);
    if (left.length !== right.length) return false;
    if (this.strict) {
      left.push(...enumerableSymbols(a));
      right.push(...enumerableSymbols(b));
      if (left.length !== right.length) return false;
    }
    for (const key of left) {
      if (!enumerable.call(b, key) || !this.equal(a[key], b[key])) return false;
    }
    return true;
  }

  members(a, b) {
    if (types.isSet(a)) {
      return this.matched(
        [...a],
        [...b],
        (v) => b.has(v),
        (x, y) => this.equal(x, y),
      );
    }
    if (types.isMap(a)) {
      const same = ([k, v], [l, w]) => this.equal(k, l) && this.equal(v, w);
      return this.matched([...a], [...b], ([k, v]) => b.has(k) && this.equal(v, b.get(k)), same);
    }
    return true;
  }

  /** Tells whether members can be paired off, whatever their order. */
  matched(left, right, present, same) {
    const open = left.filter((member) => !present(member));
    if (open.length === 0) return true;
    const rest = [...right];
    for (const member of left) {
      const at = rest.findIndex((other) => same(member, other));
      if (at < 0) return false;
      rest.splice(at, 1);
    }
    return true;
  }
}

module.exports = {
  isDeepEqual: (a, b) => new Comparison(false).equal(a, b),
  isDeepStrictEqual: (a, b) => new Comparison(true).equal(a, b),
};
