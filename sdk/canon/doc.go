// Package canon reads and writes the JSON that crosses a module boundary.
//
// Writing is canonical in the sense of RFC 8785 (JCS), restricted to what the
// contracts of sdk/policy and sdk/language use: objects, arrays, strings,
// booleans and 64-bit integers. Members are in the order of their names, there
// is no insignificant white space, and only the characters that JSON requires to
// be escaped are escaped, so equal values have equal bytes. An [Object] does not
// sort for its caller: members are written in order, and the tests of the types
// that use it compare with a sorting encoder.
//
// Reading is strict, because the bytes come from a module nobody trusts: exact
// member names, no duplicates, valid UTF-8, bounded depth, and errors that name
// the member. encoding/json accepts "DECISION" for "decision" and the last of two
// equal members, which is how two readers of one verdict come to disagree.
//
// It is not a general JSON package: there is no reflection, which is what keeps a
// guest built with the Go toolchain small and a policy call within microseconds.
package canon
