// Package assemblyscript holds the guest side of WASM ABI v1 in AssemblyScript, for who
// writes it into a new project. It has no code of its own.
package assemblyscript

import "embed"

// Files are the SDK, as caisson/*.ts, and a package.json with a lock file that names
// the compiler.
//
//go:embed caisson package.json package-lock.json
var Files embed.FS
