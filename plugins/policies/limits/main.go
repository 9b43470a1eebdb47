// Command limits is the policy that Caisson ships: allow-lists and caps from the
// operator's configuration. It is a WebAssembly module. Without a configuration it
// allows everything the host allows.
//
// It builds with GOOS=wasip1 GOARCH=wasm -buildmode=c-shared; natively it builds
// for its tests.
package main

import "github.com/caisson-run/caisson/sdk/policy"

func init() {
	policy.ServeConfig(func(text []byte) (func(policy.Request) policy.Verdict, error) {
		c, err := parseConfig(text)
		if err != nil {
			return nil, err
		}
		return c.decide, nil
	})
}

func main() {}
