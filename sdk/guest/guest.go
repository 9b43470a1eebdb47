// Package guest is the guest side of WASM ABI v1 for modules built with the Go
// toolchain. Package abi describes the interface itself.
//
// Most authors use sdk/policy or sdk/language, which register their operations
// here. A module of another kind registers its own:
//
//	package main
//
//	import "github.com/caisson-run/caisson/sdk/guest"
//
//	func init() {
//		guest.Handle(guest.OpPrivate, func(in []byte) ([]byte, error) { return in, nil })
//	}
//
//	func main() {}
//
// and is built by
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags '-s -w' -o module.wasm .
//
// The registration belongs into init because a reactor has no main: the host runs
// the package initialisers and then only calls handlers. Its manifest needs
// "wasi: true", since the Go runtime itself imports WASI.
//
// The package owns the buffers at the boundary, turns panics into error objects,
// and yields to the Go scheduler every few calls, without which the garbage
// collector of a guest may fall behind until its memory ends.
//
// Everything but the exported functions also compiles natively, so a module's
// logic is tested by an ordinary go test, through [Invoke] if need be. It is not a
// host: nothing here loads modules.
package guest

import (
	"runtime"
	"slices"

	"github.com/caisson-run/caisson/sdk/canon"
	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// Error is the error object of the ABI: a handler returns it to choose the code
// the host sees. Any other error is sent with the code "error".
type Error = abi.Error

// Op is an operation's number, see package abi.
type Op = abi.Op

// OpPrivate is the first operation number that is a module's own.
const OpPrivate = abi.OpPrivate

// Handler answers one operation. in is valid during the call only. The reply may
// be in itself or any other slice; the package keeps it until the next call. Calls
// never overlap.
type Handler func(in []byte) ([]byte, error)

// handlers is package state because the functions a module exports are: there is
// one module per program, filled by its initialisers and then only read.
var handlers = map[Op]Handler{}

// Handle makes h answer op. It is for a module's init function, and not for
// concurrent use. Registering an operation twice panics, since two parts of a
// module then believe they own it. The operations describe and selftest are
// answered without a handler too, if only with the bare facts.
func Handle(op Op, h Handler) {
	if h == nil {
		panic("guest: nil handler for " + op.String())
	}
	if _, taken := handlers[op]; taken {
		panic("guest: a second handler for " + op.String())
	}
	handlers[op] = h
}

// Invoke answers op as the host would have it answered, and is how a native test
// reaches a module's handlers. The error is nil or an *[Error].
func Invoke(op Op, in []byte) ([]byte, error) {
	reply, failure := invoke(op, in)
	if failure != nil {
		return nil, failure
	}
	return reply, nil
}

func invoke(op Op, in []byte) (reply []byte, failure *Error) {
	defer func() {
		if p := recover(); p != nil {
			reply, failure = nil, &Error{Code: abi.CodePanic, Message: panicText(p)}
		}
	}()
	h, ok := handlers[op]
	switch {
	case ok:
	case op == abi.OpDescribe:
		return describe(), nil
	case op == abi.OpSelftest:
		return nil, nil
	default:
		return nil, &Error{Code: abi.CodeUnsupportedOp, Message: "this module does not serve " + op.String()}
	}
	reply, err := h(in)
	if err != nil {
		return nil, abi.AsError(err)
	}
	return reply, nil
}

// panicText does without package fmt, which is a large part of a small module.
func panicText(p any) string {
	switch v := p.(type) {
	case error:
		return v.Error()
	case string:
		return v
	case interface{ String() string }:
		return v.String()
	}
	return "a value that is neither an error nor a string"
}

// describe is the answer of a module that does not describe itself.
func describe() []byte {
	ops := []string{abi.OpDescribe.String(), abi.OpSelftest.String()}
	for op := range handlers {
		if s := op.String(); !slices.Contains(ops, s) {
			ops = append(ops, s)
		}
	}
	slices.Sort(ops)
	o := canon.NewObject(nil)
	o.String("built_with", runtime.Version())
	o.Strings("ops", ops)
	o.String("sdk", "go")
	return o.Close()
}
