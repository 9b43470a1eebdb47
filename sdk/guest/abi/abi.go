// Package abi is what both sides of WASM ABI v1 must agree on: operation numbers,
// how a reply is packed, the error object, and the names of host functions.
//
// A guest is a WebAssembly core module, used as a reactor: "_initialize" runs once
// if it is exported, "_start" never. It exports
//
//	memory
//	abi_version() -> i32                    major<<16 | minor
//	alloc(n i32) -> i32                     a place for n bytes of input; 0 refuses
//	handle(op, ptr, len i32) -> i64         ptr<<32 | len of the reply
//
// One call is in flight per instance. The host writes the payload where alloc said
// (an empty payload is handle(op, 0, 0) without alloc) and copies the reply out
// before it calls the instance again: the input is valid until the next alloc, the
// reply until the next call, and there is no free. A reply of zero is empty. The
// top bit of len marks an error object: {"code":…,"message":…}, see [Error].
//
// Payloads are canonical JSON, see sdk/canon. An operation that a guest does not
// serve is answered by the error code "unsupported_op".
//
// Functions a guest may import are those of [HostModule], each only when its
// manifest lists it, and WASI preview 1 when its manifest asks for it.
package abi

import "strconv"

// The version a guest reports: a host runs a guest whose major version is its own.
const (
	Major = 1
	Minor = 0
	// Version is the value of abi_version.
	Version = Major<<16 | Minor
)

// Names of what a guest exports.
const (
	ExportMemory     = "memory"
	ExportVersion    = "abi_version"
	ExportAlloc      = "alloc"
	ExportHandle     = "handle"
	ExportInitialize = "_initialize"
	// ExportStart marks a command module. A guest may export it beside
	// ExportInitialize; it is never called.
	ExportStart = "_start"
)

// Names of what a guest may import.
const (
	// HostModule is the module of the host's own functions.
	HostModule = "host_v1"
	// FuncLog is log(level, ptr, len i32): one UTF-8 message; levels are 1 trace,
	// 2 debug, 3 info, 4 warn, 5 error.
	FuncLog = "log"
	// FuncNow is now_ms() -> i64: milliseconds since the Unix epoch.
	FuncNow = "now_ms"
	// FuncRand is rand(ptr, len i32): fills memory with random bytes.
	FuncRand = "rand"
	// WASIModule is WASI preview 1.
	WASIModule = "wasi_snapshot_preview1"
)

// Op says what a call asks for.
type Op uint32

// Operations of version 1. Numbers from OpPrivate up are a module's own.
const (
	// OpDescribe asks what the module is; the reply is for people.
	OpDescribe Op = 1
	// OpSelftest asks the module to check itself; any reply but an error passes.
	OpSelftest Op = 2
	// OpConfigure hands an instance the operator's configuration, which the host
	// validated against the manifest's schema. It comes once per instance, after
	// _initialize and before anything else, and only when there is a
	// configuration; the reply is empty, or an error object that stops the load.
	OpConfigure Op = 3
	// OpAdmit asks a policy for a verdict on a request.
	OpAdmit Op = 16
	// OpResult shows a policy the outcome of a run.
	OpResult Op = 17
	// OpList asks a language table for its languages.
	OpList Op = 32
	// OpPlan asks a language table how a program is run.
	OpPlan Op = 33
	// OpPrivate is the first number that no version of this ABI will use.
	OpPrivate Op = 1024
)

// String returns the operation's name, for logs and errors.
func (o Op) String() string {
	switch o {
	case OpDescribe:
		return "describe"
	case OpSelftest:
		return "selftest"
	case OpConfigure:
		return "configure"
	case OpAdmit:
		return "admit"
	case OpResult:
		return "result"
	case OpList:
		return "list"
	case OpPlan:
		return "plan"
	}
	return "op " + strconv.FormatUint(uint64(o), 10)
}

// errorBit marks the length of an error object.
const errorBit = 1 << 31

// Pack makes the result of handle. n must be below 2 GiB.
func Pack(ptr, n uint32, isError bool) uint64 {
	v := uint64(ptr)<<32 | uint64(n)
	if isError {
		v |= errorBit
	}
	return v
}

// Unpack takes the result of handle apart.
func Unpack(v uint64) (ptr, n uint32, isError bool) {
	return uint32(v >> 32), uint32(v) &^ errorBit, v&errorBit != 0
}
