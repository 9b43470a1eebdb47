// Package porttest finds addresses for servers that tests start.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports below those that systems give to clients: one of them would be taken by any
// connection of another test before the server that is to listen there has started.
const (
	low  = 16 << 10
	high = 32 << 10
)

// Free is an address of this machine at which nobody listened a moment ago.
func Free(t testing.TB) string {
	t.Helper()
	var last error
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return addr
	}
	t.Fatalf("no port is free: %v", last)
	return ""
}
