//go:build !race

package clang

const raceEnabled = false
