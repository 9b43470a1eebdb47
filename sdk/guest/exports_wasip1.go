package guest

import (
	"runtime"
	"unsafe"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

const (
	// maxInput refuses a request for memory that no host makes in earnest.
	maxInput = 1 << 30
	// yieldEvery is how many calls there are to one yield, which costs as much as
	// ten small calls.
	yieldEvery = 64
	// keepInput is how large a scratch buffer may stay between calls.
	keepInput = 1 << 20
)

// The two scratch buffers. The garbage collector does not move memory, and these
// references keep it alive, so the host may hold the addresses between calls.
var (
	input  []byte
	output []byte
	calls  uint32
)

//go:wasmexport abi_version
func exportVersion() uint32 { return abi.Version }

//go:wasmexport alloc
func exportAlloc(n uint32) uint32 {
	if n == 0 || n > maxInput {
		return 0
	}
	if have := uint32(cap(input)); have < n || (have > keepInput && n <= keepInput) {
		input = make([]byte, n)
	}
	input = input[:n]
	return address(input)
}

//go:wasmexport handle
func exportHandle(op, ptr, n uint32) uint64 {
	var in []byte
	if n > 0 {
		if n > uint32(len(input)) || ptr != address(input) {
			return reply((&Error{Code: abi.CodeBadInput, Message: "input is not where alloc put it"}).AppendJSON(nil), true)
		}
		in = input[:n]
	}
	out, failure := invoke(Op(op), in)
	if calls++; calls%yieldEvery == 0 {
		// Only here can the runtime's own goroutines run, the collector's among
		// them: control returns to the host below, and comes straight back into
		// the next call.
		runtime.Gosched()
	}
	if failure != nil {
		return reply(failure.AppendJSON(nil), true)
	}
	return reply(out, false)
}

func reply(data []byte, isError bool) uint64 {
	output = data
	if len(data) == 0 {
		return 0
	}
	return abi.Pack(address(data), uint32(len(data)), isError)
}

func address(b []byte) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
