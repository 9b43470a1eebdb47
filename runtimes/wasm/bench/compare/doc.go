// Package compare measures one policy on Caisson's own module runtime, on Extism and
// on Open Policy Agent's evaluator, in one run. It is a module of its own, so that what
// those depend on is no business of whoever builds Caisson, and has nothing to import.
//
//	go -C runtimes/wasm/bench/compare test -run '^$' -bench . ./...
package compare
