package guest

import "unsafe"

// The imports below are linked only into a module that calls the function using
// them, so a module that does not log does not have to be granted "log".

//go:wasmimport host_v1 log
func hostLog(level uint32, ptr unsafe.Pointer, n uint32)

//go:wasmimport host_v1 now_ms
func hostNow() int64

//go:wasmimport host_v1 rand
func hostRand(ptr unsafe.Pointer, n uint32)

// Log sends one message to the host's log, which cuts long ones and limits their
// rate. The manifest must grant "log". Natively it prints to standard error.
func Log(level Level, message string) {
	hostLog(uint32(level), unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)))
}

// NowMS returns milliseconds since the Unix epoch. The manifest must grant
// "now_ms". In a module declared deterministic it is constant.
func NowMS() int64 { return hostNow() }

// Rand fills p with random bytes. The manifest must grant "rand". In a module
// declared deterministic they are zeros.
func Rand(p []byte) {
	if len(p) > 0 {
		hostRand(unsafe.Pointer(unsafe.SliceData(p)), uint32(len(p)))
	}
}
