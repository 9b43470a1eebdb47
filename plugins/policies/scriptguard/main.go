// Command scriptguard is a policy that looks at program text for what hostile programs
// do and ordinary ones do not: reverse shells, miners, attempts on the host. It is a
// WebAssembly module. What it is sure of it denies before a run; what is only odd it
// remarks on beside the reply.
//
// It reads text and runs nothing, so it finds what is written plainly. Whoever wants to
// get past it does: it is a tripwire and a help to auditors, and no part of the sandbox.
//
// It builds with GOOS=wasip1 GOARCH=wasm -buildmode=c-shared; natively it builds for
// its tests.
package main

import "github.com/caisson-run/caisson/sdk/policy"

func init() {
	policy.ServeHooks(func(text []byte) (policy.Hooks, error) {
		c, err := parseConfig(text)
		if err != nil {
			return policy.Hooks{}, err
		}
		return policy.Hooks{Admit: c.admit, Result: c.result}, nil
	})
}

func main() {}
