//go:build race

package clang

// raceEnabled says that compiling an interpreter takes minutes.
const raceEnabled = true
