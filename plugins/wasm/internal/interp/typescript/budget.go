//go:build !race

package typescript

const maxMemoryBytes = 256 << 20
