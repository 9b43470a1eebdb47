//go:build race

package interp

// raceEnabled says that compiling an interpreter takes minutes.
const raceEnabled = true
