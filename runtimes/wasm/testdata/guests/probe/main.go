// Command probe is a guest that does what a test asks for, good and bad.
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/guest"
)

var hoard [][]byte

func init() {
	for i, h := range []guest.Handler{
		func(in []byte) ([]byte, error) { return in, nil },      // 0: echo
		func([]byte) ([]byte, error) { panic("a deep reason") }, // 1: panic
		func([]byte) ([]byte, error) { os.Exit(7); return nil, nil },
		func([]byte) ([]byte, error) { // 3: spin
			for {
			}
		},
		func(in []byte) ([]byte, error) { // 4: sleep
			d, err := time.ParseDuration(string(in))
			time.Sleep(d)
			return nil, err
		},
		func([]byte) ([]byte, error) { // 5: memory
			for {
				hoard = append(hoard, make([]byte, 1<<20))
			}
		},
		func([]byte) ([]byte, error) { // 6: what the world looks like
			_, passwd := os.ReadFile("/etc/passwd")
			_, dir := os.ReadDir("/")
			n, stdin := os.Stdin.Read(make([]byte, 1))
			fmt.Println("nobody reads this")
			return fmt.Appendf(nil, "args %d env %d file %t dir %t stdin %d %v",
				len(os.Args), len(os.Environ()), passwd != nil, dir != nil, n, stdin), nil
		},
		func([]byte) ([]byte, error) { // 7: clocks and randomness
			var a, b [8]byte
			_, _ = rand.Read(a[:])
			guest.Rand(b[:])
			return fmt.Appendf(nil, "%s %d %x %x", time.Now().UTC().Format(time.RFC3339), guest.NowMS(), a, b), nil
		},
		func(in []byte) ([]byte, error) { // 8: log
			guest.Log(guest.LevelWarn, string(in))
			return nil, nil
		},
		func([]byte) ([]byte, error) { select {} },                                           // 9: block for ever
		func([]byte) ([]byte, error) { return nil, &guest.Error{Code: "no", Message: "no"} }, // 10: refuse
		func([]byte) ([]byte, error) { return []byte(strings.Repeat("x", 1<<20)), nil },      // 11: long reply
	} {
		guest.Handle(guest.OpPrivate+guest.Op(i), h)
	}
}

func main() {}
