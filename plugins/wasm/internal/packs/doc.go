// Package packs finds the interpreter files that the backend runs and verifies
// each against its pinned digest before anything reads it as code.
//
// The files come from npm packages pinned in plugins/wasm/packs, and in projects
// below it, by package-lock.json (with integrity hashes); `make packs` fetches
// them. Nothing is downloaded by this package. An interpreter that the operator built
// on the machine takes the place of the pinned one; see [Built].
package packs
