// Command extism is the policy of runtimes/wasm/testdata/guests/policy, with the same
// decoder and encoder, as a plugin for Extism. It does what Extism's own Go SDK for
// plugins does, which is not needed for four functions.
package main

import "github.com/caisson-run/caisson/sdk/policy"

// The functions of Extism's kernel, whose memory is not the plugin's.

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoadByte(offset uint64) uint32

//go:wasmimport extism:host/env input_load_u64
func inputLoadWord(offset uint64) uint64

//go:wasmimport extism:host/env alloc
func kernelAlloc(n uint64) uint64

//go:wasmimport extism:host/env store_u8
func storeByte(offset uint64, b uint32)

//go:wasmimport extism:host/env store_u64
func storeWord(offset uint64, v uint64)

//go:wasmimport extism:host/env output_set
func outputSet(offset, n uint64)

func input() []byte {
	n := inputLength()
	b := make([]byte, n)
	i := uint64(0)
	for ; i+8 <= n; i += 8 {
		w := inputLoadWord(i)
		for k := range uint64(8) {
			b[i+k] = byte(w >> (8 * k))
		}
	}
	for ; i < n; i++ {
		b[i] = byte(inputLoadByte(i))
	}
	return b
}

func output(b []byte) {
	n := uint64(len(b))
	at := kernelAlloc(n)
	i := uint64(0)
	for ; i+8 <= n; i += 8 {
		w := uint64(0)
		for k := range uint64(8) {
			w |= uint64(b[i+k]) << (8 * k)
		}
		storeWord(at+i, w)
	}
	for ; i < n; i++ {
		storeByte(at+i, uint32(b[i]))
	}
	outputSet(at, n)
}

//go:wasmexport admit
func admit() int32 {
	r, err := policy.DecodeRequest(input())
	if err != nil {
		return 1
	}
	v := policy.Verdict{Decision: policy.Allow, Limits: policy.Limits{WallMS: 5000}}
	if r.Language == "bash" {
		v = policy.Verdict{Decision: policy.Deny, Code: "language_not_allowed", Reason: "bash is not allowed here"}
	}
	output(v.AppendJSON(nil))
	return 0
}

//go:wasmexport echo
func echo() int32 {
	output(input())
	return 0
}

func main() {}
